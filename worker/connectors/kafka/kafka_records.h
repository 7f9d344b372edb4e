#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

// Rows as they go to Kafka, encoded: what the sink stages on disk and what a producer takes. An
// on-disk contract; all integers little endian.
//   file     "WeirKafk", uint32 version 1, uint32 0; blocks
//   block    a header of 32 bytes and the records of one partition:
//            offset 0  uint32 bytes of the records      4  uint32 number of records, not 0
//                   8  int32 partition                 12  uint32 0
//                  16  int64 base timestamp in ms      24  uint64 XXH3 of the records, its seed
//                                                          XXH3 of the 24 bytes in front
//   record   varint number of headers * 2 + (1: has a timestamp),
//            varint zigzag of timestamp - base, if it has one,
//            varint bytes of the key + 1 (0: null), varint bytes of the value + 1 (0: null),
//            key, value, headers
//   header   varint bytes of the name, name, varint bytes of the value + 1 (0: null), value
// A varint has 7 bits a byte, low ones first, at most ten bytes, none of them superfluous.
namespace weir {

struct KafkaHeaderView {
  std::string_view name;
  std::optional<std::string_view> value;
  bool operator==(const KafkaHeaderView&) const = default;
};

struct KafkaRecordView {
  std::optional<std::string_view> key;
  std::optional<std::string_view> value;
  int64_t timestamp_ms = -1;  // since 1970; -1: none
  std::span<const KafkaHeaderView> headers;
};

inline constexpr size_t kKafkaFileHeaderBytes = 16;
inline constexpr size_t kKafkaBlockHeaderBytes = 32;
// A block ends when its records have this many bytes, so that one is larger only by its last
// record.
inline constexpr size_t kKafkaBlockBytes = 256 << 10;
// Of one record; the largest message of a broker is smaller.
inline constexpr size_t kKafkaRecordBytesMax = size_t{1} << 30;

// Appends what a file of records begins with.
void AppendKafkaFileHeader(std::string* out);
// kDataLoss: these are not the first bytes of such a file. REQUIRES: kKafkaFileHeaderBytes of them.
Status CheckKafkaFileHeader(std::string_view bytes);

// Appends blocks. Lifetime: Begin, any number of records, End; `out` is the writer's meanwhile.
// Thread: confined to its owner.
class KafkaBlockWriter {
 public:
  // `bytes_hint`: what will be written, more or less.
  void Begin(int32_t partition, std::string* out, size_t bytes_hint = 0);
  // REQUIRES: key, value and headers have at most kKafkaRecordBytesMax bytes together, and
  // `timestamp_ms` is -1 or not negative.
  void Add(const KafkaRecordView& record);
  // No records, no block.
  void End();

 private:
  void EndBlock();

  std::string* out_ = nullptr;
  size_t used_ = 0;   // bytes of out_ that are written; it may be longer until End
  size_t begin_ = 0;  // of the block's header
  int32_t partition_ = 0;
  uint32_t rows_ = 0;  // of the block
  int64_t base_ms_ = 0;
};

struct KafkaBlock {
  int32_t partition = 0;
  uint32_t rows = 0;
  int64_t base_ms = 0;
  uint64_t checksum = 0;
  std::string_view records;  // encoded
  int64_t records_offset = 0;
};

// The blocks of some bytes, checked against their checksums. Views are of `bytes`.
// Thread: confined to its owner.
class KafkaBlockReader {
 public:
  // `name` and `offset`: where `bytes` begin, for errors.
  explicit KafkaBlockReader(std::string_view bytes, std::string name = "records",
                            int64_t offset = 0)
      : bytes_(bytes), name_(std::move(name)), offset_(offset) {}
  // False: there is no further whole block; used() tells whether bytes are left.
  // kDataLoss: what follows is no block; names file and offset.
  StatusOr<bool> Next(KafkaBlock* block);
  // Bytes of the blocks so far.
  size_t used() const { return used_; }
  // Bytes of the next block as far as it can be told: at least its header. REQUIRES: Next has
  // returned false.
  size_t wanted() const { return wanted_; }

 private:
  const std::string_view bytes_;
  const std::string name_;
  const int64_t offset_;
  size_t used_ = 0;
  size_t wanted_ = kKafkaBlockHeaderBytes;
};

// The records of one block, in order. Views are of the block, and the headers of one record are
// valid until the next. Thread: confined to its owner.
class KafkaRecordReader {
 public:
  explicit KafkaRecordReader(const KafkaBlock& block)
      : next_(block.records.data()),
        end_(block.records.data() + block.records.size()),
        begin_(block.records.data()),
        rows_left_(block.rows),
        base_ms_(block.base_ms),
        offset_(block.records_offset) {}
  // False at the end, and where the bytes are no record: then status() says so.
  bool Next(KafkaRecordView* record);
  // OK, or kDataLoss with the offset.
  const Status& status() const { return status_; }

 private:
  bool Damaged(std::string_view what);
  bool ReadVarint(uint64_t* value);
  // A length + 1 that fits in what is left.
  bool ReadLength(int64_t* length);
  std::optional<std::string_view> Take(int64_t length);

  const char* next_;
  const char* const end_;
  const char* const begin_;
  uint32_t rows_left_;
  const int64_t base_ms_;
  const int64_t offset_;
  std::vector<KafkaHeaderView> headers_;
  Status status_;
};

}  // namespace weir
