#pragma once

#include <cstdint>
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
  void AppendBool(bool value);
  void AppendInt32(int32_t value);
  void AppendInt64(int64_t value);  // INT64 and TIMESTAMP
  void AppendFloat64(double value);
  void AppendText(std::string_view value);  // STRING and BYTES
  // Row `row` of `source`, null or not. REQUIRES: same type.
  void AppendFrom(const Column& source, int64_t row);
  void AppendFrom(const Column& source, std::span<const int32_t> rows);
  void AppendAll(const Column& source);

  // The column; the builder is empty afterwards.
  Column Finish();

 private:
  void SetValidity(bool valid);
  void Grow(int64_t rows);
  uint8_t* ExtendData(size_t bytes);

  Type type_;
  int64_t size_ = 0;
  int64_t null_count_ = 0;
  BufferPtr validity_;   // made at the first null
  BufferPtr data_;
  size_t data_size_ = 0;
  BufferPtr offsets_;
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
  // REQUIRES: batch has the same field types.
  void AppendRow(const RecordBatch& batch, int64_t row);
  void AppendRows(const RecordBatch& batch, std::span<const int32_t> rows);
  void AppendAll(const RecordBatch& batch);
  RecordBatch Finish();

 private:
  SchemaPtr schema_;
  std::vector<ColumnBuilder> columns_;
};

}  // namespace weir
