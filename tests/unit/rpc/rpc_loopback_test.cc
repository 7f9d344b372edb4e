// Goal: what gateways and client ask arrives at the handlers and the answers come back, and every
// way in which a peer can be absent has its own clear outcome. Method: the real servers and
// gateways over loopback TCP, with handlers that record and answer.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "common/base/concat.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/grpc_coordinator_gateway.h"
#include "common/rpc/grpc_worker_gateway.h"
#include "common/rpc/proto_convert.h"
#include "common/rpc/rpc_client.h"
#include "common/rpc/rpc_server.h"
#include "common/threading/event_loop.h"
#include "coordinator/server/grpc_coordinator_server.h"
#include "tests/unit/rpc/filled_message.h"
#include "worker/server/grpc_worker_server.h"

namespace weir {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr int64_t kSilenceUs = 5'000'000;
constexpr milliseconds kPatience{
    10'000};  // for what must happen; nothing waits it out when it does

// A domain struct with every field set.
template <typename Proto, typename Domain>
Domain Filled() {
  Proto proto;
  MessageFiller().Fill(&proto);
  Domain domain;
  Status status = FromProto(std::move(proto), &domain);
  EXPECT_TRUE(status.ok()) << status;
  return domain;
}

// How a struct reads in full, to compare what was sent with what arrived.
template <typename Proto, typename Domain>
std::string Text(Domain domain) {
  Proto proto;
  ToProto(std::move(domain), &proto);
  return proto.DebugString();
}

// A value that another thread sets once.
template <typename T>
class Outcome {
 public:
  std::function<void(T)> Done() {
    return [promise = promise_](T value) { promise->set_value(std::move(value)); };
  }
  bool Arrived(milliseconds patience = kPatience) {
    return future_.wait_for(patience) == std::future_status::ready;
  }
  T Get() {
    if (!Arrived()) {
      ADD_FAILURE() << "no outcome";
      std::abort();
    }
    return future_.get();
  }

 private:
  std::shared_ptr<std::promise<T>> promise_ = std::make_shared<std::promise<T>>();
  std::future<T> future_ = promise_->get_future();
};

// Answers everything with filled structs, or with `refusal` when that is set; keeps the answer for
// itself while `silent`. Thread: confined to its loop.
class FakeWorker : public WorkerHandler {
 public:
  explicit FakeWorker(EventLoop& loop) : loop_(loop) {}

  void CheckJob(CheckJobRequest request, DoneWith<JobGraph> done) override {
    Record("CheckJob", Text<v1::CheckJobRequest>(std::move(request)));
    if (!refusal.ok()) return done(refusal);
    done(Filled<v1::JobGraph, JobGraph>());
  }
  void StartTasks(StartTasksRequest request, Done done) override {
    Answer("StartTasks", Text<v1::StartTasksRequest>(std::move(request)), std::move(done));
  }
  void Trigger(TriggerRequest request, Done done) override {
    Answer("Trigger", Text<v1::TriggerRequest>(std::move(request)), std::move(done));
  }
  void NotifyCompleted(CheckpointNotice notice, Done done) override {
    Answer("NotifyCompleted", Text<v1::CheckpointNotice>(std::move(notice)), std::move(done));
  }
  void NotifyAborted(CheckpointNotice notice, Done done) override {
    Answer("NotifyAborted", Text<v1::CheckpointNotice>(std::move(notice)), std::move(done));
  }
  void EndTasks(EndTasksRequest request, Done done) override {
    Answer("EndTasks", Text<v1::EndTasksRequest>(std::move(request)), std::move(done));
  }
  void Settle(SettleRequest request, Done done) override {
    Answer("Settle", Text<v1::SettleRequest>(std::move(request)), std::move(done));
  }

  std::string method, request;  // the last one that arrived
  Status refusal;
  bool silent = false;
  std::vector<Done> kept;
  std::promise<void> silenced;  // kept has its first

 private:
  void Record(std::string name, std::string text) {
    EXPECT_TRUE(loop_.InOwnerThread());
    method = std::move(name);
    request = std::move(text);
  }
  void Answer(std::string name, std::string text, Done done) {
    Record(std::move(name), std::move(text));
    if (!silent) return done(refusal);
    kept.push_back(std::move(done));
    if (kept.size() == 1) silenced.set_value();
  }

  EventLoop& loop_;
};

class FakeCoordinator : public CoordinatorHandler {
 public:
  void Hello(DoneWith<HelloResponse> done) override {
    Answer<v1::HelloResponse>("Hello", "", std::move(done));
  }
  void Register(RegisterRequest request, DoneWith<RegisterResponse> done) override {
    Answer<v1::RegisterResponse>("Register", Text<v1::RegisterRequest>(std::move(request)),
                                 std::move(done));
  }
  void Heartbeat(HeartbeatRequest request, DoneWith<HeartbeatResponse> done) override {
    Answer<v1::HeartbeatResponse>("Heartbeat", Text<v1::HeartbeatRequest>(std::move(request)),
                                  std::move(done));
  }
  void ReportTasks(ReportTasksRequest request, Done done) override {
    Answer("ReportTasks", Text<v1::ReportTasksRequest>(std::move(request)), std::move(done));
  }
  void Acknowledge(AcknowledgeRequest request, Done done) override {
    Answer("Acknowledge", Text<v1::AcknowledgeRequest>(std::move(request)), std::move(done));
  }
  void ReportPublished(ReportPublishedRequest request, Done done) override {
    Answer("ReportPublished", Text<v1::ReportPublishedRequest>(std::move(request)),
           std::move(done));
  }
  void ConfirmCurrent(ConfirmCurrentRequest request, Done done) override {
    Answer("ConfirmCurrent", Text<v1::ConfirmCurrentRequest>(std::move(request)), std::move(done));
  }
  void Leave(WorkerName name, WorkerIncarnation incarnation, Done done) override {
    Answer("Leave", Concat(name, " ", incarnation), std::move(done));
  }
  void Submit(SubmitRequest request, DoneWith<SubmitResponse> done) override {
    Answer<v1::SubmitResponse>("Submit", Text<v1::SubmitRequest>(std::move(request)),
                               std::move(done));
  }
  void ListJobs(bool all, DoneWith<std::vector<JobStatus>> done) override {
    AnswerList<v1::JobStatus>("ListJobs", Concat(all), std::move(done));
  }
  void GetJob(std::string job, DoneWith<JobStatus> done) override {
    Answer<v1::JobStatus>("GetJob", std::move(job), std::move(done));
  }
  void Cancel(std::string job, bool force, DoneWith<std::vector<std::string>> done) override {
    Record("Cancel", Concat(job, " ", force));
    if (!refusal.ok()) return done(refusal);
    done(std::vector<std::string>{"out/.flights-1", "out/.flights-2"});
  }
  void Remove(std::string job, bool force, Done done) override {
    Answer("Remove", Concat(job, force ? " force" : ""), std::move(done));
  }
  void ListCheckpoints(std::string job, DoneWith<std::vector<CheckpointSummary>> done) override {
    AnswerList<v1::CheckpointSummary>("ListCheckpoints", std::move(job), std::move(done));
  }
  void GetEvents(std::string job, DoneWith<std::vector<JobEvent>> done) override {
    AnswerList<v1::JobEvent>("GetEvents", std::move(job), std::move(done));
  }
  void ListWorkers(DoneWith<std::vector<WorkerStatus>> done) override {
    AnswerList<v1::WorkerStatus>("ListWorkers", "", std::move(done));
  }

  std::string method, request;  // the last one that arrived
  Status refusal;

 private:
  void Record(std::string name, std::string text) {
    method = std::move(name);
    request = std::move(text);
  }
  void Answer(std::string name, std::string text, Done done) {
    Record(std::move(name), std::move(text));
    done(refusal);
  }
  template <typename Proto, typename Domain>
  void Answer(std::string name, std::string text, DoneWith<Domain> done) {
    Record(std::move(name), std::move(text));
    if (!refusal.ok()) return done(refusal);
    done(Filled<Proto, Domain>());
  }
  template <typename Proto, typename Domain>
  void AnswerList(std::string name, std::string text, DoneWith<std::vector<Domain>> done) {
    Record(std::move(name), std::move(text));
    if (!refusal.ok()) return done(refusal);
    done(std::vector<Domain>{Domain(), Filled<Proto, Domain>()});
  }
};

// A port on loopback that nobody listens on, and that nobody else gets while this lives.
class ClosedPort {
 public:
  ClosedPort() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~ClosedPort() { close(fd_); }
  std::string address() const { return Concat("127.0.0.1:", port_); }
  void Listen() { EXPECT_EQ(listen(fd_, 8), 0); }  // the system connects, nobody ever answers

 private:
  int fd_;
  int port_ = 0;
};

class RpcLoopbackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_.Start();
    ASSERT_TRUE(worker_server_.Start().ok());
    ASSERT_TRUE(coordinator_server_.Start().ok());
    worker_address_ = Concat("127.0.0.1:", worker_server_.port());
    coordinator_address_ = Concat("127.0.0.1:", coordinator_server_.port());
  }

