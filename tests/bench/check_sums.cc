// Checks the output of the file jobs: for every row of make_rows one row with k, the running sum of
// v of its k, d and ts. Knows nothing of Weir: input rows are made again from their number.
//
//   check_sums --rows N --keys K --format json|csv --output FILES...
//
// Rows of one key may have been summed in any order, as files are read side by side. So of each key
// the rows are put in the order of their sums: each must add the v of its own row to the sum before
// it, from 0 to the key's total. A row is known by its ts, which is unique.

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/limits/limits.h"

namespace {

using namespace limits;

constexpr uint64_t kFirstTs = 1'700'000'000'000;

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
constexpr std::string_view kNames[kFieldCount] = {"k", "sum", "d", "ts"};

Field FieldOf(std::string_view name, const std::string& path) {
  for (int field = 0; field < kFieldCount; ++field) {
    if (kNames[field] == name) return static_cast<Field>(field);
  }
  Fail("%s: unknown field '%.*s'", path.c_str(), static_cast<int>(name.size()), name.data());
}

struct OutputRow {
  std::string_view text[kFieldCount];
};

[[noreturn]] void BadLine(std::string_view line, const std::string& path) {
  Fail("%s: not an output row: %.*s", path.c_str(), static_cast<int>(line.size()), line.data());
}

// {"k":1,"sum":2,"d":1.5,"ts":3} with the fields in any order, each once.
OutputRow ParseJson(std::string_view line, const std::string& path) {
  OutputRow row;
  if (line.size() < 2 || line.front() != '{' || line.back() != '}') BadLine(line, path);
  std::string_view rest = line.substr(1, line.size() - 2);
  for (int i = 0; i < kFieldCount; ++i) {
    size_t colon = rest.find("\":");
    if (rest.empty() || rest.front() != '"' || colon == rest.npos) BadLine(line, path);
    size_t end = std::min(rest.find(',', colon), rest.size());
    std::string_view& text = row.text[FieldOf(rest.substr(1, colon - 1), path)];
    if (text.data() != nullptr) BadLine(line, path);
    text = rest.substr(colon + 2, end - colon - 2);
    rest = rest.substr(std::min(end + 1, rest.size()));
  }
  if (!rest.empty()) BadLine(line, path);
  return row;
}

std::vector<Field> ParseHeader(std::string_view line, const std::string& path) {
  std::vector<Field> fields;
  for (size_t start = 0; start <= line.size();) {
    size_t end = std::min(line.find(',', start), line.size());
    fields.push_back(FieldOf(line.substr(start, end - start), path));
    start = end + 1;
  }
  if (fields.size() != kFieldCount) BadLine(line, path);
  return fields;
}

OutputRow ParseCsv(std::string_view line, const std::vector<Field>& fields,
                   const std::string& path) {
  OutputRow row;
  size_t start = 0;
  for (Field field : fields) {
    if (start > line.size()) BadLine(line, path);
    size_t end = std::min(line.find(',', start), line.size());
    row.text[field] = line.substr(start, end - start);
    start = end + 1;
  }
  if (start != line.size() + 1) BadLine(line, path);
  return row;
}

template <typename Number>
Number Parse(std::string_view text, std::string_view line, const std::string& path) {
  Number number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) BadLine(line, path);
  return number;
}

class Checker {
 public:
  Checker(uint64_t rows, uint64_t keys) : rows_(rows), keys_(keys), seen_(rows) {
    sums_.reserve(rows);
  }

  void Add(const OutputRow& row, std::string_view line, const std::string& path) {
    uint64_t number = Parse<uint64_t>(row.text[kTs], line, path) - kFirstTs;
    if (number >= rows_) Fail("%s: no input row has this ts: %s", path.c_str(), Text(line));
    if (seen_[number]) Fail("%s: a second row of this ts: %s", path.c_str(), Text(line));
    seen_[number] = true;
    uint64_t random = SplitMix64(number);
    uint64_t key = MapToRange(random, keys_);
    uint64_t value = random % 1000;
    double d = static_cast<double>(random / 1000 % 100'000) / 100;
    uint64_t sum = Parse<uint64_t>(row.text[kSum], line, path);
    if (Parse<uint64_t>(row.text[kKey], line, path) != key || sum < value ||
        Parse<double>(row.text[kD], line, path) != d) {
      Fail("%s: k %llu v %llu d %.17g in the input, in the output %s", path.c_str(),
           static_cast<unsigned long long>(key), static_cast<unsigned long long>(value), d,
           Text(line));
    }
    sums_.push_back({key, sum - value, sum});
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

void CheckFile(const std::string& path, bool json, Checker& checker) {
  LineBlocks blocks(path, 0);
  std::vector<Field> fields;
  for (std::string_view block = blocks.Next(); !block.empty(); block = blocks.Next()) {
    for (size_t start = 0; start < block.size();) {
      size_t end = block.find('\n', start);
      std::string_view line = block.substr(start, end - start);
      start = end + 1;
      if (json) {
        checker.Add(ParseJson(line, path), line, path);
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
  for (const std::string& path : outputs) CheckFile(path, format == "json", checker);
  checker.Finish();
  watch.Stop();
  PrintResult(watch, {.name = "check_sums", .rows = rows, .checksum = 0, .bytes = 0, .extra = ""});
}
