#include "common/rpc/rpc_client.h"

#include <grpc/support/time.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>

#include <algorithm>
#include <climits>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "common/base/concat.h"
#include "common/graph/job_options.h"
#include "common/rpc/grpc_bytes.h"

namespace weir {
namespace {

constexpr size_t kChannelsMax = 1024;

// Ends with the channel; until then there is no way to take a pending one back.
constexpr int64_t kWatchRearmUs = 3'600'000'000;

gpr_timespec DeadlineIn(int64_t us) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(us, GPR_TIMESPAN));
}

grpc::ChannelArguments MakeArguments(int64_t silence_timeout_us) {
  int silence_ms = static_cast<int>(std::clamp<int64_t>(silence_timeout_us / 1000, 100, INT_MAX));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(RpcClient::kMessageBytesMax);
  arguments.SetMaxSendMessageSize(RpcClient::kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // In spite of its name the least time that an attempt to connect is given; a busy peer needs
  // some.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, std::max(silence_ms / 2, 100));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, silence_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Without calls gRPC would close the connection after 30 minutes: to a watch that is a break.
  arguments.SetInt(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, INT_MAX);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

Status FromGrpc(const grpc::Status& status, const std::string& address, const std::string& method,
                int64_t timeout_us) {
  const std::string whole_message = status.error_message();  // returned by value
  std::string_view message = whole_message;
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return UnavailableError(
          Concat("no answer from ", address, " within ", FormatDuration(timeout_us)));
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return ResourceExhaustedError(Concat("call to ", address, ": ", message)).WithRetry(false);
    case grpc::StatusCode::UNIMPLEMENTED:
      return Status(StatusCode::kFailedPrecondition, ErrorDomain::kExternal,
                    Concat(address, " does not know ", method,
                           ": it is another version of Weir, or not Weir"))
          .WithRetry(false);
    default: {
      // Of gRPC's long story only the end says why: "… to remote host: Connection refused".
      constexpr std::string_view kEnd = "remote host: ";
      size_t end = message.rfind(kEnd);
      if (end != std::string_view::npos) message.remove_prefix(end + kEnd.size());
      // "DNS resolution failed for host:7070: C-ares status is not … : Domain name not found"
      size_t last = message.rfind(": ");
      if (message.starts_with("DNS resolution failed") && last != std::string_view::npos) {
        message.remove_prefix(last + 2);
      }
      return UnavailableError(Concat("cannot reach ", address, ": ", message));
    }
  }
}

}  // namespace

