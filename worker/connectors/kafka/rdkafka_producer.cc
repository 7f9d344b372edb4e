#include "worker/connectors/kafka/rdkafka_producer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/concat.h"
#include "worker/connectors/kafka/rdkafka_instance.h"

namespace weir {
namespace {

// A request's own time-out; the call itself may take longer by the socket's.
constexpr int kMarkerTimeoutMs = 10'000;
constexpr int kTrialMarkerTimeoutMs = 1000;

class RdkafkaProducer : public TransactionalProducer {
 public:
  RdkafkaProducer(std::shared_ptr<RdkafkaThread> thread, Executor& owner,
                  KafkaProducerOptions options, RdkafkaPtr<rd_kafka_conf_t> conf)
      : thread_(std::move(thread)), answers_(owner) {
    instance_ = std::make_shared<RdkafkaInstance>(
        std::move(options), std::move(conf), [thread = thread_.get()] { return thread->ending(); });
  }
  ~RdkafkaProducer() override {
    thread_->End([instance = std::move(instance_)] { instance->Destroy(); });
  }

  void Initialise(KafkaDone done) override {
    Call(std::move(done), [](RdkafkaInstance& instance) { return instance.Initialise(); });
  }
  void Begin(KafkaDone done) override {
    Call(std::move(done), [](RdkafkaInstance& instance) { return instance.Begin(); });
  }
  void Produce(std::string records, KafkaDone done) override {
    Call(std::move(done), [records = std::move(records)](RdkafkaInstance& instance) {
      return instance.Produce(records);
    });
  }
  void SendMarker(KafkaMarkerPlace place, KafkaMarker marker, KafkaDone done) override {
    Call(std::move(done),
         [place = std::move(place), marker = std::move(marker)](RdkafkaInstance& instance) {
           return instance.SendMarker(place, marker, kMarkerTimeoutMs);
         });
  }
  void Commit(KafkaDone done) override {
    Call(std::move(done), [](RdkafkaInstance& instance) { return instance.Commit(); });
  }
  void Abort(KafkaDone done) override {
    Call(std::move(done), [](RdkafkaInstance& instance) { return instance.Abort(); });
  }
  bool disturbed() const override { return instance_->disturbed(); }

 private:
  void Call(KafkaDone done, std::function<KafkaResult(RdkafkaInstance&)> call) {
    thread_->Post([instance = instance_, call = std::move(call),
                   answer = answers_.Expect(std::move(done))] { answer(call(*instance)); });
  }

  const std::shared_ptr<RdkafkaThread> thread_;
  std::shared_ptr<RdkafkaInstance> instance_;
  RdkafkaAnswers answers_;
};

}  // namespace

StatusOr<std::unique_ptr<TransactionalProducer>> MakeRdkafkaProducer(RdkafkaThreads& threads,
                                                                     Executor& owner,
                                                                     KafkaProducerOptions options) {
  WEIR_ASSIGN_OR_RETURN(RdkafkaPtr<rd_kafka_conf_t> conf, MakeProducerConf(options));
  return std::make_unique<RdkafkaProducer>(threads.Start(), owner, std::move(options),
                                           std::move(conf));
}

Status TryRdkafkaTransaction(KafkaProducerOptions options, const KafkaMarkerPlace& place,
                             int64_t timeout_us) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + milliseconds(timeout_us / 1000);
  auto left_ms = [&] {
    return static_cast<int>(std::max<int64_t>(
        std::chrono::duration_cast<milliseconds>(until - steady_clock::now()).count(), 1));
  };
  // The row waits in the producer until it is dropped by the abort: only its partition is
  // registered with the coordinator, for which the permission to write is needed.
  const int64_t linger_ms = options.transaction_timeout_us / 1000 - 1;
  WEIR_ASSIGN_OR_RETURN(
      RdkafkaPtr<rd_kafka_conf_t> conf,
      MakeProducerConf(options,
                       {{"linger.ms", std::to_string(std::min<int64_t>(linger_ms, 900'000))}}));
  RdkafkaInstance instance(std::move(options), std::move(conf),
                           [until] { return steady_clock::now() >= until; });
  auto trial = [&]() -> Status {
    if (KafkaResult result = instance.Initialise(); !result.done()) return result.status;
    if (KafkaResult result = instance.Begin(); !result.done()) return result.status;
    std::string records;
    KafkaBlockWriter writer;
    writer.Begin(place.partition, &records);
    writer.Add(KafkaRecordView{});
    writer.End();
    KafkaResult tried = instance.Produce(records);
    if (tried.done() && !instance.WaitForPartitions(left_ms())) {
      tried = {KafkaVerdict::kAbort,
               UnavailableError(Concat("the coordinator of transactions did not answer within ",
                                       timeout_us / 1000, " ms"))};
    }
    if (tried.done()) {
      tried = instance.SendMarker(place, KafkaMarker{}, std::min(left_ms(), kTrialMarkerTimeoutMs));
    }
    if (tried.verdict == KafkaVerdict::kFenced || tried.verdict == KafkaVerdict::kFatal) {
      return tried.status;
    }
    KafkaResult aborted = instance.Abort();
    return tried.done() ? aborted.status : tried.status;
  };
  Status status = trial();
  instance.Destroy();
  return status;
}

}  // namespace weir