  std::function<WorkerHandler&()> Worker() {
    return [this]() -> WorkerHandler& { return worker_; };
  }

  // Runs `call` on the loop and waits for its outcome.
  template <typename T>
  T Ask(std::function<void(std::function<void(T)>)> call) {
    Outcome<T> outcome;
    loop_.Post([&] { call(outcome.Done()); });
    return outcome.Get();
  }
  void OnLoop(std::function<void()> work) {
    Outcome<bool> outcome;
    loop_.Post([&, done = outcome.Done()] {
      work();
      done(true);
    });
    outcome.Get();
  }

  void ExpectArrived(const std::string& method, const std::string& request) {
    OnLoop([&] {
      EXPECT_EQ(worker_.method, method);
      EXPECT_EQ(worker_.request, request);
    });
  }

  EventLoop loop_{"test-loop"};
  FakeWorker worker_{loop_};
  FakeCoordinator coordinator_;
  std::string worker_address_, coordinator_address_;
  GrpcWorkerServer worker_server_{"127.0.0.1:0", loop_, Worker()};
  GrpcCoordinatorServer coordinator_server_{
      "127.0.0.1:0", loop_, [this]() -> CoordinatorHandler& { return coordinator_; }};
};

TEST_F(RpcLoopbackTest, EveryCallOfTheCoordinatorReachesTheWorker) {
  GrpcWorkerGateway gateway(loop_, kSilenceUs);
  auto check = Filled<v1::CheckJobRequest, CheckJobRequest>();
  auto graph =
      Ask<StatusOr<JobGraph>>([&](auto done) { gateway.CheckJob(worker_address_, check, done); });
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(Text<v1::JobGraph>(*graph), (Text<v1::JobGraph>(Filled<v1::JobGraph, JobGraph>())));
  ExpectArrived("CheckJob", Text<v1::CheckJobRequest>(check));

  auto start = Filled<v1::StartTasksRequest, StartTasksRequest>();
  EXPECT_TRUE(
      Ask<Status>([&](auto done) { gateway.StartTasks(worker_address_, start, done); }).ok());
  ExpectArrived("StartTasks", Text<v1::StartTasksRequest>(start));

  auto trigger = Filled<v1::TriggerRequest, TriggerRequest>();
  EXPECT_TRUE(
      Ask<Status>([&](auto done) { gateway.Trigger(worker_address_, trigger, done); }).ok());
  ExpectArrived("Trigger", Text<v1::TriggerRequest>(trigger));

  auto notice = Filled<v1::CheckpointNotice, CheckpointNotice>();
  EXPECT_TRUE(
      Ask<Status>([&](auto done) { gateway.NotifyCompleted(worker_address_, notice, done); }).ok());
  ExpectArrived("NotifyCompleted", Text<v1::CheckpointNotice>(notice));
  EXPECT_TRUE(
      Ask<Status>([&](auto done) { gateway.NotifyAborted(worker_address_, notice, done); }).ok());
  ExpectArrived("NotifyAborted", Text<v1::CheckpointNotice>(notice));

  auto end = Filled<v1::EndTasksRequest, EndTasksRequest>();
  EXPECT_TRUE(Ask<Status>([&](auto done) { gateway.EndTasks(worker_address_, end, done); }).ok());
  ExpectArrived("EndTasks", Text<v1::EndTasksRequest>(end));

  auto settle = Filled<v1::SettleRequest, SettleRequest>();
  EXPECT_TRUE(Ask<Status>([&](auto done) { gateway.Settle(worker_address_, settle, done); }).ok());
  ExpectArrived("Settle", Text<v1::SettleRequest>(settle));
}