// Thread: everything under mutex_, but for what only the own thread touches.
class RpcClient::Impl {
 public:
  explicit Impl(int64_t silence_timeout_us) : arguments_(MakeArguments(silence_timeout_us)) {
    SilenceGrpc();
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "rpc-client");
      Run();
    });
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      for (CallTag* call : calls_) call->context.TryCancel();
      for (WatchTag* watch : watches_) watch->channel.reset();
      // The last reference to a channel ends the watches on it.
      channels_.clear();
      queue_.Shutdown();
    }
    thread_.join();
  }

  void Call(const std::string& address, const std::string& method, std::string request,
            int64_t timeout_us, Done done) {
    auto call = std::make_unique<CallTag>(address, method, timeout_us, std::move(done));
    call->context.set_deadline(DeadlineIn(timeout_us));
    grpc::ByteBuffer bytes = ToByteBuffer(std::move(request));
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    grpc::GenericStub stub(ChannelTo(address));
    call->reader = stub.PrepareUnaryCall(&call->context, call->method, bytes, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->response, &call->status, static_cast<Tag*>(call.get()));
    calls_.insert(call.release());
  }

  void Watch(const std::string& address, std::function<void()> broken) {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    auto watch = std::make_unique<WatchTag>(address, ++last_watch_, std::move(broken));
    watch->channel = ChannelTo(address);
    watched_[address] = watch->number;
    watches_.insert(watch.get());
    Arm(watch.release());
  }

  void Unwatch(const std::string& address) {
    std::lock_guard lock(mutex_);
    watched_.erase(address);
    channels_.erase(address);
    for (WatchTag* watch : watches_) {
      if (watch->address == address) watch->channel.reset();
    }
  }

 private:
  struct Tag {
    virtual ~Tag() = default;
  };
  struct CallTag : Tag {
    CallTag(std::string address, std::string method, int64_t timeout_us, Done done)
        : address(std::move(address)),
          method(std::move(method)),
          timeout_us(timeout_us),
          done(std::move(done)) {}
    const std::string address;
    const std::string method;
    const int64_t timeout_us;
    Done done;
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };
  struct WatchTag : Tag {
    WatchTag(std::string address, uint64_t number, std::function<void()> broken)
        : address(std::move(address)), number(number), broken(std::move(broken)) {}
    const std::string address;
    const uint64_t number;
    std::function<void()> broken;
    std::shared_ptr<grpc::Channel> channel;  // null: given up
    grpc_connectivity_state last = GRPC_CHANNEL_IDLE;
  };

  // REQUIRES: mutex_ is held.
  const std::shared_ptr<grpc::Channel>& ChannelTo(const std::string& address) {
    auto it = channels_.find(address);
    if (it != channels_.end()) return it->second;
    if (channels_.size() >= kChannelsMax) {
      // Peers come and go; what is under way on a channel keeps it for itself.
      std::erase_if(channels_, [&](const auto& entry) { return !watched_.contains(entry.first); });
    }
    return channels_
        .emplace(address,
                 grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments_))
        .first->second;
  }

  // Asks for the next change of state, connecting if need be. REQUIRES: mutex_ is held.
  void Arm(WatchTag* watch) {
    watch->last = watch->channel->GetState(/*try_to_connect=*/true);
    watch->channel->NotifyOnStateChange(watch->last, DeadlineIn(kWatchRearmUs), &queue_,
                                        static_cast<Tag*>(watch));
  }

  void Run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
      Tag* done = static_cast<Tag*>(tag);
      if (auto* call = dynamic_cast<CallTag*>(done)) {
        FinishCall(std::unique_ptr<CallTag>(call));
      } else {
        FinishWatch(static_cast<WatchTag*>(done), ok);
      }
    }
  }

  void FinishCall(std::unique_ptr<CallTag> call) {
    {
      std::lock_guard lock(mutex_);
      calls_.erase(call.get());
      if (stopping_) return;
    }
    if (call->status.ok()) {
      call->done(ToString(call->response));
    } else {
      call->done(FromGrpc(call->status, call->address, call->method, call->timeout_us));
    }
  }

  void FinishWatch(WatchTag* watch, bool changed) {
    std::function<void()> broken;
    {
      std::lock_guard lock(mutex_);
      auto current = watched_.find(watch->address);
      bool wanted = !stopping_ && watch->channel != nullptr && current != watched_.end() &&
                    current->second == watch->number;
      // The connection may stand again by now: that it left READY is what counts.
      bool broke = changed && watch->last == GRPC_CHANNEL_READY;
      if (wanted && !broke) {
        Arm(watch);
        return;
      }
      if (wanted) broken = std::move(watch->broken);
      watches_.erase(watch);
    }
    delete watch;
    if (broken) broken();
  }

  const grpc::ChannelArguments arguments_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
  std::map<std::string, uint64_t> watched_;  // address to the number of its watch
  uint64_t last_watch_ = 0;
  std::set<CallTag*> calls_;     // owned by the queue
  std::set<WatchTag*> watches_;  // owned by the queue
  grpc::CompletionQueue queue_;
  std::thread thread_;
};

RpcClient::RpcClient(int64_t silence_timeout_us)
    : impl_(std::make_unique<Impl>(silence_timeout_us)) {}

RpcClient::~RpcClient() = default;

void RpcClient::Call(const std::string& address, const std::string& method, std::string request,
                     int64_t timeout_us, Done done) {
  impl_->Call(address, method, std::move(request), timeout_us, std::move(done));
}

void RpcClient::Watch(const std::string& address, std::function<void()> broken) {
  impl_->Watch(address, std::move(broken));
}

void RpcClient::Unwatch(const std::string& address) { impl_->Unwatch(address); }

}  // namespace weir
