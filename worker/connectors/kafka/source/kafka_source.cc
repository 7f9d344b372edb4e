#include "worker/connectors/kafka/source/kafka_source.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/base/log.h"
#include "common/base/names.h"

namespace weir {
namespace {

constexpr int64_t kRetryMicros = 500'000;
// A cluster that has just come back may not know all of its topics and the ends of their logs yet.
constexpr int kDoubts = 6;
constexpr int kDoubtsAtFirst = 3;
constexpr int64_t kDoubtMicros = 1'000'000;
// One that is told away answers questions again.
constexpr int64_t kAwayMicros = 1'000'000;
// Checkpoints under way whose positions are remembered.
constexpr size_t kSnapshotsMax = 32;
// Taken, decoded and given back before the next: with what the client keeps of each they fit into
// the second-level cache.
constexpr size_t kMessagesAtOnce = 512;

}  // namespace

KafkaSource::~KafkaSource() = default;

// ---- opening ------------------------------------------------------------------------------------

Status KafkaSource::Open(SourceContext& context, const std::vector<SplitState>& restored) {
  context_ = &context;
  WEIR_ASSIGN_OR_RETURN(config_, ParseKafkaSourceConfig(context.config()));
  if (!config_.topic_pattern.empty()) {
    WEIR_ASSIGN_OR_RETURN(pattern_, TopicPattern::Parse(config_.topic_pattern));
  }
  bad_data_ = BadDataOf(config_, context.options());
  if (bad_data_ == BadData::kDeadLetter) {
    WEIR_RETURN_IF_ERROR(CheckDeadLetters(config_, context.options()));
    dead_letters_ = std::make_unique<KafkaDeadLetters>(context, config_.dead_letter_path);
    dead_letters_->Open([this](Status status) {
      dead_letters_open_ = status.ok();
      if (!status.ok() && failed_.ok()) failed_ = status.WithContext("dead letters");
      context_->Wake();
    });
  }
  fresh_ = restored.empty();
  const KafkaPendingStart::Subtask self{context.subtask(), context.parallelism()};
  if (fresh_) pending_.push_back({{self}});
  for (const SplitState& state : restored) {
    if (std::optional<KafkaPendingStart> pending = ParsePendingStart(state.split)) {
      // The others' are theirs: were each written by all, they would multiply with each restart.
      if (pending->NarrowTo(self) &&
          std::find(pending_.begin(), pending_.end(), *pending) == pending_.end()) {
        pending_.push_back(*std::move(pending));
      }
      continue;
    }
    if (state.split == kStartedSplit) continue;
    const std::optional<TopicPartition> partition = ParseTopicPartition(state.split);
    const std::optional<KafkaPosition> position = DecodeKafkaPosition(state.position);
    if (!partition.has_value() || !position.has_value()) {
      return DataLossError(
          Concat(Name(), ": cannot restore ", state.split, " at '", state.position, "'"));
    }
    if (config_.bounded) {
      const auto [read, added] = read_to_end_.emplace(partition->topic, true);
      read->second = read->second && position->ended;
    }
    if (!Owns(*partition)) continue;
    KafkaPosition& kept = restored_[*partition];
    kept = *position;
    if (!config_.bounded) {
      kept.to.reset();
      kept.ended = false;
    }
  }
  decoder_.emplace(
      config_, context.output_schema(),
      [this](const KafkaMessage& message, std::vector<KafkaMessageHeader>* headers) {
        consumer_->Headers(message, headers);
      },
      [this](int32_t tag) -> const TopicPartition& {
        return by_tag_[static_cast<size_t>(tag)]->partition;
      },
      [this](const KafkaMessage& message, const Status& why) { return OnBadRow(message, why); });
  KafkaConsumerOptions options;
  options.cluster = {.brokers = config_.brokers, .properties = config_.properties};
  options.group = KafkaGroupOf(config_, context.job_name(), context.uid());
  StatusOr<std::unique_ptr<KafkaConsumer>> consumer =
      consumers_.MakeConsumer(context.executor(), options, [this] { context_->Wake(); });
  if (!consumer.ok()) return consumer.status().WithContext(Name());
  consumer_ = *std::move(consumer);
  options.reads_much = false;
  known_ = std::make_unique<KnownRows>(consumers_, context.executor(), context.timers(),
                                       std::move(options));
  scope_.Spawn(Run());
  scope_.Spawn(Recognise());
  return {};
}

std::string KafkaSource::Name() const { return Concat("kafka.source '", context_->uid(), "'"); }

bool KafkaSource::Owns(const TopicPartition& partition) const {
  return OwnerOf(partition, context_->parallelism()) == context_->subtask();
}

bool KafkaSource::WasPending(const TopicPartition& partition) const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [&](const auto& pending) { return pending.Holds(partition); });
}