TEST_F(RpcLoopbackTest, EveryCallOfAWorkerReachesTheCoordinator) {
  GrpcCoordinatorGateway gateway(loop_, kSilenceUs);
  auto hello =
      Ask<StatusOr<HelloResponse>>([&](auto done) { gateway.Hello(coordinator_address_, done); });
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(Text<v1::HelloResponse>(*hello),
            (Text<v1::HelloResponse>(Filled<v1::HelloResponse, HelloResponse>())));
  EXPECT_EQ(coordinator_.method, "Hello");

  auto registration = Filled<v1::RegisterRequest, RegisterRequest>();
  auto registered = Ask<StatusOr<RegisterResponse>>(
      [&](auto done) { gateway.Register(coordinator_address_, registration, done); });
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(coordinator_.request, Text<v1::RegisterRequest>(registration));

  auto heartbeat = Filled<v1::HeartbeatRequest, HeartbeatRequest>();
  auto heard = Ask<StatusOr<HeartbeatResponse>>(
      [&](auto done) { gateway.Heartbeat(coordinator_address_, heartbeat, done); });
  ASSERT_TRUE(heard.ok()) << heard.status();
  EXPECT_EQ(heard->end.size(), 2u);
  EXPECT_EQ(coordinator_.request, Text<v1::HeartbeatRequest>(heartbeat));

  auto tasks = Filled<v1::ReportTasksRequest, ReportTasksRequest>();
  EXPECT_TRUE(
      Ask<Status>([&](auto done) { gateway.ReportTasks(coordinator_address_, tasks, done); }).ok());
  EXPECT_EQ(coordinator_.request, Text<v1::ReportTasksRequest>(tasks));

  auto acks = Filled<v1::AcknowledgeRequest, AcknowledgeRequest>();
  EXPECT_TRUE(
      Ask<Status>([&](auto done) { gateway.Acknowledge(coordinator_address_, acks, done); }).ok());
  EXPECT_EQ(coordinator_.request, Text<v1::AcknowledgeRequest>(acks));

  auto published = Filled<v1::ReportPublishedRequest, ReportPublishedRequest>();
  EXPECT_TRUE(Ask<Status>([&](auto done) {
                gateway.ReportPublished(coordinator_address_, published, done);
              }).ok());
  EXPECT_EQ(coordinator_.request, Text<v1::ReportPublishedRequest>(published));

  auto confirm = Filled<v1::ConfirmCurrentRequest, ConfirmCurrentRequest>();
  EXPECT_TRUE(Ask<Status>([&](auto done) {
                gateway.ConfirmCurrent(coordinator_address_, confirm, done);
              }).ok());
  EXPECT_EQ(coordinator_.request, Text<v1::ConfirmCurrentRequest>(confirm));

  EXPECT_TRUE(Ask<Status>([&](auto done) {
                gateway.Leave(coordinator_address_, WorkerName("worker-1"), WorkerIncarnation("1f"),
                              done);
              }).ok());
  EXPECT_EQ(coordinator_.request, "worker-1 1f");
}

