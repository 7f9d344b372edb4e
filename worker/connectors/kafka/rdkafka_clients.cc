#include "worker/connectors/kafka/rdkafka_clients.h"

#include <utility>

#include "worker/connectors/kafka/rdkafka_admin.h"
#include "worker/connectors/kafka/rdkafka_consumer.h"
#include "worker/connectors/kafka/rdkafka_producer.h"

namespace weir {
namespace {

constexpr int kQuestionTimeoutMs = 5000;

// Runs `job` on a thread that ends with it.
void RunOnce(RdkafkaThreads& threads, std::function<void()> job) {
  threads.Start()->End(std::move(job));
}

// `done` as mail of `owner`.
std::function<void(Status)> MailTo(Executor& owner, std::function<void(Status)> done) {
  return [&owner, done = std::move(done)](Status status) {
    owner.Post([done, status = std::move(status)] { done(status); });
  };
}

class RdkafkaTransactions : public KafkaTransactions {
 public:
  RdkafkaTransactions(RdkafkaThreads& threads, Executor& owner)
      : threads_(threads), owner_(owner), answers_(owner) {}

  StatusOr<std::unique_ptr<TransactionalProducer>> MakeProducer(
      KafkaProducerOptions options) override {
    return MakeRdkafkaProducer(threads_, owner_, std::move(options));
  }
  void ReadMarker(KafkaCluster cluster, KafkaMarkerPlace place,
                  std::function<void(StatusOr<std::optional<KafkaMarker>>)> done) override {
    RunOnce(threads_, [cluster = std::move(cluster), place = std::move(place),
                       answer = answers_.Expect(std::move(done))] {
      answer(ReadRdkafkaMarker(cluster, place, kQuestionTimeoutMs));
    });
  }
  void DescribeTopic(KafkaCluster cluster, std::string topic,
                     std::function<void(StatusOr<KafkaTopic>)> done) override {
    RunOnce(threads_, [cluster = std::move(cluster), topic = std::move(topic),
                       answer = answers_.Expect(std::move(done))] {
      answer(DescribeRdkafkaTopic(cluster, topic, kQuestionTimeoutMs));
    });
  }

 private:
  RdkafkaThreads& threads_;
  Executor& owner_;
  RdkafkaAnswers answers_;
};

}  // namespace

std::unique_ptr<KafkaTransactions> RdkafkaClients::TransactionsFor(Executor& owner) {
  return std::make_unique<RdkafkaTransactions>(threads_, owner);
}

StatusOr<std::unique_ptr<KafkaConsumer>> RdkafkaClients::MakeConsumer(Executor& owner,
                                                                      KafkaConsumerOptions options,
                                                                      std::function<void()> wake) {
  return MakeRdkafkaConsumer(threads_, owner, std::move(options), std::move(wake));
}

void RdkafkaClients::Look(Executor& owner, KafkaCluster cluster, std::vector<std::string> wanted,
                          int64_t timeout_us,
                          std::function<void(StatusOr<KafkaClusterView>)> done) {
  RunOnce(threads_, [&owner, cluster = std::move(cluster), wanted = std::move(wanted), timeout_us,
                     done = std::move(done)]() mutable {
    owner.Post([done = std::move(done),
                view = LookAtRdkafkaCluster(cluster, wanted, static_cast<int>(timeout_us / 1000))] {
      done(view);
    });
  });
}

void RdkafkaClients::Describe(Executor& owner, KafkaCluster cluster, std::string topic,
                              int64_t timeout_us, std::function<void(StatusOr<KafkaTopic>)> done) {
  RunOnce(threads_, [&owner, cluster = std::move(cluster), topic = std::move(topic), timeout_us,
                     done = std::move(done)]() mutable {
    owner.Post([done = std::move(done), described = DescribeRdkafkaTopic(
                                            cluster, topic, static_cast<int>(timeout_us / 1000))] {
      done(described);
    });
  });
}

void RdkafkaClients::TryReading(Executor& owner, KafkaCluster cluster, std::string group,
                                std::vector<std::string> topics, int64_t timeout_us,
                                std::function<void(Status)> done) {
  RunOnce(threads_,
          [cluster = std::move(cluster), group = std::move(group), topics = std::move(topics),
           timeout_us, answer = MailTo(owner, std::move(done))] {
            TryRdkafkaReading(cluster, group, topics, static_cast<int>(timeout_us / 1000), answer);
          });
}

void RdkafkaClients::TryTransaction(Executor& owner, KafkaProducerOptions options,
                                    KafkaMarkerPlace place, int64_t timeout_us,
                                    std::function<void(Status)> done) {
  RunOnce(threads_, [options = std::move(options), place = std::move(place), timeout_us,
                     answer = MailTo(owner, std::move(done))] {
    TryRdkafkaTransaction(options, place, timeout_us, answer);
  });
}

}  // namespace weir
