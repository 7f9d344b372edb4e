#include "common/record/record_batch.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/base/check.h"
#include "common/record/batch_builder.h"

namespace weir {
namespace {

constexpr size_t kBufferAlignment = 64;
constexpr size_t kBufferPadding = 64;

}  // namespace

Buffer::Buffer(size_t size)
    : data_(static_cast<uint8_t*>(
          ::operator new(size + kBufferPadding, std::align_val_t{kBufferAlignment}))),
      size_(size) {}

Buffer::Buffer(BufferPtr whole, size_t offset, size_t size)
    : data_(whole->data_ + offset), size_(size), whole_(std::move(whole)) {
  WEIR_CHECK(offset <= whole_->size_ && size <= whole_->size_ - offset);
}

Buffer::~Buffer() {
  if (whole_ == nullptr) ::operator delete(data_, std::align_val_t{kBufferAlignment});
}

int64_t Column::ByteSize() const {
  if (size_ == 0) return 0;
  const int64_t validity_bytes = validity_ != nullptr ? (size_ + 7) / 8 : 0;
  if (!IsVariableWidth(type_)) return validity_bytes + size_ * FixedWidth(type_);
  const int32_t* offsets = offset_values();
  return validity_bytes + size_ * int64_t{sizeof(int32_t)} + (offsets[size_] - offsets[0]);
}

RecordBatch::RecordBatch(SchemaPtr schema, int64_t rows, std::vector<Column> columns)
    : schema_(std::move(schema)), rows_(rows), columns_(std::move(columns)) {
  WEIR_CHECK(schema_ != nullptr && schema_->size() == static_cast<int>(columns_.size()));
  for (size_t i = 0; i < columns_.size(); ++i) {
    WEIR_CHECK(columns_[i].type() == schema_->field(static_cast<int>(i)).type);
    WEIR_CHECK(columns_[i].size() == rows_);
    byte_size_ += columns_[i].ByteSize();
  }
  if (rows_ > 0) byte_size_ = std::max<int64_t>(byte_size_, 1);
}

RecordBatch RecordBatch::Select(std::span<const int32_t> rows) const {
  std::vector<Column> columns;
  columns.reserve(columns_.size());
  for (const Column& column : columns_) {
    ColumnBuilder builder(column.type());
    builder.AppendFrom(column, rows);
    columns.push_back(builder.Finish());
  }
  return RecordBatch(schema_, static_cast<int64_t>(rows.size()), std::move(columns));
}

}  // namespace weir