void KafkaSource::Fail(Status status) {
  if (closed_ || !failed_.ok()) return;
  failed_ = status.WithContext(Name());
  context_->Wake();
}

// ---- brokers that are away ----------------------------------------------------------------------

void KafkaSource::NoteAway(const Status& status) {
  if (away_.ok()) {
    log::Warning(Name(), " subtask ", context_->subtask(), " waits for the cluster ",
                 config_.brokers, ": ", status.message());
    context_->Wake();  // the task's status shows it
  }
  away_ = status;
  context_->SetWaiting("brokers", status.message());
}

void KafkaSource::NoteBack() {
  if (away_.ok()) return;
  away_ = Status();
  context_->SetWaiting("brokers", "");
  log::Info(Name(), " subtask ", context_->subtask(), " goes on: the cluster ", config_.brokers,
            " answers again");
  context_->Wake();
}

Co<void> KafkaSource::WaitForBrokers() {
  while (true) {
    std::vector<std::string> names;
    if (!topics_.empty()) names.push_back(topics_.begin()->first);
    Async<StatusOr<std::vector<KafkaTopicView>>> question(
        [this, &names](auto done) { consumer_->ListTopics(names, std::move(done)); });
    const StatusOr<std::vector<KafkaTopicView>> answer = co_await std::move(question);
    if (answer.status().code() != StatusCode::kUnavailable) break;
    NoteAway(answer.status());
    co_await Sleep(context_->timers(), kAwayMicros);
  }
  NoteBack();
  waiting_ = false;
}

template <typename T>
Co<StatusOr<T>> KafkaSource::Ask(std::function<void(std::function<void(StatusOr<T>)>)> ask) {
  int doubts = 0;
  while (true) {
    Async<StatusOr<T>> question([&ask](auto done) { ask(std::move(done)); });
    StatusOr<T> answer = co_await std::move(question);
    if (answer.ok()) {
      NoteBack();
      co_return answer;
    }
    if (answer.status().code() == StatusCode::kNotFound) {
      if (++doubts >= kDoubts) co_return answer;
      co_await Sleep(context_->timers(), kDoubtMicros);
      continue;
    }
    if (answer.status().domain() == ErrorDomain::kUser) co_return answer;
    NoteAway(answer.status());
    co_await Sleep(context_->timers(), kRetryMicros);
  }
}

Co<StatusOr<std::vector<KafkaOffsets>>> KafkaSource::ListOffsets(
    std::vector<TopicPartition> partitions) {
  using Answer = std::vector<KafkaOffsets>;
  if (partitions.empty()) co_return Answer();
  std::function<void(KafkaConsumer::Done<StatusOr<Answer>>)> ask =
      [this, &partitions](KafkaConsumer::Done<StatusOr<Answer>> done) {
        consumer_->ListOffsets(partitions, std::move(done));
      };
  Co<StatusOr<Answer>> question = Ask<Answer>(std::move(ask));
  StatusOr<Answer> answer = co_await std::move(question);
  co_return answer;
}

Co<Status> KafkaSource::Assign(std::vector<KafkaAssignment> assignments) {
  if (assignments.empty()) co_return Status();
  std::function<void(KafkaConsumer::Done<StatusOr<bool>>)> ask =
      [this, &assignments](KafkaConsumer::Done<StatusOr<bool>> done) {
        consumer_->Assign(assignments, [done = std::move(done)](Status status) {
          done(status.ok() ? StatusOr<bool>(true) : StatusOr<bool>(status));
        });
      };
  Co<StatusOr<bool>> question = Ask<bool>(std::move(ask));
  StatusOr<bool> answer = co_await std::move(question);
  co_return answer.status();
}

// ---- finding partitions -------------------------------------------------------------------------

Co<void> KafkaSource::Run() {
  co_await Discover(true);
  while (failed_.ok() && !config_.bounded) {
    co_await Sleep(context_->timers(), config_.discovery_interval_us);
    co_await Discover(false);
  }
}

