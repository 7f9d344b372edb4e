#include "worker/connectors/kafka/sink/kafka_committer.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/concat.h"
#include "common/base/log.h"
#include "common/storage/file_flows.h"
#include "worker/connectors/kafka/sink/kafka_stage.h"
#include "worker/connectors/kafka/sink/sink_topic.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {
namespace {

constexpr int64_t kRetryFirstMicros = 100'000;
constexpr int64_t kRetryMaxMicros = 1'600'000;  // the last wait; 3.1 s in all
// Identities whose stages are published at the same time: each has at most some 40 MiB in its
// producer, and a transaction of the usual 64 MiB has to end within the usual 60 s.
constexpr int kPublishingMax = 8;
// Who asked wants to know why it takes long.
constexpr int64_t kPatienceMicros = 1'000'000;

StatusOr<std::string> DeadLetterDirectory(const Config& config) {
  WEIR_ASSIGN_OR_RETURN(KafkaSinkConfig parsed, ParseKafkaSinkConfig(config));
  return std::move(parsed.dead_letter_path);
}

// The others than stages.
std::vector<Committable> LettersOf(const std::vector<Committable>& committables) {
  std::vector<Committable> letters;
  std::copy_if(committables.begin(), committables.end(), std::back_inserter(letters),
               [](const Committable& committable) { return !IsStage(committable); });
  return letters;
}

}  // namespace

KafkaCommitter::KafkaCommitter(KafkaClients& clients)
    : clients_(clients), letters_("kafka.sink", DeadLetterDirectory) {}

void KafkaCommitter::Open(CommitterContext& context) {
  context_ = &context;
  name_ = Concat("kafka.sink '", context.uid(), "'");
  StatusOr<KafkaSinkConfig> config = ParseKafkaSinkConfig(context.config());
  config_status_ = config.status();
  if (config.ok()) config_ = *std::move(config);
  transactions_ = clients_.TransactionsFor(context.executor());
  letters_.Open(context);
}

void KafkaCommitter::Answer(std::function<void(Status)> done, Status status) {
  context_->timers().After(
      0, [alive = std::weak_ptr<int>(alive_), done = std::move(done), status = std::move(status)] {
        if (!alive.expired()) done(status);
      });
}

StatusOr<KafkaCommitter::StagesBySubtask> KafkaCommitter::Decode(
    const std::vector<Committable>& committables) const {
  WEIR_RETURN_IF_ERROR(config_status_);
  StagesBySubtask stages;
  for (const Committable& committable : committables) {
    if (!IsStage(committable)) continue;
    WEIR_ASSIGN_OR_RETURN(SealedPart stage, DecodeStage(committable));
    stages[committable.subtask].push_back(std::move(stage));
  }
  for (auto& [subtask, parts] : stages) {
    std::sort(parts.begin(), parts.end(), [](const SealedPart& a, const SealedPart& b) {
      return std::tuple(a.checkpoint, a.index) < std::tuple(b.checkpoint, b.index);
    });
  }
  return stages;
}

void KafkaCommitter::Commit(std::vector<Committable> committables,
                            std::function<void(Status)> done) {
  StatusOr<StagesBySubtask> stages = Decode(committables);
  if (!stages.ok() || committables.empty()) {
    Answer(std::move(done), stages.status());
    return;
  }
  scope_.Spawn(CommitAll(*std::move(stages), LettersOf(committables), std::move(done)));
}

Co<void> KafkaCommitter::CommitAll(StagesBySubtask stages, std::vector<Committable> letters,
                                   std::function<void(Status)> done) {
  Status status;
  if (!stages.empty()) status = co_await CommitStages(std::move(stages));
  if (status.ok() && !letters.empty()) {
    status = co_await Async<Status>([this, &letters](Async<Status>::Done settled) {
      letters_.Commit(std::move(letters), std::move(settled));
    });
  }
  Answer(std::move(done), status);
}

Co<Status> KafkaCommitter::CommitStages(StagesBySubtask stages) {
  int64_t retry_us = kRetryFirstMicros;
  while (true) {
    Status status = co_await CommitOnce(stages);
    if (!status.retryable() || retry_us > kRetryMaxMicros) co_return status;
    log::Warning(name_, " cannot commit yet: ", status.message(), " retry_ms=", retry_us / 1000);
    co_await Sleep(context_->timers(), retry_us);
    retry_us *= 2;
  }
}

