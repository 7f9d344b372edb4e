#include <bit>
#include <limits>
#include <utility>

#include "common/record/record_batch.h"

// The bytes of a batch, all integers little endian (an on-disk and wire contract):
//   uint32 rows
//   per column of the schema, in order:
//     uint8 has_nulls (0 or 1)
//     if has_nulls: (rows + 7) / 8 bytes, bit i (LSB first) set: row i is not null; bits behind the
//                   last row are 0
//     fixed width:  rows values (BOOL one byte, 0 or 1)
//     STRING, BYTES: rows + 1 int32 offsets, the first 0, never falling; then as many bytes as the
//                   last one says
namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little);

void AppendBytes(const void* bytes, size_t size, std::string* out) {
  out->append(static_cast<const char*>(bytes), size);
}

size_t ValidityBytes(int64_t rows) { return static_cast<size_t>((rows + 7) / 8); }

// Bits of the last validity byte that belong to no row.
uint8_t UnusedBits(int64_t rows) {
  return (rows & 7) == 0 ? 0 : static_cast<uint8_t>(0xffu << (rows & 7));
}

void EncodeColumn(const Column& column, int64_t rows, std::string* out) {
  out->push_back(column.has_nulls() ? 1 : 0);
  if (column.has_nulls() && rows > 0) {
    AppendBytes(column.validity()->data(), ValidityBytes(rows), out);
    out->back() = static_cast<char>(static_cast<uint8_t>(out->back()) & ~UnusedBits(rows));
  }
  if (!IsVariableWidth(column.type())) {
    AppendBytes(column.data()->data(),
                static_cast<size_t>(rows) * static_cast<size_t>(FixedWidth(column.type())), out);
    return;
  }
  const int32_t* offsets = column.offset_values();
  const int32_t first = offsets[0];
  if (first == 0) {
    AppendBytes(offsets, static_cast<size_t>(rows + 1) * sizeof(int32_t), out);
  } else {
    for (int64_t i = 0; i <= rows; ++i) {
      const int32_t offset = offsets[i] - first;
      AppendBytes(&offset, sizeof(offset), out);
    }
  }
  AppendBytes(column.data()->data() + first, static_cast<size_t>(offsets[rows] - first), out);
}

// Takes bytes from the front of an encoding.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  // A buffer with the next `size` bytes; nullptr when there are fewer.
  BufferPtr Take(uint64_t size) {
    if (rest_.size() < size) return nullptr;
    auto buffer = std::make_shared<Buffer>(size);
    if (size > 0) std::memcpy(buffer->data(), rest_.data(), size);
    rest_.remove_prefix(size);
    return buffer;
  }
  template <typename T>
  bool Read(T* value) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

Status Damaged(const Field& field, std::string_view what) {
  return DataLossError("cannot decode a batch: column '" + field.name + "' (" +
                       std::string(ToString(field.type)) + "): " + std::string(what));
}

StatusOr<Column> DecodeColumn(const Field& field, int64_t rows, Reader* reader) {
  uint8_t has_nulls = 0;
  if (!reader->Read(&has_nulls)) return Damaged(field, "the bytes end early");
  if (has_nulls > 1) return Damaged(field, "the null mark is neither 0 nor 1");
  BufferPtr validity;
  if (has_nulls == 1) {
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
  bool rising = ends[0] == 0;
  for (uint64_t i = 0; i < count; ++i) rising &= ends[i] <= ends[i + 1];
  if (!rising) return Damaged(field, "the offsets do not rise from 0");
  BufferPtr data = reader->Take(static_cast<uint64_t>(ends[count]));
  if (data == nullptr) return Damaged(field, "the bytes end in the texts");
  return Column(field.type, rows, std::move(validity), std::move(data), std::move(offsets));
}

}  // namespace

void EncodeBatch(const RecordBatch& batch, std::string* out) {
  const int64_t rows = batch.rows();
  const uint32_t row_count = static_cast<uint32_t>(rows);
  out->reserve(out->size() + sizeof(row_count) + static_cast<size_t>(batch.ByteSize()) +
               static_cast<size_t>(batch.columns()) * 5);
  AppendBytes(&row_count, sizeof(row_count), out);
  for (int i = 0; i < batch.columns(); ++i) EncodeColumn(batch.column(i), rows, out);
}

StatusOr<RecordBatch> DecodeBatch(const SchemaPtr& schema, std::string_view bytes) {
  Reader reader(bytes);
  uint32_t rows = 0;
  if (!reader.Read(&rows)) {
    return DataLossError("cannot decode a batch: " + std::to_string(bytes.size()) +
                         " bytes are no row count");
  }
  if (rows > uint32_t{std::numeric_limits<int32_t>::max()}) {
    return DataLossError("cannot decode a batch: " + std::to_string(rows) + " rows are too many");
  }
  std::vector<Column> columns;
  columns.reserve(static_cast<size_t>(schema->size()));
  for (const Field& field : schema->fields()) {
    WEIR_ASSIGN_OR_RETURN(Column column, DecodeColumn(field, int64_t{rows}, &reader));
    columns.push_back(std::move(column));
  }
  if (!reader.empty()) {
    return DataLossError("cannot decode a batch: bytes follow its last column");
  }
  return RecordBatch(schema, int64_t{rows}, std::move(columns));
}

}  // namespace weir
