#include "common/record/batch_builder.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little);

// The first allocation of a column; small, for idle streams make small batches.
constexpr size_t kFirstBytes = 64;
// Texts up to this long are copied as a whole block of this size: buffers are padded by more.
constexpr int32_t kShortTextBytes = 16;

size_t ValidityBytes(int64_t rows) { return static_cast<size_t>((rows + 7) / 8); }

// A buffer for at least `needed` bytes, at least double the size of `old`, with its first `used`
// bytes.
BufferPtr Enlarge(const BufferPtr& old, size_t used, size_t needed) {
  const size_t old_size = old != nullptr ? old->size() : 0;
  auto bigger = std::make_shared<Buffer>(std::max({needed, 2 * old_size, kFirstBytes}));
  if (used > 0) std::memcpy(bigger->data(), old->data(), used);
  return bigger;
}

template <typename T>
void Gather(const uint8_t* source, std::span<const int32_t> rows, uint8_t* out) {
  const T* values = reinterpret_cast<const T*>(source);
  T* target = reinterpret_cast<T*>(out);
  for (size_t i = 0; i < rows.size(); ++i) target[i] = values[rows[i]];
}

}  // namespace

ColumnBuilder::ColumnBuilder(Type type) : type_(type), width_(FixedWidth(type)) {}
ColumnBuilder::ColumnBuilder(ColumnBuilder&&) noexcept = default;
ColumnBuilder& ColumnBuilder::operator=(ColumnBuilder&&) noexcept = default;
ColumnBuilder::~ColumnBuilder() = default;

int64_t ColumnBuilder::byte_size() const {
  const int64_t validity_bytes = null_count_ > 0 ? (size_ + 7) / 8 : 0;
  const int64_t offset_bytes = width_ == 0 ? size_ * int64_t{sizeof(int32_t)} : 0;
  return validity_bytes + offset_bytes + static_cast<int64_t>(data_size_);
}

void ColumnBuilder::GrowData(size_t bytes) {
  const size_t needed = data_size_ + bytes;
  // Offsets into the bytes of texts are 32 bits; limits on rows and batches are far below.
  WEIR_CHECK(width_ != 0 || needed <= size_t{std::numeric_limits<int32_t>::max()});
  data_ = Enlarge(data_, data_size_, needed);
  values_ = data_->data();
  data_capacity_ = data_->size();
}

void ColumnBuilder::ReserveOffsets(int64_t rows) {
  const size_t used = size_ == 0 ? 0 : static_cast<size_t>(size_ + 1) * sizeof(int32_t);
  const size_t needed = static_cast<size_t>(size_ + rows + 1) * sizeof(int32_t);
  if (offsets_ == nullptr || offsets_->size() < needed) {
    offsets_ = Enlarge(offsets_, used, needed);
    reinterpret_cast<int32_t*>(offsets_->data())[0] = 0;
  }
}

void ColumnBuilder::ReserveValidity(int64_t rows) {
  const size_t needed = ValidityBytes(rows);
  if (validity_->size() < needed) validity_ = Enlarge(validity_, ValidityBytes(size_), needed);
}

void ColumnBuilder::MakeValidity() {
  validity_ = std::make_shared<Buffer>(std::max(ValidityBytes(size_ + 1), kFirstBytes));
  std::memset(validity_->data(), 0xff, ValidityBytes(size_));
}

void ColumnBuilder::MarkValid(int64_t rows) {
  ReserveValidity(size_ + rows);
  uint8_t* bits = validity_->data();
  int64_t row = size_;
  const int64_t end = size_ + rows;
  for (; row < end && (row & 7) != 0; ++row) {
    bits[row >> 3] = static_cast<uint8_t>(bits[row >> 3] | (1u << (row & 7)));
  }
  // The bits behind `end` are written again when their rows come.
  if (row < end) std::memset(bits + (row >> 3), 0xff, ValidityBytes(end) - (row >> 3));
}

void ColumnBuilder::Reserve(int64_t rows) {
  if (rows <= 0) return;
  if (width_ == 0) {
    ReserveOffsets(rows);
  } else {
    ReserveData(static_cast<size_t>(rows) * static_cast<size_t>(width_));
  }
  if (validity_ != nullptr) ReserveValidity(size_ + rows);
}

