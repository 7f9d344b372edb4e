#include "tests/sim/kafka/kafka_broker.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "common/base/check.h"

namespace weir::sim {

std::string_view ToString(KafkaError error) {
  switch (error) {
    case KafkaError::kNone:
      return "NONE";
    case KafkaError::kUnknownTopicOrPartition:
      return "UNKNOWN_TOPIC_OR_PARTITION";
    case KafkaError::kMessageTooLarge:
      return "MESSAGE_TOO_LARGE";
    case KafkaError::kOutOfOrderSequenceNumber:
      return "OUT_OF_ORDER_SEQUENCE_NUMBER";
    case KafkaError::kInvalidProducerEpoch:
      return "INVALID_PRODUCER_EPOCH";
    case KafkaError::kInvalidTxnState:
      return "INVALID_TXN_STATE";
    case KafkaError::kInvalidProducerIdMapping:
      return "INVALID_PRODUCER_ID_MAPPING";
    case KafkaError::kInvalidTransactionTimeout:
      return "INVALID_TRANSACTION_TIMEOUT";
    case KafkaError::kConcurrentTransactions:
      return "CONCURRENT_TRANSACTIONS";
    case KafkaError::kUnstableOffsetCommit:
      return "UNSTABLE_OFFSET_COMMIT";
  }
  return "";
}

void KafkaBroker::CreateTopic(const std::string& topic, int partitions, int64_t message_bytes_max) {
  Topic& made = topics_[topic];
  made.message_bytes_max = message_bytes_max;
  made.partitions.resize(static_cast<size_t>(partitions));
}

KafkaBroker::Partition* KafkaBroker::Find(const std::string& topic, int32_t partition) {
  auto it = topics_.find(topic);
  if (it == topics_.end() || partition < 0 ||
      partition >= static_cast<int32_t>(it->second.partitions.size())) {
    return nullptr;
  }
  return &it->second.partitions[static_cast<size_t>(partition)];
}

const KafkaBroker::Partition& KafkaBroker::At(const std::string& topic, int32_t partition) const {
  return topics_.at(topic).partitions.at(static_cast<size_t>(partition));
}

// ---- what it does by itself --------------------------------------------------------------------

int64_t KafkaBroker::TimesOutAt(const Transactions& transactions) const {
  const int64_t over_us = transactions.started_us + transactions.timeout_us;
  const int64_t every_us = options_.timed_out_check_us;
  return (over_us / every_us + 1) * every_us;
}

void KafkaBroker::Advance(int64_t now_us) {
  WEIR_CHECK(now_us >= now_us_);
  while (true) {
    // The next thing that is due, in order of time.
    Transactions* next = nullptr;
    int64_t due_us = std::numeric_limits<int64_t>::max();
    for (auto& [id, transactions] : ids_) {
      int64_t own_us = due_us;
      if (transactions.state == State::kOngoing) own_us = TimesOutAt(transactions);
      for (const auto& [at_us, place] : transactions.markers) own_us = std::min(own_us, at_us);
      if (own_us >= due_us) continue;
      due_us = own_us;
      next = &transactions;
    }
    if (next == nullptr || due_us > now_us) break;
    now_us_ = std::max(now_us_, due_us);
    if (next->state == State::kOngoing) {
      ++timed_out_;
      ++next->producer.epoch;  // whoever has it is fenced
      Prepare(*next, false);
      continue;
    }
    auto marker = std::min_element(next->markers.begin(), next->markers.end());
    const Place place = marker->second;
    next->markers.erase(marker);
    EndAt(*next, place);
    if (!next->markers.empty()) continue;
    next->state =
        next->state == State::kPrepareCommit ? State::kCompleteCommit : State::kCompleteAbort;
    next->places.clear();
  }
  now_us_ = now_us;
}

void KafkaBroker::Prepare(Transactions& transactions, bool commit) {
  transactions.state = commit ? State::kPrepareCommit : State::kPrepareAbort;
  for (const Place& place : transactions.places) {
    transactions.markers.emplace_back(now_us_ + std::max<int64_t>(options_.end_marker_us(), 0),
                                      place);
  }
}

// The transaction is over there.
void KafkaBroker::EndAt(const Transactions& transactions, const Place& place) {
  const bool commit = transactions.state == State::kPrepareCommit;
  const int64_t producer = transactions.producer.id;
  if (place.second < 0) {
    auto it = groups_.find(place.first);
    if (it == groups_.end()) return;  // deleted meanwhile
    Group& group = it->second;
    group.epochs[producer] = transactions.producer.epoch;
    auto pending = group.pending.find(producer);
    if (pending == group.pending.end()) return;
    for (auto& [where, offset] : pending->second) {
      if (!commit) break;
      KafkaGroupOffset& committed = group.committed[where];
      if (observer_ != nullptr) observer_->OnOffsetCommitted(place.first, committed, offset);
      committed = std::move(offset);
    }
    group.pending.erase(producer);
    return;
  }
  Partition& partition = *Find(place.first, place.second);
  LogProducer& known = partition.producers[producer];
  if (known.epoch < transactions.producer.epoch) known.next_sequence = 0;
  known.epoch = transactions.producer.epoch;
  std::vector<const KafkaModelRecord*> records;
  if (known.first_open >= 0) {
    for (size_t i = static_cast<size_t>(known.first_open); i < partition.log.size(); ++i) {
      Entry& entry = partition.log[i];
      if (entry.producer != producer || entry.fate != Entry::Fate::kOpen) continue;
      entry.fate = commit ? Entry::Fate::kVisible : Entry::Fate::kAborted;
      if (commit) records.push_back(&entry.record);
    }
  }
  known.first_open = -1;
  if (observer_ != nullptr && !records.empty()) {
    observer_->OnCommitted(place.first, place.second, records);
  }
  partition.log.push_back({Entry::Fate::kControl, producer, {}});
}

// ---- requests ----------------------------------------------------------------------------------

KafkaError KafkaBroker::Metadata(const std::string& topic, int32_t* partitions,
                                 int64_t* message_bytes_max) {
  auto it = topics_.find(topic);
  if (it == topics_.end()) return KafkaError::kUnknownTopicOrPartition;
  *partitions = static_cast<int32_t>(it->second.partitions.size());
  *message_bytes_max = it->second.message_bytes_max;
  return KafkaError::kNone;
}

KafkaError KafkaBroker::InitProducerId(const std::string& id, int64_t timeout_us,
                                       KafkaProducerId* producer) {
  if (id.empty()) {
    *producer = {next_producer_++, 0};
    return KafkaError::kNone;
  }
  if (timeout_us <= 0 || timeout_us > options_.transaction_timeout_us_max) {
    return KafkaError::kInvalidTransactionTimeout;
  }
  auto [it, is_new] = ids_.try_emplace(id);
  Transactions& transactions = it->second;
  switch (transactions.state) {
    case State::kPrepareCommit:
    case State::kPrepareAbort:
      return KafkaError::kConcurrentTransactions;
    case State::kOngoing:
      ++transactions.producer.epoch;  // whoever has it is fenced at once
      Prepare(transactions, false);
      return KafkaError::kConcurrentTransactions;
    case State::kEmpty:
    case State::kCompleteCommit:
    case State::kCompleteAbort:
      break;
  }
  if (is_new || transactions.producer.epoch >= std::numeric_limits<int16_t>::max() - 1) {
    transactions.producer = {next_producer_++, 0};
  } else {
    ++transactions.producer.epoch;
  }
  transactions.state = State::kEmpty;
  transactions.timeout_us = timeout_us;
  *producer = transactions.producer;
  return KafkaError::kNone;
}

KafkaError KafkaBroker::Check(const std::string& id, KafkaProducerId producer) const {
  auto it = ids_.find(id);
  if (it == ids_.end() || it->second.producer.id != producer.id) {
    return KafkaError::kInvalidProducerIdMapping;
  }
  return it->second.producer.epoch == producer.epoch ? KafkaError::kNone
                                                     : KafkaError::kInvalidProducerEpoch;
}

KafkaError KafkaBroker::Add(const std::string& id, KafkaProducerId producer, Place place) {
  if (KafkaError error = Check(id, producer); error != KafkaError::kNone) return error;
  Transactions& transactions = ids_.at(id);
  if (!transactions.markers.empty()) return KafkaError::kConcurrentTransactions;
  if (transactions.state != State::kOngoing) {
    transactions.state = State::kOngoing;
    transactions.started_us = now_us_;
  }
  transactions.places.insert(std::move(place));
  return KafkaError::kNone;
}

KafkaError KafkaBroker::AddPartition(const std::string& id, KafkaProducerId producer,
                                     const std::string& topic, int32_t partition) {
  if (Find(topic, partition) == nullptr) return KafkaError::kUnknownTopicOrPartition;
  return Add(id, producer, {topic, partition});
}

KafkaError KafkaBroker::AddOffsets(const std::string& id, KafkaProducerId producer,
                                   const std::string& group) {
  return Add(id, producer, {group, -1});
}

KafkaError KafkaBroker::Verify(const std::string& id, KafkaProducerId producer,
                               const Place& place) const {
  if (KafkaError error = Check(id, producer); error != KafkaError::kNone) return error;
  const Transactions& transactions = ids_.at(id);
  if (!transactions.markers.empty()) return KafkaError::kConcurrentTransactions;
  return transactions.places.contains(place) ? KafkaError::kNone : KafkaError::kInvalidTxnState;
}

KafkaError KafkaBroker::Produce(const std::string& id, KafkaProducerId producer,
                                const std::string& topic, int32_t partition, int32_t sequence,
                                std::vector<KafkaModelRecord> records) {
  Partition* log = Find(topic, partition);
  if (log == nullptr) return KafkaError::kUnknownTopicOrPartition;
  for (const KafkaModelRecord& record : records) {
    const size_t bytes =
        (record.key ? record.key->size() : 0) + (record.value ? record.value->size() : 0);
    if (static_cast<int64_t>(bytes) > topics_.at(topic).message_bytes_max) {
      return KafkaError::kMessageTooLarge;
    }
  }
  auto it = log->producers.find(producer.id);
  const int16_t epoch = it == log->producers.end() ? int16_t{-1} : it->second.epoch;
  const bool is_open = it != log->producers.end() && it->second.first_open >= 0;
  if (producer.epoch < epoch) return KafkaError::kInvalidProducerEpoch;
  const int32_t next =
      it == log->producers.end() || epoch < producer.epoch ? 0 : it->second.next_sequence;
  const auto count = static_cast<int32_t>(records.size());
  // It came before.
  if (sequence + count <= next) return KafkaError::kNone;
  if (!id.empty() && !(is_open && epoch == producer.epoch)) {
    KafkaError error = Verify(id, producer, {topic, partition});
    if (error != KafkaError::kNone) return error;
  }
  if (sequence != next) return KafkaError::kOutOfOrderSequenceNumber;
  LogProducer& known = log->producers[producer.id];
  known.epoch = producer.epoch;
  known.next_sequence = next + count;
  if (!id.empty() && known.first_open < 0) {
    known.first_open = static_cast<int64_t>(log->log.size());
  }
  const size_t begin = log->log.size();
  for (KafkaModelRecord& record : records) {
    log->log.push_back(
        {id.empty() ? Entry::Fate::kVisible : Entry::Fate::kOpen, producer.id, std::move(record)});
  }
  if (id.empty() && observer_ != nullptr) {
    std::vector<const KafkaModelRecord*> visible;
    for (size_t i = begin; i < log->log.size(); ++i) visible.push_back(&log->log[i].record);
    observer_->OnCommitted(topic, partition, visible);
  }
  return KafkaError::kNone;
}

KafkaError KafkaBroker::TxnOffsetCommit(const std::string& id, KafkaProducerId producer,
                                        const std::string& group, const std::string& topic,
                                        int32_t partition, KafkaGroupOffset offset) {
  if (Find(topic, partition) == nullptr) return KafkaError::kUnknownTopicOrPartition;
  auto it = groups_.find(group);
  const bool is_open = it != groups_.end() && it->second.pending.contains(producer.id) &&
                       it->second.epochs[producer.id] == producer.epoch;
  if (it != groups_.end() && it->second.epochs.contains(producer.id) &&
      producer.epoch < it->second.epochs[producer.id]) {
    return KafkaError::kInvalidProducerEpoch;
  }
  if (!is_open) {
    KafkaError error = Verify(id, producer, {group, -1});
    if (error != KafkaError::kNone) return error;
  }
  Group& known = groups_[group];
  known.epochs[producer.id] = producer.epoch;
  if (observer_ != nullptr) observer_->OnOffsetSent(group, offset);
  known.pending[producer.id][{topic, partition}] = std::move(offset);
  return KafkaError::kNone;
}

KafkaError KafkaBroker::EndTxn(const std::string& id, KafkaProducerId producer, bool commit) {
  if (KafkaError error = Check(id, producer); error != KafkaError::kNone) return error;
  Transactions& transactions = ids_.at(id);
  switch (transactions.state) {
    case State::kEmpty:
      return KafkaError::kInvalidTxnState;
    case State::kOngoing:
      Prepare(transactions, commit);
      return KafkaError::kNone;
    case State::kPrepareCommit:
      return commit ? KafkaError::kConcurrentTransactions : KafkaError::kInvalidTxnState;
    case State::kPrepareAbort:
      return commit ? KafkaError::kInvalidTxnState : KafkaError::kConcurrentTransactions;
    case State::kCompleteCommit:
      return commit ? KafkaError::kNone : KafkaError::kInvalidTxnState;
    case State::kCompleteAbort:
      return commit ? KafkaError::kInvalidTxnState : KafkaError::kNone;
  }
  return KafkaError::kInvalidTxnState;
}

KafkaError KafkaBroker::OffsetFetch(const std::string& group, const std::string& topic,
                                    int32_t partition, KafkaGroupOffset* offset) {
  auto it = groups_.find(group);
  if (it != groups_.end()) {
    for (const auto& [producer, pending] : it->second.pending) {
      if (pending.contains({topic, partition})) return KafkaError::kUnstableOffsetCommit;
    }
  }
  *offset = Committed(group, topic, partition);
  return KafkaError::kNone;
}

// ---- to look -----------------------------------------------------------------------------------

int64_t KafkaBroker::high_watermark(const std::string& topic, int32_t partition) const {
  return static_cast<int64_t>(At(topic, partition).log.size());
}

int64_t KafkaBroker::last_stable_offset(const std::string& topic, int32_t partition) const {
  const Partition& log = At(topic, partition);
  auto stable = static_cast<int64_t>(log.log.size());
  for (const auto& [producer, known] : log.producers) {
    if (known.first_open >= 0) stable = std::min(stable, known.first_open);
  }
  return stable;
}

std::vector<const KafkaModelRecord*> KafkaBroker::ReadCommitted(const std::string& topic,
                                                                int32_t partition) const {
  const Partition& log = At(topic, partition);
  std::vector<const KafkaModelRecord*> records;
  const int64_t end = last_stable_offset(topic, partition);
  for (int64_t i = 0; i < end; ++i) {
    const Entry& entry = log.log[static_cast<size_t>(i)];
    if (entry.fate == Entry::Fate::kVisible) records.push_back(&entry.record);
  }
  return records;
}

std::vector<std::string> KafkaBroker::topics() const {
  std::vector<std::string> names;
  for (const auto& [name, topic] : topics_) names.push_back(name);
  return names;
}

int32_t KafkaBroker::partitions(const std::string& topic) const {
  return static_cast<int32_t>(topics_.at(topic).partitions.size());
}

std::string_view KafkaBroker::StateOf(const std::string& id) const {
  auto it = ids_.find(id);
  if (it == ids_.end()) return "";
  switch (it->second.state) {
    case State::kEmpty:
      return "Empty";
    case State::kOngoing:
      return "Ongoing";
    case State::kPrepareCommit:
      return "PrepareCommit";
    case State::kPrepareAbort:
      return "PrepareAbort";
    case State::kCompleteCommit:
      return "CompleteCommit";
    case State::kCompleteAbort:
      return "CompleteAbort";
  }
  return "";
}

std::vector<std::string> KafkaBroker::OpenTransactions() const {
  std::vector<std::string> open;
  for (const auto& [id, transactions] : ids_) {
    if (transactions.state == State::kOngoing || !transactions.markers.empty()) open.push_back(id);
  }
  return open;
}

KafkaGroupOffset KafkaBroker::Decided(const std::string& group, const std::string& topic,
                                      int32_t partition) const {
  auto it = groups_.find(group);
  if (it == groups_.end()) return {};
  for (const auto& [id, transactions] : ids_) {
    if (transactions.state != State::kPrepareCommit) continue;
    auto pending = it->second.pending.find(transactions.producer.id);
    if (pending == it->second.pending.end()) continue;
    auto offset = pending->second.find({topic, partition});
    if (offset != pending->second.end()) return offset->second;
  }
  return Committed(group, topic, partition);
}

KafkaGroupOffset KafkaBroker::Committed(const std::string& group, const std::string& topic,
                                        int32_t partition) const {
  auto it = groups_.find(group);
  if (it == groups_.end()) return {};
  auto committed = it->second.committed.find({topic, partition});
  return committed == it->second.committed.end() ? KafkaGroupOffset() : committed->second;
}

}  // namespace weir::sim