bool KafkaSource::Needs(const std::string& topic) const {
  if (!config_.bounded) return true;
  if (started_) return false;  // what is still read of it is looked for anyway
  const auto read = read_to_end_.find(topic);
  return !pending_.empty() || read == read_to_end_.end() || !read->second;
}

Status KafkaSource::Missing(const std::string& topic) const {
  const bool known = topics_.count(topic) > 0 ||
                     std::any_of(restored_.begin(), restored_.end(), [&](const auto& position) {
                       return position.first.topic == topic;
                     });
  return NotFoundError(Concat(
      "topic '", topic, "' ", known ? "was read, but is gone: it was deleted" : "does not exist",
      " (cluster ", config_.brokers, ")",
      known ? ". Nobody can tell whether rows of it are lost. A job without "
              "it, by its topics or topic_pattern, goes on from the newest "
              "checkpoint (weir run --from)"
            : ""));
}

Co<std::optional<std::map<std::string, int32_t>>> KafkaSource::FindTopics() {
  using Answer = std::vector<KafkaTopicView>;
  for (int doubts = 0;;) {
    std::function<void(KafkaConsumer::Done<StatusOr<Answer>>)> ask =
        [this](KafkaConsumer::Done<StatusOr<Answer>> done) {
          consumer_->ListTopics(config_.topics, std::move(done));
        };
    Co<StatusOr<Answer>> question = Ask<Answer>(std::move(ask));
    const StatusOr<Answer> views = co_await std::move(question);
    Status status = views.status();
    std::map<std::string, int32_t> found;
    if (status.ok()) {
      for (const KafkaTopicView& view : *views) {
        if (pattern_.has_value() && !pattern_->Matches(view.name)) continue;
        if (view.status.ok()) {
          found[view.name] = view.partitions;
        } else if (view.status.code() != StatusCode::kNotFound && status.ok()) {
          status = view.status;
        }
      }
      // What is configured, and what is being read, has to be there, with all of its partitions.
      for (const std::string& topic : config_.topics) {
        if (status.ok() && found.count(topic) == 0 && Needs(topic)) status = Missing(topic);
      }
      const auto require = [&](const TopicPartition& partition) {
        const auto at = found.find(partition.topic);
        if (!status.ok()) return;
        if (at == found.end()) {
          status = Missing(partition.topic);
        } else if (at->second <= partition.partition) {
          status = FailedPreconditionError(Concat(ToString(partition),
                                                  " was read, but the topic has only ", at->second,
                                                  " partitions now: it was deleted and made anew"));
        }
      };
      for (const auto& [partition, split] : splits_) {
        if (!split->position.ended) require(partition);
      }
    }
    if (status.ok()) co_return found;
    if (views.ok() && status.domain() != ErrorDomain::kUser) {
      // Of one topic no leader is known, say.
      NoteAway(status);
      co_await Sleep(context_->timers(), kRetryMicros);
      continue;
    }
    // Nothing was read yet: whoever has just started the job waits for the answer.
    const bool impatient = topics_.empty() && fresh_;
    if (views.ok() && ++doubts < (impatient ? kDoubtsAtFirst : kDoubts)) {
      co_await Sleep(context_->timers(), kDoubtMicros);
      continue;
    }
    Fail(status);
    co_return std::nullopt;
  }
}