TEST_F(RpcLoopbackTest, EveryCallOfAClientReachesTheCoordinator) {
  CoordinatorClient client(coordinator_address_);
  auto submit = Filled<v1::SubmitRequest, SubmitRequest>();
  submit.library = std::string(8 << 20, 'x');  // beyond gRPC's usual limit of 4 MiB
  auto submitted = client.Submit(submit);
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  EXPECT_EQ(submitted->name, (Filled<v1::SubmitResponse, SubmitResponse>().name));
  EXPECT_EQ(coordinator_.request, Text<v1::SubmitRequest>(submit));

  auto expected = Filled<v1::JobStatus, JobStatus>();
  auto jobs = client.ListJobs(true);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ(Text<v1::JobStatus>((*jobs)[1]), Text<v1::JobStatus>(expected));
  EXPECT_EQ(coordinator_.request, "true");

  auto job = client.GetJob("3f2a");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(Text<v1::JobStatus>(*job), Text<v1::JobStatus>(expected));
  EXPECT_EQ(coordinator_.request, "3f2a");

  auto left = client.Cancel("flights", true);
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_THAT(*left, testing::ElementsAre("out/.flights-1", "out/.flights-2"));
  EXPECT_EQ(coordinator_.request, "flights true");

  EXPECT_TRUE(client.Remove("3f2b", /*force=*/true).ok());
  EXPECT_EQ(coordinator_.method, "Remove");
  EXPECT_EQ(coordinator_.request, "3f2b force");

  auto checkpoints = client.ListCheckpoints("3f2c");
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
  EXPECT_EQ((*checkpoints)[1].subtasks.size(), 2u);
  EXPECT_EQ(coordinator_.request, "3f2c");

  auto events = client.GetEvents("3f2d");
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_EQ((*events)[1].text, (Filled<v1::JobEvent, JobEvent>().text));
  EXPECT_EQ(coordinator_.request, "3f2d");

  auto workers = client.ListWorkers();
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_EQ(Text<v1::WorkerStatus>((*workers)[1]),
            (Text<v1::WorkerStatus>(Filled<v1::WorkerStatus, WorkerStatus>())));
}

