#include "tests/sim/data_plane.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir::sim {
namespace {

// As the real data plane.
constexpr int64_t kConnectUs = 15'000'000;
constexpr int64_t kDialAgainUs = 20'000;
constexpr int64_t kStallUs = 50'000;
constexpr int64_t kBurstMax = 8;

}  // namespace

// The sending half of a connection: made when the sender starts its generation.
struct Fabric::OutHalf {
  struct Channel {
    explicit Channel(int64_t window_bytes) : credit(window_bytes) {}
    SenderCredit credit;
    std::function<void()> waker;
  };
  Process* process = nullptr;
  SimDataPlane* plane = nullptr;
  SimDataPlane::Key key;
  std::map<ChannelId, Channel> channels;
  std::deque<std::pair<ChannelId, StreamElement>> waiting;
  std::shared_ptr<InHalf> peer;  // once the connection stands
  bool pumping = false;
  bool is_broken = false;
};

// The receiving half.
struct Fabric::InHalf {
  struct Channel {
    explicit Channel(int64_t window_bytes) : credit(window_bytes) {}
    ReceiverCredit credit;
    std::deque<StreamElement> queue;
    int64_t queued_bytes = 0;
    std::function<void()> waker;
  };
  Process* process = nullptr;
  SimDataPlane* plane = nullptr;
  std::map<ChannelId, Channel> channels;
  std::weak_ptr<OutHalf> peer;
};

class SimDataPlane::Sender : public ChannelSender {
 public:
  Sender(Fabric& fabric, std::shared_ptr<Fabric::OutHalf> half, const ChannelId& id)
      : fabric_(fabric), half_(std::move(half)), id_(id), channel_(half_->channels.at(id)) {}

  void Push(StreamElement element) override {
    channel_.credit.Take(CreditBytes(element));
    if (half_->is_broken || !half_->process->alive()) return;
    half_->waiting.emplace_back(id_, std::move(element));
    fabric_.Pump(half_);
  }
  bool HasCredit() const override { return channel_.credit.HasCredit(); }
  void SetCreditWaker(std::function<void()> waker) override { channel_.waker = std::move(waker); }

 private:
  Fabric& fabric_;
  std::shared_ptr<Fabric::OutHalf> half_;
  const ChannelId id_;
  Fabric::OutHalf::Channel& channel_;
};

class SimDataPlane::Receiver : public ChannelReceiver {
 public:
  Receiver(Fabric& fabric, std::shared_ptr<Fabric::InHalf> half, const ChannelId& id)
      : fabric_(fabric), half_(std::move(half)), id_(id), channel_(half_->channels.at(id)) {}

  StatusOr<bool> TryPop(StreamElement* element) override {
    if (channel_.queue.empty()) return false;
    *element = std::move(channel_.queue.front());
    channel_.queue.pop_front();
    const int64_t bytes = CreditBytes(*element);
    channel_.queued_bytes -= bytes;
    const int64_t give_bytes = channel_.credit.Pop(bytes);
    std::shared_ptr<Fabric::OutHalf> out = half_->peer.lock();
    if (give_bytes > 0 && out && half_->process->alive()) {
      out->process->After(fabric_.Delay(), [out, id = id_, give_bytes] {
        if (out->is_broken) return;
        Fabric::OutHalf::Channel& channel = out->channels.at(id);
        const SenderCredit::Given given = channel.credit.Give(give_bytes);
        WEIR_CHECK(given != SenderCredit::Given::kRefused);
        if (given == SenderCredit::Given::kPositive && channel.waker) channel.waker();
      });
    }
    return true;
  }
  bool HasElement() const override { return !channel_.queue.empty(); }
  void SetArrivalWaker(std::function<void()> waker) override { channel_.waker = std::move(waker); }
  int64_t queued_bytes() const override { return channel_.queued_bytes; }

 private:
  Fabric& fabric_;
  std::shared_ptr<Fabric::InHalf> half_;
  const ChannelId id_;
  Fabric::InHalf::Channel& channel_;
};

