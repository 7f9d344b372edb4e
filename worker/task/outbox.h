#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/threading/executor.h"

namespace weir {

// Messages to the coordinator that must arrive: what is added goes out in one call at a time, in
// order, again and again until it is answered OK or refused as stale. Bounded by what one
// generation can have outstanding. Thread: confined to its executor.
template <typename Item>
class Outbox {
 public:
  using Done = std::function<void(Status)>;
  using Send = std::function<void(std::vector<Item> items, Done done)>;

  static constexpr int64_t kRetryUs = 100'000;

  // `stale`: the coordinator says that these messages are of a generation that has ended.
  Outbox(Timers& timers, Send send, std::function<void()> stale)
      : state_(std::make_shared<State>(State{timers, std::move(send), std::move(stale), {}, {}})) {}
  ~Outbox() { Close(); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void Add(Item item) {
    if (state_->closed) return;
    state_->waiting.push_back(std::move(item));
    SendNext(state_);
  }
  // Nothing is sent any more.
  void Close() {
    state_->closed = true;
    state_->waiting.clear();
  }

 private:
  struct State {
    Timers& timers;
    Send send;
    std::function<void()> stale;
    std::vector<Item> waiting;
    std::vector<Item> in_flight;
    bool closed = false;
    bool busy = false;
  };

  static void SendNext(const std::shared_ptr<State>& state) {
    if (state->busy || state->closed) return;
    if (state->in_flight.empty()) state->in_flight = std::exchange(state->waiting, {});
    if (state->in_flight.empty()) return;
    state->busy = true;
    state->send(state->in_flight, [state](Status status) {
      state->busy = false;
      if (state->closed) return;
      if (status.ok()) {
        state->in_flight.clear();
        SendNext(state);
      } else if (status.code() == StatusCode::kStale) {
        state->closed = true;
        std::function<void()> stale = state->stale;
        stale();
      } else {
        state->busy = true;
        state->timers.After(kRetryUs, [state] {
          state->busy = false;
          SendNext(state);
        });
      }
    });
  }

  std::shared_ptr<State> state_;
};

}  // namespace weir