std::string KafkaCommitter::waits_for() const {
  for (const auto& [subtask, what] : waiting_) {
    if (!what.empty()) return Concat(name_, ": ", what);
  }
  return "";
}

Co<Status> KafkaCommitter::Describe() {
  AnswerWatch watch(
      context_->timers(), config_.brokers,
      [this](std::string what) { waiting_[-1] = std::move(what); }, kPatienceMicros);
  const KafkaCluster cluster = {config_.brokers, config_.properties};
  StatusOr<KafkaTopic> topic =
      co_await DescribeTopic(watch, *transactions_, cluster, config_.topic);
  if (!topic.ok()) co_return topic.status().WithContext(name_);
  waiting_.erase(-1);
  topic_ = *topic;
  co_return Status();
}

Co<Status> KafkaCommitter::CommitOnce(StagesBySubtask stages) {
  Status status = co_await Describe();
  if (!status.ok()) co_return status;
  co_return co_await ForAll(std::move(stages), &KafkaCommitter::Settle);
}

Co<Status> KafkaCommitter::ForAll(StagesBySubtask stages, IdentityFlow flow) {
  auto round = std::make_shared<Round>();
  round->waiting = stages.size();
  for (const auto& [subtask, parts] : stages) {
    identities_.Spawn(ForOne(flow, subtask, parts, round));
  }
  while (round->waiting > 0) co_await round->changed.Wait();
  co_return round->status;
}

Co<void> KafkaCommitter::ForOne(IdentityFlow flow, int subtask, std::vector<SealedPart> stages,
                                std::shared_ptr<Round> round) {
  Status status = co_await (this->*flow)(subtask, std::move(stages));
  // What does not heal is worth more to know.
  const bool worse = round->status.ok() || (round->status.retryable() && !status.retryable());
  if (!status.ok() && worse) round->status = status;
  if (--round->waiting == 0) round->changed.Notify();
}

std::vector<KafkaSinkConfig> KafkaCommitter::Heirs(const JobSuccessor& successor) const {
  std::vector<KafkaSinkConfig> heirs;
  for (const Config& config : successor.configs) {
    StatusOr<KafkaSinkConfig> parsed = ParseKafkaSinkConfig(config);
    // One cluster has many addresses: the same topic elsewhere counts, too.
    if (parsed.ok() && parsed->delivery == KafkaDelivery::kExactlyOnce &&
        parsed->topic == config_.topic) {
      heirs.push_back(*std::move(parsed));
    }
  }
  return heirs;
}

StagedPublisherOptions KafkaCommitter::PublisherOptions(int subtask) {
  StagedPublisherOptions options;
  options.job = context_->job();
  options.is_of_one_line = config_.transactional_id_prefix.empty();
  options.releases = context_->ends();
  options.may_double = config_.continue_on_doubled_rows;
  if (const JobSuccessor* successor = context_->successor()) {
    const std::vector<KafkaSinkConfig> heirs = Heirs(*successor);
    const bool may_double =
        !heirs.empty() && std::all_of(heirs.begin(), heirs.end(), [](const auto& heir) {
          return heir.continue_on_doubled_rows;
        });
    // Who may double may have taken it from others than the one that sealed: that is not undone.
    options.is_bystander = heirs.empty() || (may_double && context_->ends());
    if (!options.is_bystander) {
      options.may_double = may_double;
      options.releases = true;
      options.predecessor = successor->job;
      if (!context_->ends()) std::swap(options.job, *options.predecessor);
    }
  }
  options.owner = name_;
  options.producer = MakeProducerOptions(
      config_, topic_, KafkaIdentity(config_, context_->job(), context_->uid(), subtask));
  options.directory = context_->staging_directory();
  options.files = &context_->files();
  options.timers = &context_->timers();
  options.transactions = transactions_.get();
  options.confirm_current = [this](std::function<void(Status)> done) {
    context_->ConfirmCurrent(std::move(done));
  };
  options.waits = [this, subtask](std::string what) { waiting_[subtask] = std::move(what); };
  options.patience_us = kPatienceMicros;
  options.is_last = true;
  return options;
}

