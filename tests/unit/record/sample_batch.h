#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/record/batch_builder.h"
#include "common/record/record_batch.h"

namespace weir {

// One column of each type.
inline SchemaPtr SampleSchema() {
  return std::make_shared<Schema>(std::vector<Field>{{"flag", Type::kBool},
                                                     {"small", Type::kInt32},
                                                     {"big", Type::kInt64},
                                                     {"ratio", Type::kFloat64},
                                                     {"text", Type::kString},
                                                     {"bytes", Type::kBytes},
                                                     {"time", Type::kTimestamp}});
}

inline RecordBatch EmptyBatch(const SchemaPtr& schema) { return BatchBuilder(schema).Finish(); }

// Rows that a seed gives; about every eighth value is null when `nulls`.
inline RecordBatch RandomBatch(int rows, uint64_t seed, bool nulls = true) {
  std::mt19937_64 random(seed);
  BatchBuilder builder(SampleSchema());
  const auto text = [&](char low, char high) {
    std::string out(random() % 4 == 0 ? random() % 60 : random() % 12, '\0');
    for (char& c : out) {
      c = static_cast<char>(low + static_cast<int>(random() % static_cast<uint64_t>(high - low)));
    }
    return out;
  };
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < 7; ++i) {
      ColumnBuilder& column = builder.column(i);
      if (nulls && random() % 8 == 0) {
        column.AppendNull();
        continue;
      }
      switch (column.type()) {
        case Type::kBool:
          column.AppendBool(random() % 2 == 0);
          break;
        case Type::kInt32:
          column.AppendInt32(static_cast<int32_t>(random()));
          break;
        case Type::kFloat64:
          column.AppendFloat64(
              std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 100));
          break;
        case Type::kString:
          column.AppendText(text(' ', '~'));
          break;
        case Type::kBytes:
          column.AppendText(text('\0', '\x7f'));
          break;
        case Type::kInt64:
        case Type::kTimestamp:
          column.AppendInt64(static_cast<int64_t>(random()));
          break;
      }
    }
  }
  return builder.Finish();
}

// A value as a text that tells it from every other of its column.
inline std::string Show(const Column& column, int64_t row) {
  if (column.IsNull(row)) return "null";
  switch (column.type()) {
    case Type::kBool:
      return column.Bool(row) ? "true" : "false";
    case Type::kInt32:
      return std::to_string(column.Int32(row));
    case Type::kFloat64: {
      uint64_t bits;
      const double value = column.Float64(row);
      std::memcpy(&bits, &value, sizeof(bits));
      return "bits " + std::to_string(bits);
    }
    case Type::kString:
    case Type::kBytes:
      return "[" + std::string(column.Text(row)) + "]";
    case Type::kInt64:
    case Type::kTimestamp:
      return std::to_string(column.Int64(row));
  }
  return "?";
}

inline std::string Show(const RecordBatch& batch, int64_t row) {
  std::string out;
  for (int i = 0; i < batch.columns(); ++i) {
    if (i > 0) out += "|";
    out += Show(batch.column(i), row);
  }
  return out;
}

inline std::vector<std::string> ShowRows(const RecordBatch& batch) {
  std::vector<std::string> rows;
  for (int64_t row = 0; row < batch.rows(); ++row) rows.push_back(Show(batch, row));
  return rows;
}

// The encoding of a batch as one string.
inline std::string Encode(const RecordBatch& batch) {
  const EncodedBatch encoded(std::make_shared<const RecordBatch>(batch));
  std::string bytes;
  for (const std::string_view piece : encoded.pieces()) bytes += piece;
  return bytes;
}

inline StatusOr<RecordBatch> Decode(const SchemaPtr& schema, std::string_view bytes,
                                    const SchemaPtr& partial_schema = nullptr) {
  const auto buffer = std::make_shared<Buffer>(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return DecodeBatch(schema, buffer, partial_schema);
}

}  // namespace weir
