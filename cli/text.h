#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/control/messages.h"

// How the CLI writes numbers, times and tables for people. Thread: thread-safe (no state).
namespace weir::cli {

// "27,004".
std::string FormatCount(int64_t count);
// "41 ms", "13.6 s", "2 min 05 s", "3 h 02 min".
std::string FormatElapsed(int64_t us);
// "00:04", "1:02:03".
std::string FormatClock(int64_t us);
// "1.5 MiB", "812 B".
std::string FormatBytes(int64_t bytes);
// RFC 3339 in UTC: "2013-01-01T10:00:00Z", with milliseconds if there are any.
std::string FormatTime(int64_t wall_us);
// First eight digits of an id.
std::string ShortId(const JobId& id);
// "1 restart", "2 restarts".
std::string Plural(int64_t count, std::string_view noun);

// Left-aligned columns, two blanks between them; columns of numbers are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // With a header line, which a terminal shows bold.
  std::string ToString(bool colour) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Whether standard output is a terminal that shows colour (NO_COLOR is respected).
bool StdoutIsTerminal();
// The state in its colour, or plain.
std::string ColouredState(JobState state, bool colour);
// "  bad rows left out 3" and what else a job has not passed on; "": nothing.
std::string FormatLeftOut(const JobStatus& job);

}  // namespace weir::cli
