#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/control/messages.h"
#include "worker/network/local_channel.h"
#include "worker/task/outbox.h"
#include "worker/task/task.h"
#include "worker/task/worker_environment.h"

namespace weir {

// This worker's share of one generation of a job: its tasks, their channels and what they have to
// tell the coordinator. Each task is started once, each channel connected once; the first failure
// is reported and ends nothing by itself: the coordinator decides.
// Lifetime: Start, …, End; destroyed after End's answer. Thread: confined to the control loop; task
// threads only post to it.
class GenerationHost {
 public:
  // How messages reach the coordinator that leads now.
  struct Reports {
    std::function<void(ReportTasksRequest, std::function<void(Status)>)> tasks;
    std::function<void(AcknowledgeRequest, std::function<void(Status)>)> acks;
    std::function<void(ReportPublishedRequest, std::function<void(Status)>)> published;
    std::function<void(ConfirmCurrentRequest, std::function<void(Status)>)> confirm;
    std::function<void()> stale;  // the coordinator knows this generation no more
  };

  // `registry`: where the job's vertex types are found.
  GenerationHost(WorkerEnvironment& environment, const Registry& registry, WorkerName self,
                 StartTasksRequest request, Reports reports);
  ~GenerationHost();

  // Makes channels and tasks and lets them run.
  Status Start();
  void Trigger(const TriggerRequest& request);
  void NotifyCompleted(CheckpointId checkpoint);
  void NotifyAborted(CheckpointId checkpoint);
  // Cuts the tasks off from the coordinator at once, then ends them and their channels; `ended`
  // when nothing of the generation is left. Once.
  void End(std::function<void()> ended);

  const JobId& job() const { return request_.job; }
  Generation generation() const { return request_.generation; }
  GenerationHost(const GenerationHost&) = delete;
  GenerationHost& operator=(const GenerationHost&) = delete;
  GenerationHost(GenerationHost&&) = delete;
  std::vector<SubtaskMetrics> Metrics() const;
  int tasks() const { return static_cast<int>(seats_.size()); }

 private:
  class Observer;
  struct Seated {
    uint64_t seat = 0;
    std::shared_ptr<Task> task;
  };

  void OnReport(TaskReport report);
  void OnConfirmWanted(int task, int subtask, uint64_t question);
  void OnConnected();
  void OnBroken(Status status);

  WorkerEnvironment& environment_;
  const Registry* const registry_;
  const WorkerName self_;
  const StartTasksRequest request_;
  std::shared_ptr<const JobGraph> graph_;
  std::shared_ptr<const ExecutionPlan> plan_;
  std::shared_ptr<const JobOptions> options_;
  const std::function<void(ConfirmCurrentRequest, std::function<void(Status)>)> confirm_;
  std::unique_ptr<Observer> observer_;
  std::vector<Seated> seats_;
  std::vector<std::unique_ptr<ChannelSender>> remote_senders_;
  std::vector<std::unique_ptr<ChannelReceiver>> remote_receivers_;
  std::vector<std::unique_ptr<LocalChannel>> local_channels_;
  std::unique_ptr<Outbox<TaskReport>> task_outbox_;
  std::unique_ptr<Outbox<TaskAck>> ack_outbox_;
  std::unique_ptr<Outbox<PublishReport>> publish_outbox_;
  bool connected_ = false;
  bool ending_ = false;
  bool data_plane_started_ = false;
  std::vector<TaskReport> held_reports_;  // running ones, until the channels are connected
};

}  // namespace weir