void ColumnBuilder::AppendNull() {
  if (validity_ == nullptr) MakeValidity();
  ReserveValidity(size_ + 1);
  uint8_t* byte = validity_->data() + (size_ >> 3);
  *byte = static_cast<uint8_t>(*byte & ~(1u << (size_ & 7)));
  ++null_count_;
  if (width_ == 0) {
    ReserveOffsets(1);
    reinterpret_cast<int32_t*>(offsets_->data())[size_ + 1] = static_cast<int32_t>(data_size_);
  } else {
    ReserveData(static_cast<size_t>(width_));
    std::memset(values_ + data_size_, 0, static_cast<size_t>(width_));
    data_size_ += static_cast<size_t>(width_);
  }
  ++size_;
}

void ColumnBuilder::AppendText(std::string_view value) {
  ReserveOffsets(1);
  ReserveData(value.size());
  if (!value.empty()) std::memcpy(values_ + data_size_, value.data(), value.size());
  data_size_ += value.size();
  reinterpret_cast<int32_t*>(offsets_->data())[size_ + 1] = static_cast<int32_t>(data_size_);
  if (validity_ != nullptr) MarkValid(1);
  ++size_;
}

void ColumnBuilder::AppendFrom(const Column& source, int64_t row) {
  if (source.IsNull(row)) return AppendNull();
  switch (width_) {
    case 0:
      return AppendText(source.Text(row));
    case 1:
      return AppendFixed(source.values<uint8_t>()[row]);
    case 4:
      return AppendFixed(source.values<int32_t>()[row]);
    default:
      return AppendFixed(source.values<int64_t>()[row]);
  }
}

void ColumnBuilder::AppendTextRows(const Column& source, std::span<const int32_t> rows) {
  const int32_t* from = source.offset_values();
  size_t bytes = 0;
  for (const int32_t row : rows) bytes += static_cast<size_t>(from[row + 1] - from[row]);
  ReserveOffsets(static_cast<int64_t>(rows.size()));
  ReserveData(bytes);
  if (bytes == 0) {
    int32_t* empty = reinterpret_cast<int32_t*>(offsets_->data()) + size_ + 1;
    std::fill(empty, empty + rows.size(), static_cast<int32_t>(data_size_));
    return;
  }
  const uint8_t* texts = source.data()->data();
  uint8_t* out = values_ + data_size_;
  int32_t* offset = reinterpret_cast<int32_t*>(offsets_->data()) + size_ + 1;
  int32_t end = static_cast<int32_t>(data_size_);
  for (const int32_t row : rows) {
    const int32_t length = from[row + 1] - from[row];
    if (length <= kShortTextBytes) {
      std::memcpy(out, texts + from[row], kShortTextBytes);
    } else {
      std::memcpy(out, texts + from[row], static_cast<size_t>(length));
    }
    out += length;
    end += length;
    *offset++ = end;
  }
  data_size_ += bytes;
}

void ColumnBuilder::AppendFrom(const Column& source, std::span<const int32_t> rows) {
  if (rows.empty()) return;
  const int64_t count = static_cast<int64_t>(rows.size());
  if (source.has_nulls()) {
    if (validity_ == nullptr) MakeValidity();
    ReserveValidity(size_ + count);
    const uint8_t* from = source.validity()->data();
    uint8_t* bits = validity_->data();
    int64_t row = size_;
    int64_t valid = 0;
    for (const int32_t picked : rows) {
      const unsigned bit = (from[picked >> 3] >> (picked & 7)) & 1u;
      uint8_t* byte = bits + (row >> 3);
      *byte = static_cast<uint8_t>((*byte & ~(1u << (row & 7))) | (bit << (row & 7)));
      valid += bit;
      ++row;
    }
    null_count_ += count - valid;
  } else if (validity_ != nullptr) {
    MarkValid(count);
  }
  if (width_ == 0) {
    AppendTextRows(source, rows);
  } else {
    const size_t bytes = rows.size() * static_cast<size_t>(width_);
    ReserveData(bytes);
    const uint8_t* from = source.data()->data();
    uint8_t* out = values_ + data_size_;
    if (width_ == 8) {
      Gather<int64_t>(from, rows, out);
    } else if (width_ == 4) {
      Gather<int32_t>(from, rows, out);
    } else {
      Gather<uint8_t>(from, rows, out);
    }
    data_size_ += bytes;
  }
  size_ += count;
}