Co<void> KafkaSource::Discover(bool first) {
  std::optional<std::map<std::string, int32_t>> found = co_await FindTopics();
  if (!found.has_value()) co_return;
  if (found->empty()) {
    if (config_.bounded && !pending_.empty()) {
      Fail(NotFoundError(Concat("no topic of the cluster ", config_.brokers,
                                " matches the topic_pattern '", config_.topic_pattern, "'")));
      co_return;
    }
    if (first && !config_.bounded) {
      log::Warning(Name(), " finds no topic that matches '", config_.topic_pattern,
                   "' yet and waits for one");
    }
  }
  partitions_all_ = 0;
  std::vector<TopicPartition> added;
  for (const auto& [topic, count] : *found) {
    partitions_all_ += count;
    for (int32_t number = 0; number < count; ++number) {
      TopicPartition partition{topic, number};
      if (!Owns(partition) || splits_.count(partition) > 0) continue;
      // Made since the read began, so no part of it.
      const bool known = restored_.count(partition) > 0;
      if (config_.bounded && !known && !WasPending(partition)) continue;
      added.push_back(std::move(partition));
    }
  }
  if (first) {
    for (const auto& [partition, position] : restored_) {
      const auto at = found->find(partition.topic);
      const bool wanted =
          pattern_.has_value()
              ? pattern_->Matches(partition.topic)
              : std::binary_search(config_.topics.begin(), config_.topics.end(), partition.topic);
      if (position.ended) continue;
      if (!wanted) {
        log::Warning(Name(), " leaves off ", ToString(partition), " at offset ", position.offset,
                     ": its topic is not configured any more");
      } else if (at == found->end()) {
        Fail(Missing(partition.topic));
        co_return;
      } else if (at->second <= partition.partition) {
        Fail(
            FailedPreconditionError(Concat(ToString(partition), " was read up to offset ",
                                           position.offset, ", but the topic has only ", at->second,
                                           " partitions now: it was deleted and made anew")));
        co_return;
      }
    }
  }
  topics_ = *std::move(found);
  Co<Status> begin = Begin(std::move(added), first);
  const Status status = co_await std::move(begin);
  if (!status.ok()) {
    Fail(status);
    co_return;
  }
  SetRate();
  if (first) {
    std::erase_if(restored_, [](const auto& position) { return !position.second.ended; });
    started_ = true;
  }
  context_->Wake();
}

void KafkaSource::SetRate() {
  if (!config_.rate.has_value() || splits_.empty()) return;
  // The source's whole rate by partitions.
  const double part = static_cast<double>(splits_.size()) / static_cast<double>(partitions_all_);
  const double rate = *config_.rate * part;
  if (limiter_.has_value() && limiter_->row_micros() == 1e6 / rate) return;
  limiter_.emplace(rate, context_->clock().MonotonicMicros());
}

Co<Status> KafkaSource::Begin(std::vector<TopicPartition> partitions, bool first) {
  std::vector<std::unique_ptr<Split>> added;
  std::vector<TopicPartition> unclear;  // where they begin or end
  std::vector<TopicPartition> looked_up;
  for (TopicPartition& partition : partitions) {
    auto split = std::make_unique<Split>();
    split->partition = partition;
    const auto known = restored_.find(partition);
    if (known != restored_.end()) split->position = known->second;
    const bool by_config =
        known == restored_.end() && first && config_.start_offsets.count(partition) == 0 &&
        (config_.start == KafkaStart::kCommitted || config_.start == KafkaStart::kTime);
    if (by_config && WasPending(partition)) looked_up.push_back(partition);
    if (known == restored_.end() || (config_.bounded && !split->position.to.has_value())) {
      unclear.push_back(partition);
    }
    added.push_back(std::move(split));
  }
  Co<StatusOr<std::vector<KafkaOffsets>>> asked = ListOffsets(unclear);
  const StatusOr<std::vector<KafkaOffsets>> offsets = co_await std::move(asked);
  if (!offsets.ok()) co_return offsets.status();
  using Found = std::vector<std::optional<int64_t>>;
  StatusOr<Found> found = Found();
  if (!looked_up.empty()) {
    std::function<void(KafkaConsumer::Done<StatusOr<Found>>)> ask =
        [this, &looked_up](KafkaConsumer::Done<StatusOr<Found>> done) {
          if (config_.start == KafkaStart::kCommitted) {
            consumer_->CommittedOffsets(looked_up, std::move(done));
          } else {
            // The first millisecond that is not before it.
            const int64_t time_us = config_.start_time_us;
            consumer_->FindOffsets(looked_up, time_us / 1000 + (time_us % 1000 > 0 ? 1 : 0),
                                   std::move(done));
          }
        };
    Co<StatusOr<Found>> question = Ask<Found>(std::move(ask));
    found = co_await std::move(question);
    if (!found.ok()) co_return found.status();
  }
  std::vector<Split*> to_read;
  size_t next_unclear = 0;
  size_t next_found = 0;
  for (std::unique_ptr<Split>& split : added) {
    const TopicPartition& partition = split->partition;
    KafkaPosition& position = split->position;
    const KafkaOffsets* limits = nullptr;
    if (next_unclear < unclear.size() && unclear[next_unclear] == partition) {
      limits = &(*offsets)[next_unclear++];
    }
    if (restored_.count(partition) == 0) {
      std::optional<int64_t> start;
      if (next_found < looked_up.size() && looked_up[next_found] == partition) {
        start = (*found)[next_found++];
      }
      const Status status = SetStart(split.get(), *limits, start, first && WasPending(partition));
      if (!status.ok()) co_return status;
    }
    if (config_.bounded && !position.to.has_value()) {
      const auto given = config_.end_offsets.find(partition);
      position.to = given != config_.end_offsets.end() ? given->second : limits->end;
    }
    split->tag = static_cast<int32_t>(by_tag_.size());
    by_tag_.push_back(split.get());
    if (!position.ended) {
      ++reading_;
      if (position.to.has_value() && position.offset >= *position.to) {
        End(split.get());
      } else {
        to_read.push_back(split.get());
      }
    }
    restored_.erase(partition);
    splits_[partition] = std::move(split);
  }
  Co<Status> resume = Resume(std::move(to_read));
  co_return co_await std::move(resume);
}

