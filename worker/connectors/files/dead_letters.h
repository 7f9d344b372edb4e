#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/operator/source.h"
#include "worker/connectors/sealed_parts/sealed_parts.h"

namespace weir {

// A row that a source could not read.
struct DeadLetter {
  std::string_view file;
  int64_t line = 0;    // from 1
  int64_t offset = 0;  // of its first byte in the file
  int64_t length = 0;  // bytes, its line end included
  std::string_view reason;
  std::optional<std::string_view> bytes;  // all of them; absent: too many to be kept
};

// The dead letters of a source subtask: JSON lines in files that appear together with the rows
// around them, named like those of files.sink. Each line is an object with the fields
//   source  uid of the source            file    whose row it is (the split)
//   line    from 1                       offset  of the row's first byte in the file
//   length  of the row in bytes          reason  what is wrong with it
//   text    the row, if it is valid UTF-8 of at most kDeadLetterTextBytesMax bytes; else null
//   bytes   the row in base64: exactly the `length` bytes at `offset`, line end included; null for
//           one that is longer than kTextRowBytesMax
// Thread: the task's.
class DeadLetters {
 public:
  DeadLetters(SourceContext& context, std::string directory);

  // `done` once letters may be added.
  void Open(std::function<void(Status)> done) { parts_->Open(std::move(done)); }
  void Add(const DeadLetter& letter);
  SealedParts& parts() { return *parts_; }

 private:
  const std::string source_;
  const SchemaPtr schema_;
  const std::unique_ptr<SealedParts> parts_;
};

inline constexpr size_t kDeadLetterTextBytesMax = 4096;

}  // namespace weir