void ColumnBuilder::AppendAll(const Column& source) {
  const int64_t count = source.size();
  if (count == 0) return;
  if (source.has_nulls()) {
    if (validity_ == nullptr) MakeValidity();
    ReserveValidity(size_ + count);
    const uint8_t* from = source.validity()->data();
    uint8_t* bits = validity_->data();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = size_ + i;
      const unsigned bit = (from[i >> 3] >> (i & 7)) & 1u;
      uint8_t* byte = bits + (row >> 3);
      *byte = static_cast<uint8_t>((*byte & ~(1u << (row & 7))) | (bit << (row & 7)));
      null_count_ += bit == 0 ? 1 : 0;
    }
  } else if (validity_ != nullptr) {
    MarkValid(count);
  }
  if (width_ == 0) {
    const int32_t* from = source.offset_values();
    const size_t bytes = static_cast<size_t>(from[count] - from[0]);
    ReserveOffsets(count);
    ReserveData(bytes);
    if (bytes > 0) std::memcpy(values_ + data_size_, source.data()->data() + from[0], bytes);
    const int32_t shift = static_cast<int32_t>(data_size_) - from[0];
    int32_t* offset = reinterpret_cast<int32_t*>(offsets_->data()) + size_ + 1;
    for (int64_t i = 1; i <= count; ++i) *offset++ = from[i] + shift;
    data_size_ += bytes;
  } else {
    const size_t bytes = static_cast<size_t>(count) * static_cast<size_t>(width_);
    ReserveData(bytes);
    std::memcpy(values_ + data_size_, source.data()->data(), bytes);
    data_size_ += bytes;
  }
  size_ += count;
}

void ColumnBuilder::Truncate(int64_t rows) {
  WEIR_CHECK(rows >= 0 && rows <= size_);
  if (rows == size_) return;
  if (validity_ != nullptr) {
    const uint8_t* bits = validity_->data();
    for (int64_t row = rows; row < size_; ++row) {
      if (((bits[row >> 3] >> (row & 7)) & 1) == 0) --null_count_;
    }
  }
  data_size_ = width_ == 0 ? static_cast<size_t>(reinterpret_cast<int32_t*>(offsets_->data())[rows])
                           : static_cast<size_t>(rows) * static_cast<size_t>(width_);
  size_ = rows;
}

Column ColumnBuilder::Finish() {
  if (data_ == nullptr) data_ = std::make_shared<Buffer>(0);
  if (width_ == 0 && offsets_ == nullptr) ReserveOffsets(0);
  Column column(type_, size_, null_count_ > 0 ? std::move(validity_) : nullptr, std::move(data_),
                std::move(offsets_));
  *this = ColumnBuilder(type_);
  return column;
}

BatchBuilder::BatchBuilder(SchemaPtr schema) : schema_(std::move(schema)) {
  columns_.reserve(static_cast<size_t>(schema_->size()));
  for (const Field& field : schema_->fields()) columns_.emplace_back(field.type);
}

int64_t BatchBuilder::byte_size() const {
  int64_t bytes = 0;
  for (const ColumnBuilder& column : columns_) bytes += column.byte_size();
  return bytes;
}

bool BatchBuilder::has_nulls() const {
  return std::ranges::any_of(columns_, &ColumnBuilder::has_nulls);
}

void BatchBuilder::Reserve(int64_t rows) {
  for (ColumnBuilder& column : columns_) column.Reserve(rows);
}

void BatchBuilder::AppendRow(const RecordBatch& batch, int64_t row) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].AppendFrom(batch.column(static_cast<int>(i)), row);
  }
}

void BatchBuilder::AppendRows(const RecordBatch& batch, std::span<const int32_t> rows) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].AppendFrom(batch.column(static_cast<int>(i)), rows);
  }
}

void BatchBuilder::AppendAll(const RecordBatch& batch) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].AppendAll(batch.column(static_cast<int>(i)));
  }
}

void BatchBuilder::Truncate(int64_t rows) {
  for (ColumnBuilder& column : columns_) column.Truncate(rows);
}

RecordBatch BatchBuilder::Finish() {
  const int64_t rows = this->rows();
  std::vector<Column> columns;
  columns.reserve(columns_.size());
  for (ColumnBuilder& column : columns_) {
    WEIR_CHECK(column.size() == rows);
    columns.push_back(column.Finish());
  }
  return RecordBatch(schema_, rows, std::move(columns));
}

}  // namespace weir