Status KafkaSource::SetStart(Split* split, const KafkaOffsets& offsets,
                             std::optional<int64_t> found, bool first) {
  const TopicPartition& partition = split->partition;
  int64_t& start = split->position.offset;
  start = offsets.low;
  if (!first) {
    log::Info(Name(), " reads ", ToString(partition), ", which was not there before, from offset ",
              start);
    return {};
  }
  const auto given = config_.start_offsets.find(partition);
  if (given != config_.start_offsets.end()) {
    start = given->second;
    if (start > offsets.end) {
      return OutOfRangeError(Concat("config field 'start_offsets' has ", ToString(partition),
                                    " begin at offset ", start, ", but it ends at ", offsets.end));
    }
    return {};
  }
  switch (config_.start) {
    case KafkaStart::kEarliest:
      break;
    case KafkaStart::kLatest:
      start = offsets.end;
      break;
    case KafkaStart::kCommitted:
      if (found.has_value()) start = *found;
      break;
    case KafkaStart::kTime:
      start = found.value_or(offsets.end);
      break;
  }
  return {};
}

// ---- reading from where a split stands ----------------------------------------------------------

Co<Status> KafkaSource::Resume(std::vector<Split*> splits) {
  std::vector<TopicPartition> partitions;
  partitions.reserve(splits.size());
  for (const Split* split : splits) partitions.push_back(split->partition);
  for (int doubts = 0; !splits.empty();) {
    Co<StatusOr<std::vector<KafkaOffsets>>> asked = ListOffsets(partitions);
    const StatusOr<std::vector<KafkaOffsets>> offsets = co_await std::move(asked);
    if (!offsets.ok()) co_return offsets.status();
    Status shrunk;
    // Another flow may have ended one meanwhile.
    for (size_t i = 0; i < splits.size() && shrunk.ok(); ++i) {
      const KafkaPosition& position = splits[i]->position;
      if (position.ended || (*offsets)[i].end >= position.offset) continue;
      shrunk = FailedPreconditionError(
          Concat(ToString(partitions[i]), " was read up to offset ", position.offset,
                 ", but ends at ", (*offsets)[i].end, " now (from ", (*offsets)[i].low,
                 " on): rows were lost, or the topic was deleted and made anew"));
    }
    if (!shrunk.ok()) {
      if (++doubts >= kDoubts) co_return shrunk;
      co_await Sleep(context_->timers(), kDoubtMicros);
      continue;
    }
    std::vector<KafkaAssignment> assignments;
    for (size_t i = 0; i < splits.size(); ++i) {
      Split* split = splits[i];
      KafkaPosition& position = split->position;
      const KafkaOffsets& limits = (*offsets)[i];
      if (position.ended) continue;
      split->expected.reset();
      if (position.offset < limits.low) {
        const Status lost = SkipLost(split, limits);
        if (!lost.ok()) co_return lost;
      } else if (position.row.has_value() && position.row->offset >= limits.low) {
        split->expected = position.row;
      }
      if (position.to.has_value() && position.offset >= *position.to) {
        End(split);
        continue;
      }
      split->reading = true;
      assignments.push_back(
          {.partition = split->partition,
           .offset = split->expected.has_value() ? split->expected->offset : position.offset,
           .tag = split->tag});
    }
    Co<Status> assign = Assign(std::move(assignments));
    co_return co_await std::move(assign);
  }
  co_return Status();
}