Co<Status> KafkaCommitter::Settle(int subtask, std::vector<SealedPart> stages) {
  StagedPublisherOptions options = PublisherOptions(subtask);
  if (options.is_bystander && context_->ends()) co_return Status();  // nothing to give back
  StagedPublisher publisher(std::move(options));
  Status status = co_await publisher.MakeReady(stages.back());
  if (!status.ok()) co_return status;
  waiting_.erase(subtask);  // what the try before this one said
  while (publishing_ >= kPublishingMax) co_await published_.Wait();
  ++publishing_;
  status = co_await publisher.Publish(std::move(stages));
  --publishing_;
  published_.Notify();
  co_return status;
}

Co<Status> KafkaCommitter::CheckMarker(int subtask, std::vector<SealedPart> stages) {
  StagedPublisher publisher(PublisherOptions(subtask));
  co_return co_await publisher.Check(std::move(stages));
}

void KafkaCommitter::Check(std::vector<Committable> committables,
                           std::function<void(Status)> done) {
  StatusOr<StagesBySubtask> stages = Decode(committables);
  if (!stages.ok()) {
    Answer(std::move(done), stages.status());
    return;
  }
  scope_.Spawn(CheckAll(*std::move(stages), std::move(done)));
}

Co<void> KafkaCommitter::CheckAll(StagesBySubtask stages, std::function<void(Status)> done) {
  Status status = co_await ForAll(std::move(stages), &KafkaCommitter::CheckMarker);
  const bool is_told = status.domain() == ErrorDomain::kUser && !status.retryable();
  Answer(std::move(done), is_told ? status : Status());
}

void KafkaCommitter::AbortOthers(Generation generation, std::vector<Committable> listed,
                                 std::function<void(Status)> done) {
  StatusOr<StagesBySubtask> stages = Decode(listed);
  if (!stages.ok()) {
    Answer(std::move(done), stages.status());
    return;
  }
  scope_.Spawn(AbortAll(generation, *std::move(stages), LettersOf(listed), std::move(done)));
}

Co<void> KafkaCommitter::AbortAll(Generation generation, StagesBySubtask stages,
                                  std::vector<Committable> letters,
                                  std::function<void(Status)> done) {
  Status status = co_await RemoveStaged(generation, std::move(stages));
  // Without a word on bad data the job's counts, which is not known here.
  const bool may_have_letters =
      config_.bad_data.value_or(BadData::kDeadLetter) == BadData::kDeadLetter &&
      !config_.dead_letter_path.empty();
  if (status.ok() && (!letters.empty() || may_have_letters)) {
    status = co_await Async<Status>([this, generation, &letters](Async<Status>::Done settled) {
      letters_.AbortOthers(generation, std::move(letters), std::move(settled));
    });
  }
  Answer(std::move(done), status);
}

Co<Status> KafkaCommitter::RemoveStaged(Generation generation, StagesBySubtask listed) {
  FileSystem& files = context_->files();
  const std::string& directory = context_->staging_directory();
  std::set<std::string> kept;
  for (const auto& [subtask, stages] : listed) {
    for (const SealedPart& stage : stages) kept.insert(stage.name);
  }
  StatusOr<std::vector<FileInfo>> names = co_await ListDirectory(files, directory);
  if (names.status().code() == StatusCode::kNotFound) co_return Status();  // nothing ever staged
  if (!names.ok()) co_return names.status();
  int64_t removed = 0;
  for (const FileInfo& info : *names) {
    std::optional<StagedName> staged = ParseStagedName(info.name);
    if (info.is_directory || !staged.has_value() || staged->uid != context_->uid() ||
        staged->generation >= generation || kept.contains(info.name)) {
      continue;
    }
    Status status = co_await RemoveFile(files, JoinPath(directory, info.name));
    if (!status.ok() && status.code() != StatusCode::kNotFound) co_return status;
    ++removed;
  }
  if (removed == 0) co_return Status();
  log::Info(name_, " removed what no checkpoint lists: files=", removed, " directory=", directory);
  co_return co_await SyncDirectory(files, directory);
}

}  // namespace weir
