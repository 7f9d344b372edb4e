#include <bit>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/record/record_batch.h"

// The bytes of a batch, all integers little endian (a wire contract):
//   uint32 rows; the highest bit says that they are partial rows
//   uint8 has_nulls (0 or 1) per column of the schema, in order
//   per column, in order:
//     if has_nulls: (rows + 7) / 8 bytes, bit i (LSB first) set: row i is not null; bits behind the
//                   last row are 0
//     fixed width:  rows values (BOOL one byte, 0 or 1)
//     STRING, BYTES: rows + 1 int32 offsets, the first 0, never falling; then as many bytes as the
//                   last one says
// Each part begins at a multiple of 8 bytes, so that it can be used where it lies; the bytes in
// between are 0, and there are none behind the last part.
namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kPartAlignment = 8;
constexpr char kPadding[kPartAlignment] = {};
constexpr uint32_t kPartialRows = uint32_t{1} << 31;
// Parts up to this long are copied: another piece costs a system call about as much.
constexpr size_t kCopyBytesMax = 1024;

size_t ValidityBytes(int64_t rows) { return static_cast<size_t>((rows + 7) / 8); }

// Bits of the last validity byte that belong to no row.
uint8_t UnusedBits(int64_t rows) {
  return (rows & 7) == 0 ? 0 : static_cast<uint8_t>(0xffu << (rows & 7));
}

size_t PaddingBehind(size_t size) {
  return (kPartAlignment - size % kPartAlignment) % kPartAlignment;
}

// Takes parts from the front of an encoding.
class Reader {
 public:
  explicit Reader(const BufferPtr& bytes) : bytes_(bytes) {}