Status KafkaSource::SkipLost(Split* split, const KafkaOffsets& offsets) {
  KafkaPosition& position = split->position;
  const int64_t lost = offsets.low - position.offset;
  const std::string what =
      Concat(ToString(split->partition), " is to be read from offset ", position.offset,
             ", but has only those from ", offsets.low, " to ", offsets.end, ": ", lost,
             " rows were deleted before they were read");
  if (!config_.continue_on_lost_rows) {
    return OutOfRangeError(Concat(what, " (on_lost_rows is fail)"));
  }
  log::Warning(Name(), ": ", what, "; goes on at offset ", offsets.low);
  context_->CountLost(lost);
  position.offset = offsets.low;
  position.row.reset();
  return {};
}

Co<void> KafkaSource::Again(int32_t tag) {
  Co<Status> resume = Resume({by_tag_[static_cast<size_t>(tag)]});
  const Status status = co_await std::move(resume);
  if (!status.ok()) Fail(status);
  context_->Wake();
}

Co<void> KafkaSource::CheckAll() {
  std::optional<std::map<std::string, int32_t>> found = co_await FindTopics();
  if (found.has_value()) {
    std::vector<Split*> all;
    for (const auto& [partition, split] : splits_) {
      if (!split->position.ended) all.push_back(split.get());
    }
    Co<Status> resume = Resume(std::move(all));
    const Status status = co_await std::move(resume);
    if (!status.ok()) Fail(status);
  }
  checking_ = false;
  context_->Wake();
}

Co<void> KafkaSource::Recognise() {
  while (failed_.ok()) {
    co_await Sleep(context_->timers(), config_.discovery_interval_us);
    std::map<TopicPartition, KafkaRowMark> last;
    for (const auto& [partition, split] : splits_) {
      // One that is doubted is looked at anyway.
      if (split->reading && split->position.row.has_value() && !split->expected.has_value()) {
        last[partition] = *split->position.row;
      }
    }
    if (last.empty() || !away_.ok()) continue;
    Co<Status> check = known_->Check(std::move(last));
    const Status status = co_await std::move(check);
    if (!status.ok()) Fail(status);
  }
}

void KafkaSource::ForgetEarlyEnd(Split* split) {
  if (split->early_end.empty()) return;
  split->early_end.clear();
  ShowEarlyEnds();
}

void KafkaSource::ShowEarlyEnds() {
  const auto first = std::find_if(splits_.begin(), splits_.end(), [](const auto& entry) {
    return !entry.second->early_end.empty();
  });
  context_->SetWaiting("end", first == splits_.end() ? "" : first->second->early_end);
}

void KafkaSource::End(Split* split) {
  ForgetEarlyEnd(split);
  split->position.ended = true;
  split->expected.reset();
  --reading_;
  if (std::exchange(split->reading, false)) scope_.Spawn(DropEnded(split->partition));
}

Co<void> KafkaSource::DropEnded(TopicPartition partition) {
  Async<Status> drop(
      [this, &partition](auto done) { consumer_->Drop({partition}, std::move(done)); });
  const Status status = co_await std::move(drop);
  if (!status.ok()) {
    log::Debug(Name(), " cannot let go of ", ToString(partition), ": ", status.message());
  }
}

bool KafkaSource::AllEnded() const { return started_ && config_.bounded && reading_ == 0; }

// ---- rows ---------------------------------------------------------------------------------------

StatusOr<PollResult> KafkaSource::Poll(Output& output) {
  if (!failed_.ok()) return failed_;
  if (!started_ || !MayLeaveOut()) return PollResult::kIdle;
  int64_t rows_max = std::max<int64_t>(1, context_->options().batch_rows_max);
  if (limiter_.has_value() && !AllEnded()) {
    const int64_t due = limiter_->Due(context_->clock().MonotonicMicros());
    if (due == 0) {
      if (!waking_) {
        waking_ = true;
        scope_.Spawn(WakeLater(limiter_->WaitMicros()));
      }
      return PollResult::kIdle;
    }
    rows_max = std::min(rows_max, due);
  }
  bool picked_any = false;
  int64_t bytes_max = std::max<int64_t>(1, context_->options().batch_bytes_max);
  while (rows_max > 0 && bytes_max > 0) {
    if (next_ == batch_.rows.size()) {
      // What came with the rows before is looked at when those are emitted.
      if (picked_any && !batch_.events.empty()) break;
      HandleEvents();
      if (!failed_.ok()) return failed_;
      if (AllEnded()) {
        if (picked_any) break;
        return PollResult::kEnded;
      }
      consumer_->Poll(std::min(kMessagesAtOnce, static_cast<size_t>(rows_max)), &batch_);
      next_ = 0;
      if (batch_.empty()) {
        if (picked_any) break;
        return PollResult::kIdle;
      }
      DropDoubtful();
    }
    WEIR_RETURN_IF_ERROR(Pick(rows_max, &bytes_max));
    WEIR_RETURN_IF_ERROR(decoder_->Decode(picked_));
    for (Split* split : touched_) {
      split->position.row = MarkOf(*std::exchange(split->last, nullptr));
    }
    touched_.clear();
    picked_any = true;
    if (picked_.empty()) break;
    rows_max -= static_cast<int64_t>(picked_.size());
    if (limiter_.has_value()) limiter_->Take(static_cast<int64_t>(picked_.size()));
  }
  if (decoder_->rows() > 0) output.Emit(decoder_->Finish());
  return PollResult::kRows;
}