TEST_F(RpcLoopbackTest, AnErrorComesBackWithCodeDomainAndRetryHint) {
  // Longer than gRPC's trailers may be.
  std::string message = "operator 'out': cannot write: " + std::string(100'000, 'x');
  Status refusal =
      Status(StatusCode::kFailedPrecondition, ErrorDomain::kUser, message).WithRetry(true);
  OnLoop([&] { worker_.refusal = coordinator_.refusal = refusal; });
  GrpcWorkerGateway gateway(loop_, kSilenceUs);
  CoordinatorClient client(coordinator_address_);
  for (const Status& status :
       {Ask<Status>([&](auto done) { gateway.Trigger(worker_address_, {}, done); }),
        Ask<StatusOr<JobGraph>>([&](auto done) {
          gateway.CheckJob(worker_address_, {}, done);
        }).status(),
        client.Remove("x", false), client.GetJob("x").status(), client.Submit({}).status(),
        client.ListJobs(false).status(), client.Cancel("x", false).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.domain(), ErrorDomain::kUser);
    EXPECT_TRUE(status.retryable());
    EXPECT_EQ(status.message(), message);
  }
}

TEST_F(RpcLoopbackTest, NobodyListeningIsUnavailableAndNamed) {
  ClosedPort port;
  CoordinatorClient client(port.address());
  Status status = client.ListWorkers().status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.domain(), ErrorDomain::kExternal);
  EXPECT_TRUE(status.retryable());
  EXPECT_EQ(status.message(), "cannot reach " + port.address() + ": Connection refused");
}

TEST_F(RpcLoopbackTest, NoAnswerInTimeIsUnavailableAndNamed) {
  RpcClient client(kSilenceUs);
  OnLoop([&] { worker_.silent = true; });
  Outcome<StatusOr<std::string>> outcome;
  client.Call(worker_address_, "/weir.v1.Worker/Trigger", "", 50'000, outcome.Done());
  Status status = outcome.Get().status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "no answer from " + worker_address_ + " within 50ms");
  // The late answer finds nobody and harms nobody.
  OnLoop([&] {
    for (auto& done : worker_.kept) done(Status());
  });
}

// Who gives an order to settle says how long it may take: there is no other limit.
TEST_F(RpcLoopbackTest, AnOrderToSettleIsWaitedForALittleLongerThanItSays) {
  GrpcWorkerGateway gateway(loop_, kSilenceUs);
  OnLoop([&] { worker_.silent = true; });
  SettleRequest settle;
  settle.answer_within_us = 50'000;
  Status status = Ask<Status>([&](auto done) { gateway.Settle(worker_address_, settle, done); });
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "no answer from " + worker_address_ + " within 1050ms");
}

