#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/operator/committable_owner.h"
#include "common/storage/file_system.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/connectors/sealed_parts/part_store.h"

namespace weir {

// What SealedParts works with; files and timers outlive it.
struct SealedPartsOptions {
  std::string uid;
  Generation generation;
  int subtask = 0;
  int64_t part_bytes_max = 128 << 20;  // a new part begins past it
  std::string head;                    // each part begins with it
  // A Prepare without rows seals a part without a file, so that each checkpoint publishes: not
  // while an earlier part waits for that, lest they pile up where nothing can be published.
  bool seals_empty_parts = false;
  int64_t publishing_bytes_max = INT64_MAX;  // completed and not yet published; then not Ready
  FileSystem* files = nullptr;
  Timers* timers = nullptr;
  std::function<void()> wake;  // Ready again
  // What writing, or publishing, cannot go on without; "": nothing. As SetWaiting of a context.
  std::function<void(std::string_view part, std::string what)> waits;
  std::function<void(Status)> fail;  // an error that ends the generation
};

// Rows and bytes on their way. What is staged does not belong to a completed checkpoint yet.
struct SealedPartsProgress {
  int64_t staged_rows = 0;
  int64_t staged_bytes = 0;
  int64_t publishing_rows = 0;
  int64_t publishing_bytes = 0;
};

// Bytes of one subtask, written into files and published when their checkpoint completed. What
// files.sink, dead letters and kafka.sink share; the store says where and how.
//
// A part is one file: it grows while bytes come, is sealed by Prepare (or when it is large enough),
// fsynced, listed by every Prepare until it is published, and published by the first Publish of a
// checkpoint that lists it. No bytes, no part, unless empty ones are sealed. Bytes wait in memory
// until they are on the way to the disk; how many is bounded, and so is what completed and is not
// published yet. While the disk has no room, or may not be written to, bytes wait and are written
// when that is over.
//
// Thread: the task's. Crash: files of this generation stay; the Committer removes those that no
// completed checkpoint lists. Kill points: sink.before_prepare_sync, sink.after_prepare and those
// of the store.
class SealedParts : public CommittableOwner {
 public:
  SealedParts(std::unique_ptr<PartStore> store, SealedPartsOptions options)
      : store_(std::move(store)), options_(std::move(options)) {}

  // Opens the store; `done` when that is open. Bytes may be written before; no Prepare is answered.
  void Open(std::function<void(Status)> done);
  // OK, or what went wrong for good: nothing is to be written any more.
  const Status& status() const { return failed_; }
  // Appends bytes of whole rows to the part: what `append` adds to its buffer. It answers how many
  // rows those are.
  template <typename Append>
  void Write(const Append& append) {
    if (current_ == nullptr) BeginPart();
    AfterWrite(append(&buffer_));
  }
  bool Ready() const override;
  std::string blocking_reason() const override;
  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override;
  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override;
  void OnAborted(CheckpointId checkpoint) override;
  // Nothing is answered any more. Removes the files that no answer of Prepare has listed.
  void Close();
  SealedPartsProgress progress() const;

 private:
  struct Part;
  using PartPtr = std::shared_ptr<Part>;
  struct PublishRequest {
    CheckpointId checkpoint;
    std::vector<PartPtr> parts;  // that no request before it has
    std::function<void(Status)> done;
  };

  Co<void> OpenStore(std::function<void(Status)> done);
  Co<void> WritePart(PartPtr part);
  // Tries for as long as the disk has no room for them.
  Co<Status> WriteBytes(std::string path, int64_t offset, std::string bytes);
  Co<void> FinishPrepare(CheckpointId checkpoint, std::vector<PartPtr> sealed,
                         std::vector<PartPtr> listed,
                         std::function<void(StatusOr<std::vector<Committable>>)> done);
  Co<void> PublishInOrder();
  void BeginPart();
  void AfterWrite(int64_t rows);
  void FlushBuffer();
  void FlushPages();
  void CompletePart();
  void Fail(Status status);
  bool closed() const { return alive_ == nullptr; }
  // As mail of its own, not inside the flow that ends with it: the answer may destroy the sink.
  template <typename T>
  void Answer(std::function<void(T)> done, T value);
  // Wakes the task if it was told to wait and need not any more.
  void WakeIfReady();
  bool publishing_lags() const;

  const std::unique_ptr<PartStore> store_;
  const SealedPartsOptions options_;
  bool opened_ = false;
  CoSignal opening_;
  Status failed_;

  std::string buffer_;                // bytes of the current part
  PartPtr current_;                   // being written; nullptr: no rows since the last seal
  std::vector<PartPtr> complete_;     // grew large since the last Prepare
  std::vector<PartPtr> unpublished_;  // sealed, in order
  std::map<CheckpointId, std::vector<PartPtr>> listed_;  // by each Prepare that may still complete
  int64_t next_number_ = 0;
  int64_t bytes_in_flight_ = 0;   // in chunks, or being written
  int64_t publishing_parts_ = 0;  // asked to be published and not yet
  SealedPartsProgress progress_;  // but for what is in buffer_
  mutable bool waiting_ = false;  // Ready said no
  std::deque<PublishRequest> publish_requests_;
  bool publishing_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // until Close: answers are wanted
  CoScope scope_;
};

}  // namespace weir