// Rows behind the news that a topic is unknown may be those of another one of its name. All of the
// batch are read again once that is clear, from where each partition stands.
void KafkaSource::DropDoubtful() {
  const auto of_partition = [](const KafkaEvent& event) {
    return event.kind == KafkaEvent::Kind::kPartitionEnd ||
           event.kind == KafkaEvent::Kind::kOutOfRange;
  };
  for (const KafkaEvent& event : batch_.events) {
    if (event.kind != KafkaEvent::Kind::kUnknownPartition) continue;
    batch_.rows.clear();
    std::erase_if(batch_.events, of_partition);
    return;
  }
}

Status KafkaSource::Pick(int64_t rows_max, int64_t* bytes_max) {
  picked_.clear();
  for (; next_ < batch_.rows.size(); ++next_) {
    if (static_cast<int64_t>(picked_.size()) >= rows_max || *bytes_max <= 0) break;
    const KafkaMessage& message = batch_.rows[next_];
    Split* split = by_tag_[static_cast<size_t>(message.tag)];
    if (!split->reading) continue;
    KafkaPosition& position = split->position;
    if (split->expected.has_value()) {
      const KafkaRowMark expected = *split->expected;
      if (message.offset < expected.offset) continue;
      split->expected.reset();
      if (message.offset == expected.offset) {
        if (MarkOf(message) == expected) continue;
        return FailedPreconditionError(
                   Concat(ToString(split->partition), " was read up to offset ", position.offset,
                          ", but another row stands at offset ", expected.offset,
                          " now: the topic was deleted and made anew"))
            .WithContext(Name());
      }
      // Compaction took it.
    }
    if (message.offset < position.offset) continue;
    if (position.to.has_value() && message.offset >= *position.to) {
      End(split);
      continue;
    }
    if (split->last == nullptr) touched_.push_back(split);
    ForgetEarlyEnd(split);
    split->last = &message;
    picked_.push_back(&message);
    *bytes_max -= static_cast<int64_t>(message.value.size() + message.key.size());
    position.offset = message.offset + 1;
    if (position.to.has_value() && position.offset >= *position.to) End(split);
  }
  return {};
}

Status KafkaSource::OnBadRow(const KafkaMessage& message, const Status& why) {
  const TopicPartition& partition = by_tag_[static_cast<size_t>(message.tag)]->partition;
  if (bad_data_ == BadData::kFail) {
    return why.WithContext(Concat(Name(), ": ", ToString(partition), " offset ", message.offset));
  }
  context_->CountDropped(1);
  if (dead_letters_ != nullptr) dead_letters_->Add(partition, message, why.message());
  return {};
}

