#include "common/rpc/rpc_server.h"

#include <grpc/support/time.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/rpc/grpc_bytes.h"
#include "common/rpc/rpc_client.h"

namespace weir {
namespace {

constexpr int64_t kShutdownUs = 300'000;

// What keeps anybody from listening on `address`: gRPC does not tell.
Status WhyNotListening(const std::string& address) {
  std::string what = Concat("cannot listen on ", address);
  size_t colon = address.rfind(':');
  std::string host = colon == std::string::npos ? address : address.substr(0, colon);
  std::string port = colon == std::string::npos ? "0" : address.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return UnavailableError(Concat(what, ": ", gai_strerror(error)));
  }
  Status status = UnavailableError(what);
  for (addrinfo* info = found; info != nullptr; info = info->ai_next) {
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol);
    if (fd < 0) continue;
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    bool taken = bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, 1) != 0;
    if (taken) status = ErrnoError(errno, what);
    close(fd);
    if (taken) break;
  }
  freeaddrinfo(found);
  return status;
}

class CallReactor;
class PendingReply;

// The calls that wait for an answer. Outlives the server for as long as somebody holds a Reply.
// Thread: thread-safe.
class PendingReplies {
 public:
  // False when stopped.
  bool Add(PendingReply* reply, const std::shared_ptr<PendingReply>& shared);
  void Remove(PendingReply* reply);
  // Refuses all, and every one that comes.
  void Stop();

 private:
  std::mutex mutex_;
  bool stopping_ = false;
  std::map<PendingReply*, std::weak_ptr<PendingReply>> replies_;
};

// The answer that a call waits for; shared by every copy of its Reply. Thread: thread-safe.
class PendingReply {
 public:
  PendingReply(CallReactor* reactor, std::shared_ptr<PendingReplies> all)
      : reactor_(reactor), all_(std::move(all)) {}
  ~PendingReply() {
    all_->Remove(this);
    Refuse();
  }
  void Send(std::string bytes);
  void Refuse();

 private:
  // Null once answered; until then the reactor lives, for it ends with its answer.
  std::atomic<CallReactor*> reactor_;
  const std::shared_ptr<PendingReplies> all_;
};

bool PendingReplies::Add(PendingReply* reply, const std::shared_ptr<PendingReply>& shared) {
  std::lock_guard lock(mutex_);
  if (!stopping_) replies_.emplace(reply, shared);
  return !stopping_;
}

void PendingReplies::Remove(PendingReply* reply) {
  std::lock_guard lock(mutex_);
  replies_.erase(reply);
}

void PendingReplies::Stop() {
  std::map<PendingReply*, std::weak_ptr<PendingReply>> replies;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    replies.swap(replies_);
  }
  for (auto& [raw, weak] : replies) {
    if (std::shared_ptr<PendingReply> reply = weak.lock()) reply->Refuse();
  }
}

// One call: reads the request, hands it over, writes the response. Deletes itself when gRPC is
// through with it. Thread: gRPC's.
class CallReactor : public grpc::ServerGenericBidiReactor {
 public:
  CallReactor(const RpcServer::Method& method, std::shared_ptr<PendingReplies> all)
      : method_(method), all_(std::move(all)) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "call without a request"));
      return;
    }
    std::string request = ToString(request_);
    request_.Clear();
    auto reply = std::make_shared<PendingReply>(this, all_);
    if (!all_->Add(reply.get(), reply)) return;  // dropped, and so refused
    method_(std::move(request), [reply](std::string bytes) { reply->Send(std::move(bytes)); });
  }
  void OnDone() override { delete this; }

  void Respond(std::string bytes) {
    response_ = ToByteBuffer(std::move(bytes));
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

 private:
  const RpcServer::Method& method_;
  const std::shared_ptr<PendingReplies> all_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
};

void PendingReply::Send(std::string bytes) {
  if (CallReactor* reactor = reactor_.exchange(nullptr)) reactor->Respond(std::move(bytes));
}

void PendingReply::Refuse() {
  if (CallReactor* reactor = reactor_.exchange(nullptr)) {
    reactor->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server ends"));
  }
}

}  // namespace

class RpcServer::Impl : public grpc::CallbackGenericService {
 public:
  explicit Impl(std::map<std::string, Method> methods) : methods_(std::move(methods)) {
    SilenceGrpc();
  }

  Status Start(const std::string& listen_address) {
    WEIR_CHECK(server_ == nullptr);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(listen_address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    builder.SetMaxReceiveMessageSize(RpcClient::kMessageBytesMax);
    builder.SetMaxSendMessageSize(RpcClient::kMessageBytesMax);
    // Else two servers could share one port and each would get some of the calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) return WhyNotListening(listen_address);
    return {};
  }

  int port() const { return port_; }

  void Stop() {
    if (server_ == nullptr) return;
    pending_->Stop();
    server_->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                   gpr_time_from_micros(kShutdownUs, GPR_TIMESPAN)));
    server_.reset();
  }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    auto method = methods_.find(context->method());
    if (method == methods_.end()) return CallbackGenericService::CreateReactor(context);
    return new CallReactor(method->second, pending_);
  }

  const std::map<std::string, Method> methods_;
  int port_ = 0;
  const std::shared_ptr<PendingReplies> pending_ = std::make_shared<PendingReplies>();
  std::unique_ptr<grpc::Server> server_;
};

RpcServer::RpcServer(std::map<std::string, Method> methods)
    : impl_(std::make_unique<Impl>(std::move(methods))) {}

RpcServer::~RpcServer() { Stop(); }

Status RpcServer::Start(const std::string& listen_address) { return impl_->Start(listen_address); }

int RpcServer::port() const { return impl_->port(); }

void RpcServer::Stop() { impl_->Stop(); }

}  // namespace weir
