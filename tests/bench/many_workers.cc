// Many workers in one process that run nothing: they register with a coordinator, say at once that
// the tasks they are given run, acknowledge each checkpoint at once and report it published. What a
// coordinator does and takes for a large cluster is measured with it: to the coordinator they are
// workers like any other, each with a server and a connection of its own.
//
//   many_workers COORDINATOR WORKERS
//
// Prints "registered" when all are, and ends when it is killed.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/concat.h"
#include "common/base/random.h"
#include "common/base/version.h"
#include "common/checkpoint/manifest.h"
#include "common/graph/execution_plan.h"
#include "common/rpc/grpc_coordinator_gateway.h"
#include "common/threading/event_loop.h"
#include "worker/server/grpc_worker_server.h"
#include "worker/task/outbox.h"

namespace weir {
namespace {

constexpr int64_t kSilenceUs = 5'000'000;
constexpr int64_t kPositionsBytes = 1000;

[[noreturn]] void Die(const std::string& text) {
  std::fprintf(stderr, "many_workers: %s\n", text.c_str());
  std::_Exit(1);
}

// The share of one job that a worker has. Lives as long as its generation. Thread: the loop's.
struct HostedShare {
  Generation generation;
  std::shared_ptr<const JobGraph> graph;
  std::shared_ptr<const ExecutionPlan> plan;
  std::vector<TaskAssignment> tasks;
  std::unique_ptr<Outbox<TaskReport>> reports;
  std::unique_ptr<Outbox<TaskAck>> acks;
  std::unique_ptr<Outbox<PublishReport>> published;
};

// One worker. Thread: confined to the loop.
class QuietWorker : public WorkerHandler {
 public:
  QuietWorker(int number, std::string coordinator, EventLoop& loop, Random& random)
      : coordinator_(std::move(coordinator)),
        loop_(loop),
        // Channels of equal arguments would share one connection.
        gateway_(loop, kSilenceUs + int64_t{1000} * number),
        server_("127.0.0.1:0", loop, [this]() -> WorkerHandler& { return *this; }) {
    if (Status status = server_.Start(); !status.ok()) Die(status.message());
    info_.name = WorkerName(Concat("quiet-", number));
    info_.incarnation = WorkerIncarnation(random.HexName(16));
    info_.control_address = Concat("127.0.0.1:", server_.port());
    info_.data_address = "127.0.0.1:1";
    info_.host = "localhost";
    info_.pid = getpid();
    info_.slots = 1;
    info_.version = WEIR_VERSION;
  }

  void Join(std::function<void()> registered) {
    gateway_.Hello(coordinator_, [this, registered](StatusOr<HelloResponse> hello) {
      if (!hello.ok()) Die(hello.status().message());
      number_ = hello->coordinator;
      RegisterRequest request;
      request.worker = info_;
      request.coordinator = number_;
      std::ifstream nonce(hello->nonce_path);
      request.nonce.assign(std::istreambuf_iterator<char>(nonce), {});
      gateway_.Register(coordinator_, std::move(request),
                        [this, registered](StatusOr<RegisterResponse> answer) {
                          if (!answer.ok()) Die(answer.status().message());
                          heartbeat_us_ = answer->heartbeat_interval_us;
                          registered();
                          loop_.After(heartbeat_us_, [this] { Beat(); });
                        });
    });
  }

  void CheckJob(CheckJobRequest request, DoneWith<JobGraph> done) override {
    done(std::move(request.graph));
  }

  void StartTasks(StartTasksRequest request, Done done) override {
    StatusOr<JobOptions> options = ParseJobOptions(request.graph.options);
    if (!options.ok()) return done(options.status());
    HostedShare share;
    share.generation = request.generation;
    share.graph = std::make_shared<const JobGraph>(std::move(request.graph));
    share.plan = std::make_shared<const ExecutionPlan>(MakeExecutionPlan(*share.graph, *options));
    for (const TaskAssignment& assignment : request.assignments) {
      if (assignment.worker == info_.name) share.tasks.push_back(assignment);
    }
    JobId job = request.job;
    Generation generation = request.generation;
    auto stale = [this, job] { jobs_.erase(job); };
    share.reports = std::make_unique<Outbox<TaskReport>>(
        loop_,
        [this, job, generation](std::vector<TaskReport> items, Outbox<TaskReport>::Done answer) {
          gateway_.ReportTasks(coordinator_, {info_.name, job, generation, std::move(items)},
                               std::move(answer));
        },
        stale);
    share.acks = std::make_unique<Outbox<TaskAck>>(
        loop_,
        [this, job, generation](std::vector<TaskAck> items, Outbox<TaskAck>::Done answer) {
          gateway_.Acknowledge(coordinator_, {info_.name, job, generation, std::move(items)},
                               std::move(answer));
        },
        stale);
    share.published = std::make_unique<Outbox<PublishReport>>(
        loop_,
        [this, job, generation](std::vector<PublishReport> items,
                                Outbox<PublishReport>::Done answer) {
          gateway_.ReportPublished(coordinator_, {info_.name, job, generation, std::move(items)},
                                   std::move(answer));
        },
        stale);
    for (const TaskAssignment& task : share.tasks) {
      TaskReport report;
      report.task = task.task;
      report.subtask = task.subtask;
      report.state = TaskState::kRunning;
      share.reports->Add(std::move(report));
    }
    jobs_[job] = std::move(share);
    done(Status());
  }