std::unique_ptr<SimDataPlane> Fabric::Open(Process& process, const std::string& address) {
  return std::make_unique<SimDataPlane>(*this, process, address);
}

int64_t Fabric::Delay() { return scheduler_.Between(0, world_.channel_us_max); }

void Fabric::Pump(const std::shared_ptr<OutHalf>& out) {
  if (!out->peer || out->pumping || out->waiting.empty()) return;
  out->pumping = true;
  scheduler_.After(Delay(), [this, out] {
    if (out->is_broken) return;
    if (network_.IsBlocked(out->process->name(), out->peer->process->name())) {
      scheduler_.After(kStallUs, [this, out] {
        out->pumping = false;
        if (!out->is_broken) Pump(out);
      });
      return;
    }
    out->peer->process->After(0, [this, out] {
      out->pumping = false;
      if (out->is_broken) return;
      for (int64_t left = scheduler_.Between(1, kBurstMax); left > 0 && !out->waiting.empty();
           --left) {
        auto [id, element] = std::move(out->waiting.front());
        out->waiting.pop_front();
        InHalf::Channel& channel = out->peer->channels.at(id);
        const bool was_empty = channel.queue.empty();
        channel.queued_bytes += CreditBytes(element);
        channel.queue.push_back(std::move(element));
        if (was_empty && channel.waker) channel.waker();
      }
      Pump(out);
    });
  });
}

void Fabric::Break(const std::shared_ptr<OutHalf>& out, const std::string& why) {
  if (out->is_broken) return;
  out->is_broken = true;
  out->waiting.clear();
  std::erase(connections_, out);
  std::shared_ptr<InHalf> in = out->peer;
  const std::string name = Concat("connection of ", out->process->title(), " to ",
                                  in ? in->process->title() : std::string("nobody"));
  if (scheduler_.tracing()) scheduler_.Trace("fabric", Concat(name, " breaks: ", why));
  const Status status = UnavailableError(Concat(name, ": ", why));
  const SimDataPlane::Key key = out->key;
  out->process->After(Delay(), [plane = out->plane, key, status] { plane->Broken(key, status); });
  if (in) {
    in->process->After(Delay(), [plane = in->plane, key, status] { plane->Broken(key, status); });
  }
}

bool Fabric::BreakOne() {
  if (connections_.empty()) return false;
  std::shared_ptr<OutHalf> out = connections_[scheduler_.random().Below(connections_.size())];
  probes_.Hit(Probe::kChannelBroke);
  Break(out, "reset by peer");
  return true;
}

void Fabric::OnDeath(Process& process) {
  std::erase_if(planes_, [&](const auto& item) { return &item.second->process_ == &process; });
  for (const std::shared_ptr<OutHalf>& out : std::vector(connections_)) {
    if (out->process == &process || out->peer->process == &process) Break(out, "closed by peer");
  }
}

SimDataPlane::SimDataPlane(Fabric& fabric, Process& process, std::string address)
    : fabric_(fabric), process_(process), address_(std::move(address)) {
  fabric_.planes_[address_] = this;
}

SimDataPlane::~SimDataPlane() {
  auto it = fabric_.planes_.find(address_);
  if (it != fabric_.planes_.end() && it->second == this) fabric_.planes_.erase(it);
}

