#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/record/batch_builder.h"

// Readers of the rows that nearly all files are made of.
namespace weir {

// Reads JSON lines of the common kind in one pass: flat objects whose texts have no escapes, each
// field at most once. It declines all others, and bad ones too: those are for a whole parser, and
// what this one reads, that one would read the same.
// Thread: confined to its owner.
class PlainJsonReader {
 public:
  explicit PlainJsonReader(const SchemaPtr& schema);

  // Appends the line at `at` to `out`, whose schema is the reader's. Behind its line end; nullptr:
  // declined, and some columns of `out` may have a value more. Whether it is UTF-8 is not looked
  // at. REQUIRES: a line end stands somewhere from `at` on, and kTextPadding readable bytes behind
  // it.
  const char* Read(const char* at, BatchBuilder* out);

  // The column of a name; kNoColumn: no column has it.
  static constexpr int kNoColumn = -1;
  int ColumnOf(std::string_view name) const;

 private:
  // Names whose place in the line is remembered.
  static constexpr size_t kPlacesMax = 256;

  // The field that stood at this place in an earlier line: lines of a file mostly have the same
  // fields in the same order.
  struct Place {
    // The name in quotes and a colon. Those up to 16 bytes are compared as two words.
    std::string text;
    uint64_t words[2] = {};
    uint64_t masks[2] = {};
    int column = kNoColumn;
  };

  // Reads a name, its quotes and colon; behind them or nullptr.
  const char* ReadName(const char* at, size_t place, int* column);
  const char* ReadValue(const char* at, int index, BatchBuilder* out);
  const char* ReadText(const char* at, ColumnBuilder* column);
  static bool Matches(const Place& place, const char* at);
  void Remember(size_t place, std::string_view name, int column);

  std::vector<std::pair<std::string, int>> names_;  // sorted
  std::vector<Type> types_;                         // per column
  std::vector<Place> places_;
  std::vector<uint64_t> seen_in_;  // per column: the last line in which it was, counted from 1
  uint64_t line_ = 0;
  std::string bytes_;
};

// Reads CSV rows without quotes in one pass. It declines all others, and bad ones too: those are
// for a whole parser, and what this one reads, that one would read the same.
// Thread: confined to its owner.
class PlainCsvReader {
 public:
  // `columns`: of each field of a row the column that takes it, or kNoColumn.
  static constexpr int kNoColumn = -1;
  explicit PlainCsvReader(std::vector<int> columns) : columns_(std::move(columns)) {}

  // Appends the row at `at` to `out`. Behind its line end; nullptr: declined, and some columns of
  // `out` may have a value more. Whether it is UTF-8 is not looked at.
  // REQUIRES: a line end stands somewhere from `at` on, and kTextPadding readable bytes behind it.
  const char* Read(const char* at, BatchBuilder* out);

 private:
  // Reads one field. Its end, which is a comma or line end, or nullptr.
  const char* ReadField(const char* at, ColumnBuilder* column);

  std::vector<int> columns_;
  std::string bytes_;
};

// Appends the value that a whole field is; false: it is none of the column's type. `scratch` is
// written over.
bool AppendCsvValue(std::string_view text, ColumnBuilder* column, std::string* scratch);

}  // namespace weir