  // The next part, `size` bytes; nullptr when there are fewer, or other bytes than 0 before it.
  BufferPtr Take(uint64_t size) {
    const size_t padding = PaddingBehind(at_);
    if (rest() < padding || rest() - padding < size ||
        std::memcmp(bytes_->data() + at_, kPadding, padding) != 0) {
      return nullptr;
    }
    auto part = std::make_shared<Buffer>(bytes_, at_ + padding, size);
    at_ += padding + size;
    return part;
  }
  template <typename T>
  bool Read(T* value) {
    if (rest() < sizeof(T)) return false;
    std::memcpy(value, bytes_->data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool empty() const { return rest() == 0; }

 private:
  size_t rest() const { return bytes_->size() - at_; }

  const BufferPtr& bytes_;
  size_t at_ = 0;
};

Status Damaged(const Field& field, std::string_view what) {
  return DataLossError("cannot decode a batch: column '" + field.name + "' (" +
                       std::string(ToString(field.type)) + "): " + std::string(what));
}

StatusOr<Column> DecodeColumn(const Field& field, int64_t rows, bool has_nulls, Reader* reader) {
  BufferPtr validity;
  if (has_nulls) {
    validity = reader->Take(ValidityBytes(rows));
    if (validity == nullptr) return Damaged(field, "the bytes end in the validity bits");
    if (rows > 0 && (validity->data()[ValidityBytes(rows) - 1] & UnusedBits(rows)) != 0) {
      return Damaged(field, "validity bits are set behind the last row");
    }
  }
  const uint64_t count = static_cast<uint64_t>(rows);
  if (!IsVariableWidth(field.type)) {
    BufferPtr data = reader->Take(count * static_cast<uint64_t>(FixedWidth(field.type)));
    if (data == nullptr) return Damaged(field, "the bytes end in the values");
    if (field.type == Type::kBool) {
      uint8_t all = 0;
      for (uint64_t i = 0; i < count; ++i) all |= data->data()[i];
      if (all > 1) return Damaged(field, "a value is neither 0 nor 1");
    }
    return Column(field.type, rows, std::move(validity), std::move(data));
  }
  BufferPtr offsets = reader->Take((count + 1) * sizeof(int32_t));
  if (offsets == nullptr) return Damaged(field, "the bytes end in the offsets");
  const int32_t* ends = reinterpret_cast<const int32_t*>(offsets->data());
  // Whole numbers, not truth values: that is what the compiler makes vectors of.
  int32_t falls = ends[0];
  for (uint64_t i = 0; i < count; ++i) falls |= ends[i] > ends[i + 1] ? 1 : 0;
  if (falls != 0) return Damaged(field, "the offsets do not rise from 0");
  BufferPtr data = reader->Take(static_cast<uint64_t>(ends[count]));
  if (data == nullptr) return Damaged(field, "the bytes end in the texts");
  return Column(field.type, rows, std::move(validity), std::move(data), std::move(offsets));
}

// Puts pieces together. What is copied moves while it grows, so where that lies is filled in last.
class PieceWriter {
 public:
  explicit PieceWriter(std::string* copied) : copied_(copied) {}

  void Copy(const void* bytes, size_t size) {
    if (size == 0) return;
    copied_->append(static_cast<const char*>(bytes), size);
    if (pieces_.empty() || pieces_.back().data != nullptr) pieces_.push_back({nullptr, 0});
    pieces_.back().size += size;
    size_ += size;
  }
  void Pad() { Copy(kPadding, PaddingBehind(size_)); }
  // The next part, which may stay where it is.
  void Part(const void* bytes, size_t size) {
    Pad();
    if (size <= kCopyBytesMax) return Copy(bytes, size);
    pieces_.push_back({static_cast<const char*>(bytes), size});
    size_ += size;
  }
  void Column(const weir::Column& column, int64_t rows);
  // Once, at the end.
  size_t Finish(std::vector<std::string_view>* pieces) {
    const char* copied = copied_->data();
    pieces->reserve(pieces_.size());
    for (const Piece& piece : pieces_) {
      pieces->emplace_back(piece.data != nullptr ? piece.data : copied, piece.size);
      if (piece.data == nullptr) copied += piece.size;
    }
    return size_;
  }

 private:
  struct Piece {
    const char* data;  // nullptr: copied
    size_t size;
  };

  std::string* const copied_;
  std::vector<Piece> pieces_;
  size_t size_ = 0;
};

void PieceWriter::Column(const weir::Column& column, int64_t rows) {
  if (column.has_nulls()) {
    Pad();
    if (rows > 0) {
      Copy(column.validity()->data(), ValidityBytes(rows));
      copied_->back() =
          static_cast<char>(static_cast<uint8_t>(copied_->back()) & ~UnusedBits(rows));
    }
  }
  if (!IsVariableWidth(column.type())) {
    Part(column.data()->data(),
         static_cast<size_t>(rows) * static_cast<size_t>(FixedWidth(column.type())));
    return;
  }
  const int32_t* offsets = column.offset_values();
  const int32_t first = offsets[0];
  if (first == 0) {
    Part(offsets, static_cast<size_t>(rows + 1) * sizeof(int32_t));
  } else {
    Pad();
    for (int64_t i = 0; i <= rows; ++i) {
      const int32_t offset = offsets[i] - first;
      Copy(&offset, sizeof(offset));
    }
  }
  Part(column.data()->data() + first, static_cast<size_t>(offsets[rows] - first));
}

}  // namespace

EncodedBatch::EncodedBatch(RecordBatchPtr batch) : batch_(std::move(batch)) {
  const int64_t rows = batch_->rows();
  const uint32_t row_count =
      static_cast<uint32_t>(rows) | (batch_->schema()->rows_column() >= 0 ? kPartialRows : 0);
  PieceWriter writer(&copied_);
  writer.Copy(&row_count, sizeof(row_count));
  for (int i = 0; i < batch_->columns(); ++i) {
    const char has_nulls = batch_->column(i).has_nulls() ? 1 : 0;
    writer.Copy(&has_nulls, 1);
  }
  for (int i = 0; i < batch_->columns(); ++i) writer.Column(batch_->column(i), rows);
  size_ = writer.Finish(&pieces_);
}

void EncodedBatch::Slice(size_t offset, size_t size, std::vector<std::string_view>* pieces) const {
  WEIR_CHECK(offset <= size_ && size <= size_ - offset);
  for (auto piece = pieces_.begin(); size > 0; ++piece) {
    if (offset >= piece->size()) {
      offset -= piece->size();
      continue;
    }
    pieces->push_back(piece->substr(offset, size));
    size -= pieces->back().size();
    offset = 0;
  }
}

StatusOr<RecordBatch> DecodeBatch(const SchemaPtr& row_schema, const BufferPtr& bytes,
                                  const SchemaPtr& partial_schema) {
  Reader reader(bytes);
  uint32_t rows = 0;
  if (!reader.Read(&rows)) {
    return DataLossError("cannot decode a batch: " + std::to_string(bytes->size()) +
                         " bytes are no row count");
  }
  const bool partial = (rows & kPartialRows) != 0;
  if (partial && partial_schema == nullptr) {
    return DataLossError("cannot decode a batch: partial rows where there are none");
  }
  const SchemaPtr& schema = partial ? partial_schema : row_schema;
  rows &= ~kPartialRows;
  std::vector<uint8_t> has_nulls(static_cast<size_t>(schema->size()));
  for (int i = 0; i < schema->size(); ++i) {
    if (!reader.Read(&has_nulls[static_cast<size_t>(i)])) {
      return Damaged(schema->field(i), "the bytes end early");
    }
    if (has_nulls[static_cast<size_t>(i)] > 1) {
      return Damaged(schema->field(i), "the null mark is neither 0 nor 1");
    }
  }
  std::vector<Column> columns;
  columns.reserve(static_cast<size_t>(schema->size()));
  for (int i = 0; i < schema->size(); ++i) {
    WEIR_ASSIGN_OR_RETURN(Column column,
                          DecodeColumn(schema->field(i), int64_t{rows},
                                       has_nulls[static_cast<size_t>(i)] == 1, &reader));
    columns.push_back(std::move(column));
  }
  if (!reader.empty()) {
    return DataLossError("cannot decode a batch: bytes follow its last column");
  }
  return RecordBatch(schema, int64_t{rows}, std::move(columns));
}

}  // namespace weir
