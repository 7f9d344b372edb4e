#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/check.h"

// Coroutines for flows of effects ("create, sync, link, sync the directory"): each step is still a
// request whose outcome comes back as mail, so that the flow can be stopped between any two.
// Everything of one flow runs on one executor. Take parameters by value: a frame outlives its call.
namespace weir {

template <typename T>
class Co;

namespace internal {

struct CoFinal {
  bool await_ready() noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> handle) noexcept {
    std::coroutine_handle<> next = handle.promise().continuation;
    return next ? next : std::noop_coroutine();
  }
  void await_resume() noexcept {}
};

struct CoPromiseBase {
  std::coroutine_handle<> continuation;
  std::suspend_always initial_suspend() noexcept { return {}; }
  CoFinal final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { std::terminate(); }
};

template <typename T>
struct CoPromise : CoPromiseBase {
  std::optional<T> value;
  Co<T> get_return_object();
  template <typename U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
};

template <>
struct CoPromise<void> : CoPromiseBase {
  Co<void> get_return_object();
  void return_void() {}
};

}  // namespace internal

// A flow that has not started yet; starts when awaited or spawned. Owns its frame: destroying it
// ends the flow where it waits. Thread: confined to its executor.
template <typename T = void>
class [[nodiscard]] Co {
 public:
  using promise_type = internal::CoPromise<T>;

  Co(Co&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Co& operator=(Co&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Co() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    handle_.promise().continuation = awaiting;
    return handle_;
  }
  T await_resume() {
    if constexpr (!std::is_void_v<T>) return std::move(*handle_.promise().value);
  }

  void Resume() { handle_.resume(); }
  bool done() const { return handle_.done(); }

 private:
  friend promise_type;
  explicit Co(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

namespace internal {
template <typename T>
Co<T> CoPromise<T>::get_return_object() {
  return Co<T>(std::coroutine_handle<CoPromise<T>>::from_promise(*this));
}
inline Co<void> CoPromise<void>::get_return_object() {
  return Co<void>(std::coroutine_handle<CoPromise<void>>::from_promise(*this));
}
}  // namespace internal

// Awaits one request: `start` is called with a callback `done(T)` and the flow goes on when that
// is called (once; later calls are ignored), or never if the flow is destroyed first.
//   Status status = co_await Async<Status>([&](auto done) { files.Sync(path, done); });
// Keep `start` in a named variable or a function that returns Async<T>, not in nested temporaries.
template <typename T>
class [[nodiscard]] Async {
 public:
  using Done = std::function<void(T)>;
  explicit Async(std::function<void(Done)> start) : start_(std::move(start)) {}
  Async(Async&&) = default;
  ~Async() {
    if (state_) state_->waiting = {};
  }

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> handle) {
    state_ = std::make_shared<State>();
    std::shared_ptr<State> state = state_;
    auto start = std::move(start_);
    start([state](T value) {
      if (state->value) return;
      state->value.emplace(std::move(value));
      if (std::coroutine_handle<> waiting = std::exchange(state->waiting, {})) waiting.resume();
    });
    if (state->value) return false;  // answered inside the call
    state->waiting = handle;
    return true;
  }
  T await_resume() { return std::move(*state_->value); }

 private:
  struct State {
    std::optional<T> value;
    std::coroutine_handle<> waiting;
  };
  std::function<void(Done)> start_;
  std::shared_ptr<State> state_;
};

// Lets flows wait until something is announced. Thread: confined to its executor.
class CoSignal {
 public:
  // Resumes when Notify is next called.
  Async<bool> Wait() {
    return Async<bool>([this](Async<bool>::Done done) { waiting_.push_back(std::move(done)); });
  }
  void Notify() {
    std::list<Async<bool>::Done> waiting = std::move(waiting_);
    waiting_.clear();
    for (auto& done : waiting) done(true);
  }

 private:
  std::list<Async<bool>::Done> waiting_;
};

// Owns running flows; destroying it ends them where they wait. Must not be destroyed from inside
// one of its own flows. Thread: confined to its executor.
class CoScope {
 public:
  CoScope() = default;
  CoScope(const CoScope&) = delete;
  CoScope& operator=(const CoScope&) = delete;

  // Starts the flow at once, inside the call.
  void Spawn(Co<void> flow) {
    Reap();
    flows_.push_back(std::move(flow));
    flows_.back().Resume();
  }
  void Reap() {
    for (auto it = flows_.begin(); it != flows_.end();) {
      it = it->done() ? flows_.erase(it) : std::next(it);
    }
  }
  void Clear() { flows_.clear(); }

 private:
  std::list<Co<void>> flows_;
};

}  // namespace weir
