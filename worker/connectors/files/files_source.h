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
#include "worker/connectors/files/files_glob.h"
#include "worker/connectors/rate_limit/rate_limiter.h"

namespace weir {

// How far one file is read. As text "<offset> <line>[ end]": the offset and the line number (from
// 1) of the next row, and whether a bounded source has read the file to its end.
struct FilePosition {
  int64_t offset = 0;
  int64_t line = 1;
  bool ended = false;
  bool operator==(const FilePosition&) const = default;
};
std::string EncodeFilePosition(const FilePosition& position);
std::optional<FilePosition> DecodeFilePosition(std::string_view text);

// Reads the files of one subtask; each file is a split, named by its path.
//
// Bounded: the files are the config's `files`, resolved at submission; file i belongs to subtask
// i mod parallelism. Each is read to the end it has when it is reached; a last line without line
// end counts.
// Following: the pattern is looked up every follow_interval; a file belongs to subtask XXH3(path)
// mod parallelism. Rows count when their line end is there. Files only grow: one that is shorter
// than what was read of it, or gone, is an error, for what stood there is not to be had again.
//
// Up to kOpenMax files are read side by side, a batch of each in turn, each with at most one chunk
// read ahead. Poll only parses. Thread: the task's.
class FilesSource : public Source {
 public:
  Status Open(SourceContext& context, const std::vector<SplitState>& restored) override;
  StatusOr<PollResult> Poll(Output& output) override;
  std::vector<SplitState> SnapshotPositions() override;
  void Close() override;

 private:
  struct Split {
    std::string path;
    FilePosition position;
    bool open = false;       // among open_
    bool queued = false;     // among queue_
    int64_t size_seen = -1;  // following: when it was last found or read

    // While open. Unread bytes: buffer[begin, end), followed by kTextPadding bytes.
    std::unique_ptr<TextDecoder> decoder;  // started once the head of the file was seen
    std::string buffer;
    size_t begin = 0;
    size_t end = 0;
    std::optional<std::string> ahead;  // the bytes behind buffer
    bool ahead_is_last = false;        // the file ends with `ahead`
    bool at_end = false;               // the file ends with `buffer`
    CoSignal room;                     // `ahead` was taken
  };

  Co<void> ReadSplit(Split* split);
  Co<Status> StartDecoder(Split* split, std::string* head);
  Co<void> Follow();
  Co<void> WakeLater(int64_t delay_us);
  Status NoteFound(const std::vector<FoundFile>& found);
  Split* AddSplit(const std::string& path);
  void Enqueue(Split* split);
  void OpenQueued();
  void CloseSplit(Split* split);
  void TakeAhead(Split* split);
  // Appends up to `rows_max` rows of the split. How many were read, dropped ones included.
  StatusOr<int64_t> DecodeSplit(Split* split, int64_t rows_max, BatchBuilder* builder);
  Status BadRow(const Split& split, std::string_view bytes, int64_t lines_before,
                const Status& status) const;
  std::unique_ptr<TextDecoder> MakeDecoder() const;
  void Fail(Status status);
  bool OwnsPath(const std::string& path) const;

  SourceContext* context_ = nullptr;
  FilesSourceConfig config_;
  BadData bad_data_ = BadData::kFail;
  Status failed_;
  bool closed_ = false;
  std::optional<RateLimiter> limiter_;
  bool waking_ = false;
  std::map<std::string, std::unique_ptr<Split>> splits_;  // by path
  std::deque<Split*> queue_;                              // with bytes to read, not open yet
  std::vector<Split*> open_;
  size_t next_ = 0;  // into open_
  CoScope scope_;
};

}  // namespace weir