  void Trigger(TriggerRequest request, Done done) override {
    HostedShare* share = Find(request.job, request.generation);
    if (share == nullptr) return done(StaleError("not here"));
    done(Status());
    const std::string directory = CheckpointDirectoryName(request.checkpoint, request.generation);
    for (const TaskAssignment& task : share->tasks) {
      TaskAck ack;
      ack.checkpoint = request.checkpoint;
      ack.task = task.task;
      ack.subtask = task.subtask;
      for (int vertex : share->plan->tasks[task.task].chain) {
        OperatorSnapshot part;
        part.uid = share->graph->vertices[vertex].uid;
        part.subtask = task.subtask;
        SnapshotMetrics metrics;
        metrics.uid = part.uid;
        metrics.subtask = task.subtask;
        if (share->plan->tasks[task.task].inputs.empty()) {
          StateHandle positions;
          positions.kind = StateKind::kPositions;
          positions.path = Concat(directory, "/", part.uid, "-", task.subtask, "-positions");
          positions.length = kPositionsBytes;
          part.handles.push_back(std::move(positions));
        }
        ack.snapshots.push_back(std::move(part));
        ack.metrics.push_back(std::move(metrics));
      }
      share->acks->Add(std::move(ack));
    }
  }

  void NotifyCompleted(CheckpointNotice notice, Done done) override {
    HostedShare* share = Find(notice.job, notice.generation);
    if (share == nullptr) return done(StaleError("not here"));
    done(Status());
    for (const TaskAssignment& task : share->tasks) {
      const ExecutionPlan::TaskVertex& vertex = share->plan->tasks[task.task];
      if (!vertex.outputs.empty()) continue;
      const std::string& uid = share->graph->vertices[vertex.chain.back()].uid;
      share->published->Add({notice.checkpoint, uid, task.subtask});
    }
  }

  void NotifyAborted(CheckpointNotice, Done done) override { done(Status()); }
  void EndTasks(EndTasksRequest request, Done done) override {
    HostedShare* share = Find(request.job, request.generation);
    if (share != nullptr) jobs_.erase(request.job);
    done(Status());
  }
  void Settle(SettleRequest, Done done) override { done(Status()); }

 private:
  HostedShare* Find(const JobId& job, Generation generation) {
    auto found = jobs_.find(job);
    return found == jobs_.end() || found->second.generation != generation ? nullptr
                                                                          : &found->second;
  }

  void Beat() {
    HeartbeatRequest request;
    request.name = info_.name;
    request.incarnation = info_.incarnation;
    request.coordinator = number_;
    for (const auto& [job, share] : jobs_) {
      HostedGeneration hosted{job, share.generation, {}};
      for (const TaskAssignment& task : share.tasks) {
        for (int vertex : share.plan->tasks[task.task].chain) {
          SubtaskMetrics metrics;
          metrics.uid = share.graph->vertices[vertex].uid;
          metrics.subtask = task.subtask;
          metrics.idle_us = clock_.MonotonicMicros();
          hosted.metrics.push_back(std::move(metrics));
        }
      }
      request.hosted.push_back(std::move(hosted));
    }
    gateway_.Heartbeat(coordinator_, std::move(request),
                       [this](StatusOr<HeartbeatResponse> answer) {
                         if (!answer.ok()) Die(answer.status().message());
                         if (!answer->known) Die(Concat(info_.name, " is not known any more"));
                         loop_.After(heartbeat_us_, [this] { Beat(); });
                       });
  }

  const std::string coordinator_;
  EventLoop& loop_;
  SystemClock clock_;
  GrpcCoordinatorGateway gateway_;
  GrpcWorkerServer server_;
  WorkerInfo info_;
  CoordinatorNumber number_;
  int64_t heartbeat_us_ = 0;
  std::map<JobId, HostedShare> jobs_;
};

[[noreturn]] void Run(const std::string& coordinator, int count) {
  EventLoop loop("workers");
  Random random = Random::FromSystem();
  std::vector<std::unique_ptr<QuietWorker>> workers;
  for (int i = 0; i < count; ++i) {
    workers.push_back(std::make_unique<QuietWorker>(i, coordinator, loop, random));
  }
  int registered = 0;
  loop.Post([&] {
    for (auto& worker : workers) {
      worker->Join([&registered, count] {
        if (++registered < count) return;
        std::printf("registered\n");
        std::fflush(stdout);
      });
    }
  });
  loop.Start();
  while (true) pause();
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  int count = argc == 3 ? std::atoi(argv[2]) : 0;
  if (count < 1) {
    std::fprintf(stderr, "usage: many_workers COORDINATOR WORKERS\n");
    return 2;
  }
  weir::Run(argv[1], count);
}
