#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/graph/builtin_configs.h"
#include "common/operator/sink.h"
#include "common/threading/co.h"
#include "worker/connectors/files/file_publisher.h"

namespace weir {

// Writes rows into hidden files and publishes them by renaming when their checkpoint completed.
//
// A part is one file: it grows while rows come, is sealed by Prepare (or when it is large enough),
// fsynced, listed by every Prepare until it is published, and published by the first Publish of a
// checkpoint that lists it. No rows, no part. Bytes wait in memory until they are on the way to the
// disk; how many is bounded, and so is what completed and is not published yet.
//
// Thread: the task's. Crash: pending files of this generation stay; the Committer removes those
// that no completed checkpoint lists. Kill points: sink.before_prepare_sync, sink.after_prepare and
// those of PublishParts.
class FilesSink : public Sink {
 public:
  void Open(SinkContext& context, std::function<void(Status)> done) override;
  Status Write(const RecordBatch& batch) override;
  bool Ready() const override;
  std::string blocking_reason() const override;
  void Prepare(CheckpointId checkpoint,
               std::function<void(StatusOr<std::vector<Committable>>)> done) override;
  void Publish(CheckpointId checkpoint, std::function<void(Status)> done) override;
  void OnAborted(CheckpointId checkpoint) override;
  void Close() override;

 private:
  struct Part {
    FilePart file;
    Committable committable;         // set when sealed by a Prepare
    std::deque<std::string> chunks;  // bytes not yet asked to be written
    bool complete = false;           // no more chunks will come
    bool durable = false;            // all bytes, the name not
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
  Co<void> WritePart(PartPtr part);
  Co<void> FinishPrepare(CheckpointId checkpoint, std::vector<PartPtr> sealed,
                         std::vector<PartPtr> listed,
                         std::function<void(StatusOr<std::vector<Committable>>)> done);
  Co<void> PublishInOrder();
  void BeginPart();
  void FlushBuffer();
  void CompletePart();
  void Fail(Status status);
  bool closed() const { return alive_ == nullptr; }
  // As mail of its own, not inside the flow that ends with it: the answer may destroy the sink.
  template <typename T>
  void Answer(std::function<void(T)> done, T value);
  // Wakes the task if it was told to wait and need not any more.
  void WakeIfReady();

  SinkContext* context_ = nullptr;
  FilesSinkConfig config_;
  SinkDirectory directory_;
  Status failed_;

  std::string buffer_;                // encoded rows of the current part
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