void KafkaSource::HandleEvents() {
  std::vector<KafkaEvent> events = std::move(batch_.events);
  batch_.events.clear();
  for (const KafkaEvent& event : events) {
    Split* split = event.tag < 0 ? nullptr : by_tag_[static_cast<size_t>(event.tag)];
    switch (event.kind) {
      case KafkaEvent::Kind::kPartitionEnd:
        if (split->reading) OnPartitionEnd(split, event.offset);
        break;
      case KafkaEvent::Kind::kOutOfRange:
        if (!split->reading || checking_) break;
        split->reading = false;
        scope_.Spawn(Again(event.tag));
        break;
      case KafkaEvent::Kind::kUnknownPartition:
        if (!checking_ && !check_all_) {
          log::Warning(Name(),
                       " looks whether what it reads is still there: ", event.status.message());
        }
        check_all_ = true;
        break;
      case KafkaEvent::Kind::kFailed:
        Fail(event.status);
        return;
      case KafkaEvent::Kind::kBrokersAway:
        NoteAway(event.status);
        if (!std::exchange(waiting_, true)) scope_.Spawn(WaitForBrokers());
        break;
      case KafkaEvent::Kind::kBrokerLost:
        if (!std::exchange(waiting_, true)) scope_.Spawn(WaitForBrokers());
        break;
    }
  }
  if (!check_all_ || checking_) return;
  check_all_ = false;
  checking_ = true;
  for (const auto& [partition, split] : splits_) split->reading = false;
  scope_.Spawn(CheckAll());
}

void KafkaSource::OnPartitionEnd(Split* split, int64_t offset) {
  KafkaPosition& position = split->position;
  if (split->expected.has_value()) {
    if (offset < position.offset) {
      check_all_ = true;  // the log has become shorter just now
      return;
    }
    split->expected.reset();  // compaction took it
  }
  // Behind the last rows there may be records that are none: of transactions, or aborted.
  if (position.to.has_value()) offset = std::min(offset, *position.to);
  position.offset = std::max(position.offset, offset);
  if (!position.to.has_value()) return;
  if (position.offset >= *position.to) {
    End(split);
  } else {
    split->early_end = Concat("rows of ", ToString(split->partition), " up to offset ",
                              *position.to, " (end_offsets): it ends at ", position.offset);
    ShowEarlyEnds();
  }
}

Co<void> KafkaSource::WakeLater(int64_t delay_us) {
  co_await Sleep(context_->timers(), delay_us);
  waking_ = false;
  context_->Wake();
}

// Whether there is room for bad rows. A batch full of them may go beyond it.
bool KafkaSource::MayLeaveOut() const {
  return dead_letters_ == nullptr || (dead_letters_open_ && dead_letters_->parts().Ready());
}

// ---- checkpoints --------------------------------------------------------------------------------

std::vector<SplitState> KafkaSource::SnapshotPositions() {
  std::vector<SplitState> positions;
  snapshot_.clear();
  for (const auto& [partition, split] : splits_) {
    positions.push_back({ToString(partition), EncodeKafkaPosition(split->position)});
    snapshot_.emplace_back(partition, split->position.offset);
  }
  for (const auto& [partition, position] : restored_) {
    positions.push_back({ToString(partition), EncodeKafkaPosition(position)});
  }
  if (!started_) {
    for (const KafkaPendingStart& pending : pending_) positions.push_back({ToString(pending), ""});
  }
  if (positions.empty()) positions.push_back({std::string(kStartedSplit), ""});
  return positions;
}

void KafkaSource::OnSnapshot(uint64_t checkpoint) {
  snapshots_.emplace_back(checkpoint, std::move(snapshot_));
  snapshot_.clear();
  if (snapshots_.size() > kSnapshotsMax) snapshots_.pop_front();
}

void KafkaSource::OnCompleted(uint64_t checkpoint) {
  Positions offsets;
  while (!snapshots_.empty() && snapshots_.front().first <= checkpoint) {
    if (snapshots_.front().first == checkpoint) offsets = std::move(snapshots_.front().second);
    snapshots_.pop_front();
  }
  if (offsets.empty() || committing_) return;
  committing_ = true;
  scope_.Spawn(CommitForOthers(std::move(offsets)));
}

Co<void> KafkaSource::CommitForOthers(Positions offsets) {
  Async<Status> commit(
      [this, &offsets](auto done) { consumer_->CommitOffsets(offsets, std::move(done)); });
  const Status status = co_await std::move(commit);
  committing_ = false;
  if (!status.ok() && !commit_failed_) {
    log::Warning(Name(), " subtask ", context_->subtask(),
                 " cannot show its positions as offsets of its group: ", status.message());
  }
  commit_failed_ = !status.ok();
}

CommittableOwner* KafkaSource::committable_owner() {
  return dead_letters_ == nullptr ? nullptr : &dead_letters_->parts();
}

void KafkaSource::Close() {
  closed_ = true;
  scope_.Clear();
  known_.reset();
  consumer_.reset();
  if (dead_letters_ != nullptr) dead_letters_->parts().Close();
}

}  // namespace weir
