#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "common/record/record_batch.h"

namespace weir {

// Grows one column value by value. Amortised O(1) a value; nulls cost nothing until the first.
// Thread: confined to its owner.
class ColumnBuilder {
 public:
  explicit ColumnBuilder(Type type);
  ColumnBuilder(ColumnBuilder&&) noexcept;
  ColumnBuilder& operator=(ColumnBuilder&&) noexcept;
  ~ColumnBuilder();

  Type type() const { return type_; }
  int64_t size() const { return size_; }
  // Bytes of values so far.
  int64_t byte_size() const;
  void Reserve(int64_t rows);

  void AppendNull();
  // REQUIRES: the call matches the type.
  void AppendBool(bool value) { AppendFixed(static_cast<uint8_t>(value)); }
  void AppendInt32(int32_t value) { AppendFixed(value); }
  void AppendInt64(int64_t value) { AppendFixed(value); }  // INT64 and TIMESTAMP
  void AppendFloat64(double value) { AppendFixed(value); }
  void AppendText(std::string_view value);  // STRING and BYTES
  // Row `row` of `source`, null or not. REQUIRES: same type.
  void AppendFrom(const Column& source, int64_t row);
  void AppendFrom(const Column& source, std::span<const int32_t> rows);
  void AppendAll(const Column& source);

  // For writing values of fixed width from outside: where the next one goes, how many there is room
  // for (Reserve makes it), and that so many were written. REQUIRES: no value is null so far.
  uint8_t* tail() { return values_ + data_size_; }
  int64_t room() const {
    return static_cast<int64_t>((data_capacity_ - data_size_) / static_cast<size_t>(width_));
  }
  void Advance(int64_t rows) {
    size_ += rows;
    data_size_ += static_cast<size_t>(rows) * static_cast<size_t>(width_);
  }
  bool has_nulls() const { return validity_ != nullptr; }

  // Takes back every row from `rows` on. REQUIRES: rows <= size().
  void Truncate(int64_t rows);

  // The column; the builder is empty afterwards.
  Column Finish();

 private:
  template <typename T>
  void AppendFixed(T value) {
    if (data_capacity_ - data_size_ < sizeof(T)) GrowData(sizeof(T));
    std::memcpy(values_ + data_size_, &value, sizeof(T));
    data_size_ += sizeof(T);
    if (validity_ != nullptr) MarkValid(1);
    ++size_;
  }
  // Room for `bytes` more of data, for `rows` more offsets, for validity up to row `rows`.
  void GrowData(size_t bytes);
  void ReserveData(size_t bytes) {
    if (data_capacity_ - data_size_ < bytes) GrowData(bytes);
  }
  void ReserveOffsets(int64_t rows);
  void ReserveValidity(int64_t rows);
  // Makes the validity buffer; all rows so far are valid.
  void MakeValidity();
  // The next `rows` rows, which `size_` does not count yet, are not null.
  void MarkValid(int64_t rows);
  void AppendTextRows(const Column& source, std::span<const int32_t> rows);

  Type type_;
  int width_;  // FixedWidth(type_)
  int64_t size_ = 0;
  int64_t null_count_ = 0;
  BufferPtr validity_;  // made at the first null
  BufferPtr data_;
  uint8_t* values_ = nullptr;  // data_'s bytes; the first data_size_ are in use
  size_t data_size_ = 0;
  size_t data_capacity_ = 0;
  BufferPtr offsets_;  // STRING, BYTES: size_ + 1 in use once there is a row
};

// Grows a batch row by row or from rows of other batches. Thread: confined to its owner.
class BatchBuilder {
 public:
  explicit BatchBuilder(SchemaPtr schema);

  const SchemaPtr& schema() const { return schema_; }
  int64_t rows() const { return columns_.empty() ? 0 : columns_[0].size(); }
  int64_t byte_size() const;
  // One value must be appended to each column per row; checked at Finish.
  ColumnBuilder& column(int i) { return columns_[i]; }
  // Room for `rows` more, but for the bytes of texts.
  void Reserve(int64_t rows);
  // REQUIRES: batch has the same field types.
  void AppendRow(const RecordBatch& batch, int64_t row);
  void AppendRows(const RecordBatch& batch, std::span<const int32_t> rows);
  void AppendAll(const RecordBatch& batch);
  bool has_nulls() const;
  // Takes back every row from `rows` on, also one of which only some columns were appended.
  // REQUIRES: each column has at least `rows` values.
  void Truncate(int64_t rows);
  RecordBatch Finish();

 private:
  SchemaPtr schema_;
  std::vector<ColumnBuilder> columns_;
};

}  // namespace weir
