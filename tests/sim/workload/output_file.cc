#include <algorithm>
#include <charconv>

#include "common/base/concat.h"
#include "tests/sim/workload/json_text.h"
#include "tests/sim/workload/workload.h"

namespace weir::sim {
namespace {

// A value as it is written.
struct Value {
  bool null = false;
  bool is_text = false;
  std::string_view text;  // of a number: its digits
};

// Reads the rows of one file. `scratch` holds a text that is not written as it is.
class OutputReader {
 public:
  OutputReader(const Workload& workload, int sink, std::string_view bytes)
      : workload_(workload), sink_(sink), vertex_(workload.vertex(sink)), rest_(bytes) {}

  OutputFile Read() {
    if (vertex_.csv && vertex_.header) {
      std::string header;
      for (const std::string& column : vertex_.columns) {
        header += Concat(header.empty() ? "" : ",", column);
      }
      header += "\n";
      if (!rest_.starts_with(header)) return Fail(Concat("it does not begin with ", header));
      rest_.remove_prefix(header.size());
    }
    while (!rest_.empty()) {
      const std::string_view before = rest_;
      OutputRow row;
      if (!ReadRow(&row)) {
        return Fail(Concat(problem_.empty() ? "not a row" : problem_, ": ",
                           before.substr(0, std::min(before.find('\n'), before.size()))));
      }
      file_.rows.push_back(row);
    }
    return std::move(file_);
  }

 private:
  OutputFile Fail(std::string problem) {
    file_.problem = std::move(problem);
    return std::move(file_);
  }

  bool Take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool ReadRow(OutputRow* row) {
    if (!vertex_.csv && !Take('{')) return false;
    Value key, value, text, branch;
    std::string key_scratch, text_scratch, other_scratch;
    int64_t id = -1;
    bool first = true;
    bool has_text = false;
    for (const std::string& column : vertex_.columns) {
      Value read;
      std::string* scratch = &other_scratch;
      if (column == "key") scratch = &key_scratch;
      if (column == "text") scratch = &text_scratch;
      if (!(vertex_.csv ? ReadCsv(first, scratch, &read)
                        : ReadJson(column, &first, scratch, &read))) {
        return false;
      }
      if (vertex_.csv) first = false;
      if (column == "id") {
        if (!Number(read, &id)) return false;
      } else if (column == "key") {
        key = read;
      } else if (column == "value") {
        value = read;
      } else if (column == "text") {
        text = read;
        has_text = true;
      } else if (column == "branch") {
        if (read.null || (read.text != "a" && read.text != "b")) return Wrong("branch");
        row->branch = read.text == "b";
      } else if (column == "n") {
        if (!Number(read, &row->count)) return false;
      } else {
        row->has_total = !read.null;
        if (row->has_total && !Number(read, &row->total)) return false;
      }
    }
    if (!vertex_.csv && !Take('}')) return false;
    if (!Take('\n')) return false;
    // What it says against the input.
    row->row = workload_.RowOf(id);
    if (row->row < 0) return Wrong(Concat("id ", id, " of no row of the input"));
    const WorldRow& in = workload_.world().table[row->row];
    if (workload_.out(sink_, row->row, row->branch) == 0)
      return Wrong("a row that is filtered out");
    if (in.key < 0 ? !key.null : key.null || Text(key) != workload_.world().keys[in.key]) {
      return Wrong("key");
    }
    int64_t number = 0;
    if (in.has_value
            ? !Number(value, &number) || number != workload_.value(sink_, row->row, row->branch)
            : !value.null) {
      return Wrong("value");
    }
    if (has_text && (text.null || Text(text) != WorldTexts()[in.text])) return Wrong("text");
    return true;
  }

  bool Wrong(std::string_view what) {
    problem_ = Concat("wrong ", what);
    return false;
  }

  std::string_view Text(const Value& value) const {
    return value.is_text ? value.text : std::string_view("\xff");
  }

  static bool Number(const Value& value, int64_t* number) {
    if (value.null || value.is_text) return false;
    const char* end = value.text.data() + value.text.size();
    auto [rest, error] = std::from_chars(value.text.data(), end, *number);
    return error == std::errc() && rest == end;
  }

  // A null may be left out.
  bool ReadJson(std::string_view column, bool* first, std::string* scratch, Value* value) {
    std::string_view at = rest_;
    if (!*first && !at.starts_with(',')) {
      value->null = true;
      return true;
    }
    if (!*first) at.remove_prefix(1);
    if (at.size() < column.size() + 3 || at[0] != '"' || at.substr(1, column.size()) != column ||
        at[column.size() + 1] != '"' || at[column.size() + 2] != ':') {
      value->null = true;
      return true;
    }
    at.remove_prefix(column.size() + 3);
    *first = false;
    rest_ = at;
    if (rest_.starts_with('"')) {
      value->is_text = true;
      const size_t end = rest_.find_first_of("\"\\", 1);
      if (end == std::string_view::npos) return false;
      if (rest_[end] == '"') {
        value->text = rest_.substr(1, end - 1);
        rest_.remove_prefix(end + 1);
        return true;
      }
      if (!TakeJsonText(&rest_, scratch)) return false;
      value->text = *scratch;
      return true;
    }
    if (rest_.starts_with("null")) {
      value->null = true;
      rest_.remove_prefix(4);
      return true;
    }
    const size_t end = rest_.find_first_of(",}");
    if (end == std::string_view::npos) return false;
    value->text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return true;
  }

  // RFC 4180, where a text that needs no quotes looks like a number: both kinds fit.
  bool ReadCsv(bool first, std::string* scratch, Value* value) {
    if (!first && !Take(',')) return false;
    if (!rest_.starts_with('"')) {
      const size_t end = rest_.find_first_of(",\n\"");
      if (end == std::string_view::npos || rest_[end] == '"') return false;
      value->text = rest_.substr(0, end);
      value->null = end == 0;
      value->is_text = !value->null && !IsInteger(value->text);
      rest_.remove_prefix(end);
      return true;
    }
    value->is_text = true;
    size_t begin = 1;
    while (true) {
      const size_t end = rest_.find('"', begin);
      if (end == std::string_view::npos) return false;
      scratch->append(rest_.substr(begin, end - begin));
      if (end + 1 < rest_.size() && rest_[end + 1] == '"') {
        scratch->push_back('"');
        begin = end + 2;
        continue;
      }
      rest_.remove_prefix(end + 1);
      value->text = *scratch;
      return true;
    }
  }

  static bool IsInteger(std::string_view text) {
    if (text.starts_with('-')) text.remove_prefix(1);
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  const Workload& workload_;
  const int sink_;
  const WorldVertex& vertex_;
  std::string_view rest_;
  std::string problem_;
  OutputFile file_;
};

}  // namespace

OutputFile ReadOutputFile(const Workload& workload, int sink, std::string_view bytes) {
  return OutputReader(workload, sink, bytes).Read();
}

}  // namespace weir::sim