TEST_F(RpcLoopbackTest, AServerThatAcceptsAndSaysNothingIsUnavailable) {
  ClosedPort port;
  port.Listen();
  RpcClient client(kSilenceUs);
  Outcome<StatusOr<std::string>> outcome;
  client.Call(port.address(), "/weir.v1.Worker/Trigger", "", 50'000, outcome.Done());
  EXPECT_EQ(outcome.Get().status().code(), StatusCode::kUnavailable);
}

TEST_F(RpcLoopbackTest, AnUnknownMethodIsNoTransportError) {
  RpcClient client(kSilenceUs);
  Outcome<StatusOr<std::string>> outcome;
  client.Call(worker_address_, "/weir.v1.Worker/Fly", "", 5'000'000, outcome.Done());
  Status status = outcome.Get().status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(status.retryable());
  EXPECT_THAT(status.message(), HasSubstr("/weir.v1.Worker/Fly"));
}

TEST_F(RpcLoopbackTest, ARequestThatIsNoMessageIsAnsweredAsSuch) {
  RpcClient client(kSilenceUs);
  Outcome<StatusOr<std::string>> outcome;
  client.Call(worker_address_, "/weir.v1.Worker/Trigger", "\xff\xff\xff", 5'000'000,
              outcome.Done());
  StatusOr<std::string> bytes = outcome.Get();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  v1::Outcome response;
  ASSERT_TRUE(response.ParseFromString(*bytes));
  EXPECT_EQ(response.status().code(), v1::Status::DATA_LOSS);
  EXPECT_THAT(response.status().message(), HasSubstr("TriggerRequest"));
}

// The services of the proto files are the list of what must be answered.
TEST_F(RpcLoopbackTest, EveryMethodOfTheServicesIsAnswered) {
  RpcClient client(kSilenceUs);
  int methods = 0;
  for (const auto* file :
       {v1::TriggerRequest::descriptor()->file(), v1::JobStatus::descriptor()->file()}) {
    ASSERT_EQ(file->service_count(), 1);
    const auto* service = file->service(0);
    const std::string& address =
        service->name() == "Worker" ? worker_address_ : coordinator_address_;
    for (int i = 0; i < service->method_count(); ++i, ++methods) {
      std::string method = Concat("/", service->full_name(), "/", service->method(i)->name());
      Outcome<StatusOr<std::string>> outcome;
      client.Call(address, method, "", 5'000'000, outcome.Done());
      StatusOr<std::string> bytes = outcome.Get();
      ASSERT_TRUE(bytes.ok()) << method << ": " << bytes.status();
      const auto* type = service->method(i)->output_type();
      std::unique_ptr<google::protobuf::Message> response(
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
      EXPECT_TRUE(response->ParseFromString(*bytes)) << method;
      EXPECT_TRUE(type->FindFieldByName("status") != nullptr) << method;
    }
  }
  EXPECT_EQ(methods, 23);
}

TEST_F(RpcLoopbackTest, AWatchReportsABrokenConnectionOnce) {
  GrpcWorkerGateway gateway(loop_, kSilenceUs);
  Outcome<bool> broken;
  // The connection stands when the first answer is there.
  OnLoop([&] { gateway.Watch(worker_address_, [done = broken.Done()] { done(true); }); });
  EXPECT_TRUE(Ask<Status>([&](auto done) { gateway.Trigger(worker_address_, {}, done); }).ok());
  EXPECT_FALSE(broken.Arrived(milliseconds(0)));
  worker_server_.Stop();
  EXPECT_TRUE(broken.Arrived(milliseconds(2'000)));  // a second report would throw in set_value
  EXPECT_EQ(Ask<Status>([&](auto done) { gateway.Trigger(worker_address_, {}, done); }).code(),
            StatusCode::kUnavailable);
}

TEST_F(RpcLoopbackTest, AWatchThatIsGivenUpReportsNothing) {
  GrpcWorkerGateway gateway(loop_, kSilenceUs);
  Outcome<bool> first, second;
  OnLoop([&] { gateway.Watch(worker_address_, [done = first.Done()] { done(true); }); });
  EXPECT_TRUE(Ask<Status>([&](auto done) { gateway.Trigger(worker_address_, {}, done); }).ok());
  OnLoop([&] {
    gateway.Unwatch(worker_address_);
    gateway.Watch(worker_address_, [done = second.Done()] { done(true); });
  });
  EXPECT_TRUE(Ask<Status>([&](auto done) { gateway.Trigger(worker_address_, {}, done); }).ok());
  worker_server_.Stop();
  EXPECT_TRUE(second.Arrived(milliseconds(2'000)));
  EXPECT_FALSE(first.Arrived(milliseconds(0)));
}

TEST_F(RpcLoopbackTest, AWatchOnNobodyWaitsUntilTheConnectionStood) {
  auto port = std::make_unique<ClosedPort>();
  std::string address = port->address();
  GrpcWorkerGateway gateway(loop_, kSilenceUs);
  Outcome<bool> broken;
  OnLoop([&] { gateway.Watch(address, [done = broken.Done()] { done(true); }); });
  EXPECT_EQ(Ask<Status>([&](auto done) { gateway.Trigger(address, {}, done); }).code(),
            StatusCode::kUnavailable);
  EXPECT_FALSE(broken.Arrived(milliseconds(0)));
  // Somebody comes up there: the gateway tries again by itself.
  port.reset();
  GrpcWorkerServer late(address, loop_, Worker());
  ASSERT_TRUE(late.Start().ok());
  auto start = std::chrono::steady_clock::now();
  while (!Ask<Status>([&](auto done) { gateway.Trigger(address, {}, done); }).ok()) {
    ASSERT_LT(std::chrono::steady_clock::now() - start, kPatience);
  }
  EXPECT_FALSE(broken.Arrived(milliseconds(0)));
  late.Stop();
  EXPECT_TRUE(broken.Arrived(milliseconds(2'000)));
}

TEST_F(RpcLoopbackTest, StoppingAServerRefusesWhatIsUnderWayAndIsQuick) {
  OnLoop([&] { worker_.silent = true; });
  GrpcWorkerGateway gateway(loop_, kSilenceUs);
  Outcome<Status> outcome;
  loop_.Post([&] { gateway.Settle(worker_address_, {}, outcome.Done()); });
  worker_.silenced.get_future().wait();
  auto start = std::chrono::steady_clock::now();
  worker_server_.Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(1'000));
  EXPECT_EQ(outcome.Get().code(), StatusCode::kUnavailable);
  OnLoop([&] { worker_.kept[0](Status()); });  // too late, ignored
}

TEST_F(RpcLoopbackTest, AnAnswerThatIsNeverGivenIsRefusedWhenItIsDropped) {
  OnLoop([&] { worker_.silent = true; });
  GrpcWorkerGateway gateway(loop_, kSilenceUs);
  Outcome<Status> outcome;
  loop_.Post([&] { gateway.Settle(worker_address_, {}, outcome.Done()); });
  worker_.silenced.get_future().wait();
  OnLoop([&] { worker_.kept.clear(); });
  EXPECT_EQ(outcome.Get().code(), StatusCode::kUnavailable);
}

TEST_F(RpcLoopbackTest, AGatewayThatEndsGivesUpItsCallsAtOnce) {
  OnLoop([&] { worker_.silent = true; });
  auto gateway = std::make_unique<GrpcWorkerGateway>(loop_, kSilenceUs);
  bool reported = false;
  OnLoop([&] {
    gateway->Watch(worker_address_, [&] { reported = true; });
    gateway->Settle(worker_address_, {}, [&](Status) { reported = true; });
  });
  worker_.silenced.get_future().wait();
  auto start = std::chrono::steady_clock::now();
  OnLoop([&] { gateway.reset(); });
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(1'000));
  OnLoop([&] { EXPECT_FALSE(reported); });
}

TEST_F(RpcLoopbackTest, APortThatIsTakenIsAClearError) {
  GrpcWorkerServer second(worker_address_, loop_, Worker());
  Status status = second.Start();
  EXPECT_EQ(status.message(), "cannot listen on " + worker_address_ + ": Address already in use");
  GrpcWorkerServer nowhere("no-such-host.invalid:0", loop_, Worker());
  EXPECT_THAT(nowhere.Start().message(), HasSubstr("cannot listen on no-such-host.invalid:0: "));
}

}  // namespace
}  // namespace weir
