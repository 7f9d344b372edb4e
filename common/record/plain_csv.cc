#include <cstdint>

#include "common/record/plain_rows.h"
#include "common/record/text_scan.h"
#include "common/record/text_values.h"

namespace weir {
namespace {

// The end of the field if it ends at `at`, be it in front of CR and LF; else nullptr.
const char* FieldEnd(const char* at) {
  if (*at == '\r' && at[1] == '\n') ++at;
  return *at == ',' || *at == '\n' ? at : nullptr;
}

}  // namespace

bool AppendCsvValue(std::string_view text, ColumnBuilder* column, std::string* scratch) {
  switch (column->type()) {
    case Type::kBool: {
      bool value = false;
      if (!ParseBool(text, &value)) return false;
      column->AppendBool(value);
      return true;
    }
    case Type::kInt32: {
      int32_t value = 0;
      if (!ParseInt32(text, &value)) return false;
      column->AppendInt32(value);
      return true;
    }
    case Type::kInt64: {
      int64_t value = 0;
      if (!ParseInt64(text, &value)) return false;
      column->AppendInt64(value);
      return true;
    }
    case Type::kFloat64: {
      double value = 0;
      if (!ParseFloat64(text, &value)) return false;
      column->AppendFloat64(value);
      return true;
    }
    case Type::kString:
      column->AppendText(text);
      return true;
    case Type::kBytes:
      if (!ParseBase64(text, scratch)) return false;
      column->AppendText(*scratch);
      return true;
    case Type::kTimestamp: {
      int64_t value = 0;
      if (!ParseTimestamp(text, &value)) return false;
      column->AppendInt64(value);
      return true;
    }
  }
  return false;
}

const char* PlainCsvReader::ReadField(const char* at, ColumnBuilder* column) {
  const Type type = column->type();
  if (type == Type::kInt64 || type == Type::kInt32) {
    int64_t value = 0;
    const char* end = ReadPlainInteger(at, &value);
    if (end != nullptr) end = FieldEnd(end);
    if (end != nullptr && type == Type::kInt64) {
      column->AppendInt64(value);
      return end;
    }
    if (end != nullptr && value == static_cast<int32_t>(value)) {
      column->AppendInt32(static_cast<int32_t>(value));
      return end;
    }
  } else if (type == Type::kFloat64) {
    double value = 0;
    const char* end = ReadPlainDecimal(at, &value);
    if (end != nullptr) end = FieldEnd(end);
    if (end != nullptr) {
      column->AppendFloat64(value);
      return end;
    }
  }
  const char* end = FindCsvSpecial(at);
  if (*end == '"') return nullptr;
  std::string_view text(at, static_cast<size_t>(end - at));
  if (*end == '\n' && text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty()) {
    column->AppendNull();
  } else if (!AppendCsvValue(text, column, &bytes_)) {
    return nullptr;
  }
  return end;
}

const char* PlainCsvReader::Read(const char* at, BatchBuilder* out) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const int column = columns_[i];
    at = column == kNoColumn ? FindCsvSpecial(at) : ReadField(at, &out->column(column));
    if (at == nullptr || *at != (i + 1 < columns_.size() ? ',' : '\n')) return nullptr;
    ++at;
  }
  return columns_.empty() ? nullptr : at;
}

}  // namespace weir
