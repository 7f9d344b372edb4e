#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/connectors/kafka/kafka_client.h"
#include "worker/connectors/kafka/sink/answer_watch.h"

namespace weir {

// Finds out, while a call to a cluster makes no progress, whether the topic that it is about was
// deleted: librdkafka tries for as long as a transaction may take then. It was when the cluster did
// not know it so many times, one after the other, as TopicEnds asks. Calls follow one another.
// Lifetime: `transactions`, `timers` and `answers` outlive it. Thread: confined to the executor of
// its timers.
class TopicWatch {
 public:
  // Without progress for so long, the cluster is asked.
  static constexpr int64_t kPatienceMicros = 2'000'000;

  TopicWatch(KafkaTransactions& transactions, KafkaCluster cluster, std::string topic,
             Timers& timers, AnswerWatch& answers)
      : transactions_(transactions),
        cluster_(std::move(cluster)),
        topic_(std::move(topic)),
        timers_(timers),
        answers_(answers) {}
  TopicWatch(const TopicWatch&) = delete;
  ~TopicWatch() { timers_.Cancel(timer_); }

  // A call was made, of which `deleted` wants to know, with a user error, that it is in vain. It is
  // called as mail of its own, once, unless End is called first.
  void Begin(std::function<void(Status)> deleted);
  // The call is over; `progress`: the cluster has done what it was asked.
  void End(bool progress);
  // What was told.
  bool is_deleted() const { return is_deleted_; }

 private:
  Co<void> Look();
  void Tell();

  KafkaTransactions& transactions_;
  const KafkaCluster cluster_;
  const std::string topic_;
  Timers& timers_;
  AnswerWatch& answers_;
  TimerId timer_ = 0;
  bool watches_ = false;  // since the last progress
  bool is_deleted_ = false;
  Status untold_;  // of the deletion: not OK until somebody has heard of it
  std::function<void(Status)> deleted_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  CoScope scope_;
};

}  // namespace weir
