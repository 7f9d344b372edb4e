#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace weir {

// The numbers are on disk and on the wire.
enum class Type : uint8_t {
  kBool = 1,  // one byte a value in memory, 0 or 1
  kInt32 = 2,
  kInt64 = 3,
  kFloat64 = 4,
  kString = 5,  // valid UTF-8
  kBytes = 6,
  kTimestamp = 7,  // int64, microseconds since the Unix epoch, UTC
};

// "BOOL", "INT32", …, as users write them.
std::string_view ToString(Type type);
// Unknown name: user error that lists the valid ones and the nearest.
StatusOr<Type> ParseType(std::string_view name);
// Bytes of one value; 0 for STRING and BYTES.
int FixedWidth(Type type);
inline bool IsVariableWidth(Type type) { return type == Type::kString || type == Type::kBytes; }

struct Field {
  std::string name;
  Type type = Type::kString;
  bool operator==(const Field&) const = default;
};

// Ordered, uniquely named columns. Every column may hold nulls. Thread: immutable.
class Schema {
 public:
  Schema() = default;
  // REQUIRES: names are unique (checked with Make for names that come from users).
  explicit Schema(std::vector<Field> fields, int rows_column = -1)
      : fields_(std::move(fields)), rows_column_(rows_column) {}
  // User error for an empty or doubled name.
  static StatusOr<Schema> Make(std::vector<Field> fields);

  int size() const { return static_cast<int>(fields_.size()); }
  const Field& field(int i) const { return fields_[i]; }
  const std::vector<Field>& fields() const { return fields_; }
  // -1 when there is no such column.
  int IndexOf(std::string_view name) const;
  // As IndexOf; a missing column is a user error that names the nearest one and lists all.
  StatusOr<int> Require(std::string_view name) const;
  // Of partial rows, each of which stands for several: the INT64 column, never null, that says for
  // how many. -1: rows are rows.
  int rows_column() const { return rows_column_; }
  // "(row_id INT64, carrier STRING)".
  std::string ToString() const;
  bool operator==(const Schema&) const = default;

 private:
  std::vector<Field> fields_;
  int rows_column_ = -1;
};

using SchemaPtr = std::shared_ptr<const Schema>;

}  // namespace weir
