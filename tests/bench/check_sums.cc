// Checks the output of the file jobs: for every row of make_rows one row with k, the running sum of
// v of its k, d and ts. Knows nothing of Weir: input rows are made again from their number.
//
//   check_sums --rows N --keys K --format json|csv --output FILES...
//
// Rows of one key may have been summed in any order, as files are read side by side. So of each key
// the rows are put in the order of their sums: each must add the v of its own row to the sum before
// it, from 0 to the key's total. A row is known by its ts, which is unique.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/flat_row.h"

namespace {

using namespace limits;

struct Sum {
  uint64_t key;
  uint64_t before;  // the sum without this row's v
  uint64_t after;
  bool operator<(const Sum& other) const {
    if (key != other.key) return key < other.key;
    return before != other.before ? before < other.before : after < other.after;
  }
};

enum Field { kKey, kSum, kD, kTs, kFieldCount };
constexpr std::array<std::string_view, kFieldCount> kNames = {"k", "sum", "d", "ts"};
using OutputRow = std::array<std::string_view, kFieldCount>;

std::vector<size_t> ParseHeader(std::string_view line, const char* path) {
  std::vector<size_t> fields;
  for (size_t start = 0; start <= line.size();) {
    size_t end = std::min(line.find(',', start), line.size());
    fields.push_back(FieldOf(kNames, line.substr(start, end - start), path));
    start = end + 1;
  }
  if (fields.size() != kFieldCount) BadLine(line, path);
  return fields;
}

OutputRow ParseCsv(std::string_view line, const std::vector<size_t>& fields, const char* path) {
  OutputRow row;
  size_t start = 0;
  for (size_t field : fields) {
    if (start > line.size()) BadLine(line, path);
    size_t end = std::min(line.find(',', start), line.size());
    row[field] = line.substr(start, end - start);
    start = end + 1;
  }
  if (start != line.size() + 1) BadLine(line, path);
  return row;
}

class Checker {
 public:
  Checker(uint64_t rows, uint64_t keys) : rows_(rows), keys_(keys), seen_(rows) {
    sums_.reserve(rows);
  }

  void Add(const OutputRow& row, std::string_view line, const char* path) {
    uint64_t number = ParseNumber<uint64_t>(row[kTs], line, path) - MadeRow::kFirstTs;
    if (number >= rows_) Fail("%s: no input row has this ts: %s", path, Text(line));
    if (seen_[number]) Fail("%s: a second row of this ts: %s", path, Text(line));
    seen_[number] = true;
    const MadeRow made(number, keys_);
    uint64_t sum = ParseNumber<uint64_t>(row[kSum], line, path);
    if (ParseNumber<uint64_t>(row[kKey], line, path) != made.key || sum < made.value ||
        ParseNumber<double>(row[kD], line, path) != made.d) {
      Fail("%s: k %llu v %llu d %.17g in the input, in the output %s", path,
           static_cast<unsigned long long>(made.key), static_cast<unsigned long long>(made.value),
           made.d, Text(line));
    }
    sums_.push_back({made.key, sum - made.value, sum});
  }

  void Finish() {
    CheckEqual("output rows", sums_.size(), rows_);
    std::sort(sums_.begin(), sums_.end());
    uint64_t before = 0;
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (i == 0 || sums_[i].key != sums_[i - 1].key) before = 0;
      if (sums_[i].before != before) {
        Fail("key %llu: a sum of %llu where the rows before it add up to %llu",
             static_cast<unsigned long long>(sums_[i].key),
             static_cast<unsigned long long>(sums_[i].after),
             static_cast<unsigned long long>(before));
      }
      before = sums_[i].after;
    }
  }

 private:
  const char* Text(std::string_view line) {
    text_ = line;
    return text_.c_str();
  }

  const uint64_t rows_;
  const uint64_t keys_;
  std::vector<bool> seen_;
  std::vector<Sum> sums_;
  std::string text_;
};

void CheckFile(const char* path, bool json, Checker& checker) {
  LineBlocks blocks(path, 0);
  std::vector<size_t> fields;
  for (std::string_view block = blocks.Next(); !block.empty(); block = blocks.Next()) {
    for (size_t start = 0; start < block.size();) {
      size_t end = block.find('\n', start);
      std::string_view line = block.substr(start, end - start);
      start = end + 1;
      if (json) {
        checker.Add(ParseFlatJson(kNames, line, path), line, path);
      } else if (fields.empty()) {
        fields = ParseHeader(line, path);
      } else {
        checker.Add(ParseCsv(line, fields, path), line, path);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Stopwatch watch;
  Flags flags(argc, argv);
  const uint64_t rows = static_cast<uint64_t>(flags.Number("rows", 0));
  const uint64_t keys = static_cast<uint64_t>(flags.Number("keys", 1));
  const std::string format = flags.Required("format");
  const std::vector<std::string> outputs = flags.List("output");
  flags.RejectUnknown();
  if (format != "json" && format != "csv") Fail("--format is json or csv");
  Checker checker(rows, keys);
  for (const std::string& path : outputs) CheckFile(path.c_str(), format == "json", checker);
  checker.Finish();
  watch.Stop();
  PrintResult(watch, {.name = "check_sums", .rows = rows, .checksum = 0, .bytes = 0, .extra = ""});
}
