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
// Of the trial, which must be answered soon: it may take as long as both.
constexpr int kTrialMarkerTimeoutMs = 2000;
constexpr int kTrialSocketMs = 2000;

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
  void FindEnds(std::function<void(StatusOr<std::vector<int64_t>>)> done) override {
    thread_->Post([instance = instance_, answer = answers_.Expect(std::move(done))] {
      answer(instance->FindEnds());
    });
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

void TryRdkafkaTransaction(KafkaProducerOptions options, const KafkaMarkerPlace& place,
                           int64_t timeout_us, const std::function<void(Status)>& answer) {
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
  StatusOr<RdkafkaPtr<rd_kafka_conf_t>> conf = MakeProducerConf(
      options, {{"linger.ms", Concat(std::min<int64_t>(linger_ms, 900'000))},
                {"socket.timeout.ms", Concat(std::min<int64_t>(linger_ms, kTrialSocketMs))}});
  if (!conf.ok()) return answer(conf.status());
  const std::string brokers = options.cluster.brokers;
  RdkafkaInstance instance(std::move(options), *std::move(conf),
                           [until] { return steady_clock::now() >= until; });
  auto begin = [&]() -> KafkaResult {
    if (KafkaResult result = instance.Initialise(); !result.done()) return result;
    return instance.Begin();
  };
  auto fill = [&]() -> KafkaResult {
    std::string records;
    KafkaBlockWriter writer;
    writer.Begin(place.partition, &records);
    writer.Add(KafkaRecordView{});
    writer.End();
    if (KafkaResult result = instance.Produce(records); !result.done()) return result;
    if (!instance.WaitForPartitions(left_ms())) {
      return {KafkaVerdict::kAbort,
              UnavailableError(Concat("the coordinator of transactions at ", brokers,
                                      " did not answer within ", timeout_us / 1000, " ms"))};
    }
    return instance.SendMarker(place, KafkaMarker{}, std::min(left_ms(), kTrialMarkerTimeoutMs));
  };
  KafkaResult tried = begin();
  const bool open = tried.done();
  if (open) tried = fill();
  // What is refused is known: to abort it, and to let the client go, may take longer.
  if (!tried.done()) answer(tried.status);
  if (open && tried.verdict != KafkaVerdict::kFenced && tried.verdict != KafkaVerdict::kFatal) {
    const KafkaResult aborted = instance.Abort();
    if (tried.done()) answer(aborted.status);
  }
  instance.Destroy();
}

}  // namespace weir