DataPlane::Channels SimDataPlane::StartGeneration(const Generation& generation,
                                                  std::function<void()> connected,
                                                  std::function<void(Status)> broken) {
  const Key key{generation.job, generation.generation};
  WEIR_CHECK(!active_.contains(key) && !ended_.contains(key));
  Active& active = active_[key];
  active.self = generation.self;
  active.connected = std::move(connected);
  active.broken = std::move(broken);
  Channels channels;
  for (const Receive& receive : generation.receives) {
    std::shared_ptr<Fabric::InHalf>& in = active.in[receive.from];
    if (!in) {
      in = std::make_shared<Fabric::InHalf>();
      in->process = &process_;
      in->plane = this;
    }
    in->channels.try_emplace(receive.channel, receive.window_bytes);
    channels.receivers.push_back(std::make_unique<Receiver>(fabric_, in, receive.channel));
  }
  std::map<WorkerName, std::string> addresses;
  for (const Send& send : generation.sends) {
    std::shared_ptr<Fabric::OutHalf>& out = active.out[send.to];
    if (!out) {
      out = std::make_shared<Fabric::OutHalf>();
      out->process = &process_;
      out->plane = this;
      out->key = key;
    }
    addresses[send.to] = send.data_address;
    out->channels.try_emplace(send.channel, send.window_bytes);
    channels.senders.push_back(std::make_unique<Sender>(fabric_, out, send.channel));
  }
  active.down = active.in.size() + active.out.size();
  for (const auto& [to, out] : active.out) Dial(out, addresses[to]);
  process_.After(kConnectUs, [this, key] {
    auto it = active_.find(key);
    if (it != active_.end() && it->second.down > 0) {
      Broken(key, UnavailableError("not all connections stand in time"));
    }
  });
  return channels;
}

// Each attempt asks once; a peer that has not started the generation yet is asked again.
void SimDataPlane::Dial(const std::shared_ptr<Fabric::OutHalf>& out, const std::string& address) {
  process_.After(fabric_.Delay(), [this, out, address] {
    auto here = active_.find(out->key);
    if (here == active_.end() || here->second.is_broken) return;
    auto there = fabric_.planes_.find(address);
    if (there == fabric_.planes_.end()) {
      Broken(out->key, UnavailableError(Concat("cannot connect to ", address, ": refused")));
      return;
    }
    SimDataPlane& peer = *there->second;
    auto dial_again = [this, out, address] {
      process_.After(kDialAgainUs, [this, out, address] { Dial(out, address); });
    };
    if (peer.ended_.contains(out->key)) {
      Broken(out->key, UnavailableError(Concat("refused by ", address, ": generation has ended")));
    } else if (!peer.active_.contains(out->key) || peer.process_.paused() ||
               fabric_.network_.IsBlocked(process_.name(), peer.process_.name()) ||
               fabric_.network_.IsBlocked(peer.process_.name(), process_.name())) {
      dial_again();
    } else {
      Active& active = peer.active_.at(out->key);
      auto in = active.in.find(here->second.self);
      WEIR_CHECK(in != active.in.end());
      out->peer = in->second;
      in->second->peer = out;
      fabric_.connections_.push_back(out);
      peer.process_.After(0, [&peer, key = out->key] { peer.CountUp(key); });
      CountUp(out->key);
      fabric_.Pump(out);
    }
  });
}

void SimDataPlane::CountUp(const Key& key) {
  auto it = active_.find(key);
  if (it == active_.end()) return;
  WEIR_CHECK(it->second.down > 0);
  if (--it->second.down == 0 && !it->second.is_broken) it->second.connected();
}

void SimDataPlane::Broken(const Key& key, const Status& status) {
  auto it = active_.find(key);
  if (it == active_.end() || it->second.is_broken) return;
  it->second.is_broken = true;
  it->second.broken(status);
}

void SimDataPlane::EndGeneration(const JobId& job, weir::Generation generation,
                                 std::function<void()> ended) {
  const Key key{job, generation};
  ended_.insert(key);
  if (auto it = active_.find(key); it != active_.end()) {
    Active active = std::move(it->second);
    active_.erase(it);
    for (const auto& [to, out] : active.out) {
      if (out->peer) fabric_.Break(out, "closed by peer");
      out->is_broken = true;
    }
    for (const auto& [from, in] : active.in) {
      if (std::shared_ptr<Fabric::OutHalf> out = in->peer.lock()) {
        fabric_.Break(out, "closed by peer");
      }
    }
  }
  process_.After(0, std::move(ended));
}

}  // namespace weir::sim
