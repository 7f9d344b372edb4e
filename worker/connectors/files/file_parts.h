#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/graph/builtin_configs.h"
#include "common/operator/committable_owner.h"
#include "common/storage/file_system.h"
#include "common/threading/co.h"
#include "common/threading/executor.h"
#include "worker/connectors/files/file_publisher.h"

namespace weir {

// What FileParts works with; files and timers outlive it.
struct FilePartsOptions {
  SinkDirectory directory;
  Generation generation;
  // From this checkpoint of the job (0: none): the directory has been marked before, and nothing in
  // it was published by a later one.
  CheckpointId resumed_from;
  int subtask = 0;
  FileFormat format = FileFormat::kJson;  // by which final names end
  int64_t part_bytes_max = 128 << 20;     // a new part begins past it
  std::string head;                       // each part begins with it
  FileSystem* files = nullptr;
  Timers* timers = nullptr;
  std::function<void()> wake;        // Ready again
  std::function<void(Status)> fail;  // an error that ends the generation
};

// Bytes of one subtask, written into hidden files and published by renaming when their checkpoint
// completed. What files.sink and dead letters share.
//
// A part is one file: it grows while bytes come, is sealed by Prepare (or when it is large enough),
// fsynced, listed by every Prepare until it is published, and published by the first Publish of a
// checkpoint that lists it. No bytes, no part. Bytes wait in memory until they are on the way to
// the disk; how many is bounded, and so is what completed and is not published yet.
//
// Thread: the task's. Crash: pending files of this generation stay; the Committer removes those
// that no completed checkpoint lists. Kill points: sink.before_prepare_sync, sink.after_prepare and
// those of PublishParts.
class FileParts : public CommittableOwner {
 public:
  explicit FileParts(FilePartsOptions options) : options_(std::move(options)) {}

  // Makes and marks the directory; `done` once that is durable. No Prepare is answered before.
  void Open(std::function<void(Status)> done);
  // OK, or what went wrong for good: nothing is to be written any more.
  const Status& status() const { return failed_; }
  // Appends bytes of whole rows to the part: what `append` adds to its buffer.
  template <typename Append>
  void Write(const Append& append) {
    if (current_ == nullptr) BeginPart();
    append(&buffer_);
    AfterWrite();
  }
  bool Ready() const override;
  std::string blocking_reason() const override;
  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override;
  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override;
  void OnAborted(CheckpointId checkpoint) override;
  // Nothing is answered any more.
  void Close();

 private:
  struct Part {
    FilePart file;
    Committable committable;         // set when sealed by a Prepare and the mark is known
    std::deque<std::string> chunks;  // bytes not yet asked to be written
    bool complete = false;           // no more chunks will come
    bool durable = false;            // all bytes, the name not
    bool found = false;              // sealed, and seen to be in the marked directory
    bool publish_asked = false;      // its checkpoint completed
    bool publish_tried = false;
    bool published = false;  // durably
    CoSignal changed;        // chunks, complete, durable
  };
  using PartPtr = std::shared_ptr<Part>;
  struct PublishRequest {
    CheckpointId checkpoint;
    std::vector<PartPtr> parts;
    std::function<void(Status)> done;
  };

  Co<void> OpenDirectory(std::function<void(Status)> done);
  Co<Status> CheckNothingIsLater();
  Co<void> WritePart(PartPtr part);
  Co<void> FinishPrepare(CheckpointId checkpoint, std::vector<PartPtr> sealed,
                         std::vector<PartPtr> listed,
                         std::function<void(StatusOr<std::vector<Committable>>)> done);
  Co<void> PublishInOrder();
  void BeginPart();
  void AfterWrite();
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

  const FilePartsOptions options_;
  bool opened_ = false;
  CoSignal opening_;
  std::string mark_maker_;  // of the directory, since it was opened
  Status failed_;

  std::string buffer_;                // bytes of the current part
  PartPtr current_;                   // being written; nullptr: no rows since the last seal
  int64_t current_bytes_ = 0;         // handed over to its chunks
  std::vector<PartPtr> complete_;     // grew large since the last Prepare
  std::vector<PartPtr> unpublished_;  // sealed, in order
  std::map<CheckpointId, std::vector<PartPtr>> listed_;  // by each Prepare that may still complete
  int64_t next_number_ = 0;
  int64_t bytes_in_flight_ = 0;   // in chunks, or being written
  int64_t publishing_parts_ = 0;  // asked to be published and not yet
  mutable bool waiting_ = false;  // Ready said no
  std::deque<PublishRequest> publish_requests_;
  bool publishing_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // until Close: answers are wanted
  CoScope scope_;
};

}  // namespace weir
