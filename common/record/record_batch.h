#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/record/schema.h"

namespace weir {

// Bytes that columns share. Never changed once a batch holds it; padded by at least 64 readable
// bytes, so that vector code may read past the end. Aligned to 64 bytes; a part of another buffer
// to as many as its offset is.
class Buffer {
 public:
  explicit Buffer(size_t size);
  // `size` bytes of `whole` from `offset` on, which it keeps. REQUIRES: they are within it.
  Buffer(std::shared_ptr<Buffer> whole, size_t offset, size_t size);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_;
  size_t size_;
  std::shared_ptr<Buffer> whole_;  // of a part
};

using BufferPtr = std::shared_ptr<Buffer>;

// One column in the Arrow layout, BOOL excepted (one byte a value). Thread: immutable.
//   validity  bit i (LSB first) set: row i is not null; no buffer: no nulls
//   data      fixed width: `size` values; STRING, BYTES: the bytes of all values
//   offsets   STRING, BYTES only: size + 1 int32 offsets into data, the first not always 0
// The value under a null is unspecified but readable (for variable width: offsets still grow).
class Column {
 public:
  Column() = default;
  Column(Type type, int64_t size, BufferPtr validity, BufferPtr data, BufferPtr offsets = nullptr)
      : type_(type),
        size_(size),
        validity_(std::move(validity)),
        data_(std::move(data)),
        offsets_(std::move(offsets)) {}

  Type type() const { return type_; }
  int64_t size() const { return size_; }
  bool has_nulls() const { return validity_ != nullptr; }
  bool IsNull(int64_t row) const {
    return validity_ != nullptr && ((validity_->data()[row >> 3] >> (row & 7)) & 1) == 0;
  }

  // Raw values. REQUIRES: T has the width of the type (uint8_t, int32_t, int64_t, double).
  template <typename T>
  const T* values() const {
    return reinterpret_cast<const T*>(data_->data());
  }
  bool Bool(int64_t row) const { return values<uint8_t>()[row] != 0; }
  int32_t Int32(int64_t row) const { return values<int32_t>()[row]; }
  // INT64 and TIMESTAMP.
  int64_t Int64(int64_t row) const { return values<int64_t>()[row]; }
  double Float64(int64_t row) const { return values<double>()[row]; }
  // STRING and BYTES.
  std::string_view Text(int64_t row) const {
    const int32_t* o = offset_values();
    return {reinterpret_cast<const char*>(data_->data()) + o[row],
            static_cast<size_t>(o[row + 1] - o[row])};
  }
  const int32_t* offset_values() const {
    return reinterpret_cast<const int32_t*>(offsets_->data());
  }
  const BufferPtr& validity() const { return validity_; }
  const BufferPtr& data() const { return data_; }
  const BufferPtr& offsets() const { return offsets_; }
  // Bytes of the values of this column (not of shared buffers behind it).
  int64_t ByteSize() const;

 private:
  Type type_ = Type::kInt64;
  int64_t size_ = 0;
  BufferPtr validity_;
  BufferPtr data_;
  BufferPtr offsets_;
};

// Rows as columns of one schema. Immutable; handed over by reference count. Thread: immutable.
class RecordBatch {
 public:
  RecordBatch() = default;
  // REQUIRES: columns match the schema in number and types and all hold `rows` values.
  RecordBatch(SchemaPtr schema, int64_t rows, std::vector<Column> columns);

  const SchemaPtr& schema() const { return schema_; }
  int64_t rows() const { return rows_; }
  int columns() const { return static_cast<int>(columns_.size()); }
  const Column& column(int i) const { return columns_[i]; }
  // Bytes of all values; what limits and credits count. At least 1 for a batch with rows.
  int64_t ByteSize() const { return byte_size_; }

  // The rows named by `rows`, in that order (repeats allowed).
  RecordBatch Select(std::span<const int32_t> rows) const;

 private:
  SchemaPtr schema_;
  int64_t rows_ = 0;
  std::vector<Column> columns_;
  int64_t byte_size_ = 0;
};

using RecordBatchPtr = std::shared_ptr<const RecordBatch>;

// The encoded form of a batch without its schema (which the channel fixes): see batch_codec.cc for
// the bytes. They are pieces, the long ones of which lie in the columns themselves: nothing large
// is copied. Keeps the batch. Thread: immutable.
class EncodedBatch {
 public:
  explicit EncodedBatch(RecordBatchPtr batch);
  EncodedBatch(const EncodedBatch&) = delete;
  EncodedBatch& operator=(const EncodedBatch&) = delete;

  size_t size() const { return size_; }
  const std::vector<std::string_view>& pieces() const { return pieces_; }
  // Appends what lies between `offset` and `offset + size`. REQUIRES: that is within the encoding.
  void Slice(size_t offset, size_t size, std::vector<std::string_view>* pieces) const;

 private:
  const RecordBatchPtr batch_;
  std::string copied_;
  std::vector<std::string_view> pieces_;
  size_t size_ = 0;
};

// The batch that `bytes` encode; its columns are parts of them, nothing is copied. Refuses anything
// that is not exactly one encoded batch of `row_schema`, or of partial rows where `partial_schema`
// is given (kDataLoss), whatever the bytes: every length, offset and UTF-8-independent invariant is
// checked before use.
StatusOr<RecordBatch> DecodeBatch(const SchemaPtr& row_schema, const BufferPtr& bytes,
                                  const SchemaPtr& partial_schema = nullptr);

}  // namespace weir
