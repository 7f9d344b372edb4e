#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/builtin_configs.h"
#include "common/operator/source.h"
#include "common/record/text_decoder.h"
#include "common/threading/co.h"
#include "worker/connectors/files/dead_letters.h"
#include "worker/connectors/files/files_glob.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {

// How far one file is read. As text "<offset> <line>[ end][ tail <bytes> <hash>]": the offset and
// the line number (from 1) of the next row, whether a bounded source has read the file to its end,
// and XXH3 (16 hex digits) of the last bytes in front of the offset, by which a file that was
// replaced is told from the one that was read. Positions without a tail are of earlier versions.
struct FilePosition {
  int64_t offset = 0;
  int64_t line = 1;
  bool ended = false;
  int64_t tail_bytes = 0;  // 0: not known
  uint64_t tail_hash = 0;
  bool operator==(const FilePosition&) const = default;
};
// Most bytes of a tail; as many as there are in front of the offset.
inline constexpr int64_t kFileTailBytes = 1024;
std::string EncodeFilePosition(const FilePosition& position);
std::optional<FilePosition> DecodeFilePosition(std::string_view text);

// Reads the files of one subtask; each file is a split, named by its path.
//
// Bounded: the files are the config's `files`, resolved at submission; file i belongs to subtask
// i mod parallelism. Each is read to the end it has when it is reached; a last line without line
// end counts.
// Following: the pattern is looked up every follow_interval; a file belongs to subtask XXH3(path)
// mod parallelism. Rows count when their line end is there. Files only grow.
//
// A file that is shorter than what was read of it, or gone, or has other bytes in front of the
// offset than those that were read, is an error: what stood there is not to be had again, and what
// stands there now is not to be read from its middle. It is looked at again whenever its version
// changed (following) and with every read.
//
// A row that cannot be read ends the job, is left out and counted, or becomes a dead letter too.
//
// Up to kOpenMax files are read side by side, a batch of each in turn, each with at most one chunk
// read ahead. Poll only parses. Thread: the task's.
class FilesSource : public Source {
 public:
  Status Open(SourceContext& context, const std::vector<SplitState>& restored) override;
  StatusOr<PollResult> Poll(Output& output) override;
  std::vector<SplitState> SnapshotPositions() override;
  CommittableOwner* committable_owner() override;
  void Close() override;

 private:
  struct Split {
    std::string path;
    FilePosition position;      // its tail: as restored
    bool open = false;          // among open_
    bool queued = false;        // among queue_
    int64_t size_seen = -1;     // following: when it was last found or read
    uint64_t version_seen = 0;  // following: when it was last read
    // The last bytes in front of buffer[0]; nullopt: not read since the restore.
    std::optional<std::string> tail;

    // While open. Unread bytes: buffer[begin, end), followed by kTextPadding bytes.
    std::unique_ptr<TextDecoder> decoder;  // started once the head of the file was seen
    std::string buffer;
    size_t begin = 0;
    size_t end = 0;
    std::string spare;                 // a buffer that was read, for the next read
    std::optional<std::string> ahead;  // the bytes behind buffer, behind some that are in it
    bool ahead_is_last = false;        // the file ends with `ahead`
    size_t ahead_begin = 0;            // in `ahead`
    bool at_end = false;               // the file ends with `buffer`
    // In a row that is too long to be kept: so many bytes of it are behind the position already.
    // The position and its tail stay in front of the row until its end is found.
    std::optional<int64_t> skipped;
    Status skipped_error;
    std::string position_tail;
    CoSignal room;  // `ahead` was taken
  };

  Co<void> ReadSplit(Split* split);
  Co<Status> StartDecoder(Split* split, std::string* head);
  // Whether the bytes in front of where reading begins are those that were read before.
  Status CheckTail(Split* split, std::string_view tail, int64_t offset);
  Co<void> Follow();
  Co<void> WakeLater(int64_t delay_us);
  Status NoteFound(const std::vector<FoundFile>& found);
  Split* AddSplit(const std::string& path);
  void Enqueue(Split* split);
  void OpenQueued();
  void CloseSplit(Split* split);
  void TakeAhead(Split* split);
  // Appends up to `rows_max` rows of the split. How many were read, bad ones included.
  StatusOr<int64_t> DecodeSplit(Split* split, int64_t rows_max, BatchBuilder* builder);
  // Goes on in a row that is too long. True: its end was found.
  bool SkipLongRow(Split* split);
  // What is wrong with the row at `before` behind the split's position.
  Status BadRow(const Split& split, const TextProgress& before, const Status& status) const;
  // Leaves a row out that is bad and begins there. `bytes`: absent when it is too long.
  void LeaveOut(const Split& split, const TextProgress& before, int64_t length,
                std::optional<std::string_view> bytes, const Status& status);
  bool MayLeaveOut() const;
  FilePosition PositionOf(const Split& split) const;
  std::unique_ptr<TextDecoder> MakeDecoder() const;
  void Fail(Status status);
  bool OwnsPath(const std::string& path) const;

  SourceContext* context_ = nullptr;
  FilesSourceConfig config_;
  BadData bad_data_ = BadData::kFail;
  Status failed_;
  bool closed_ = false;
  std::unique_ptr<DeadLetters> dead_letters_;  // if bad rows become some
  bool dead_letters_open_ = false;
  std::optional<RateLimiter> limiter_;
  bool waking_ = false;
  std::map<std::string, std::unique_ptr<Split>> splits_;  // by path
  std::deque<Split*> queue_;                              // with bytes to read, not open yet
  std::vector<Split*> open_;
  size_t next_ = 0;  // into open_
  CoScope scope_;
};

}  // namespace weir
