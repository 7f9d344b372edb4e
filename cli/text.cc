#include "cli/text.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/base/concat.h"

namespace weir::cli {
namespace {

std::string TwoDigits(int64_t value) { return value < 10 ? Concat("0", value) : Concat(value); }

bool LooksNumeric(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789,.%-") == std::string::npos;
}

// Characters a terminal shows, not bytes (UTF-8).
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string FormatCount(int64_t count) {
  std::string digits = Concat(count < 0 ? -count : count);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return count < 0 ? "-" + out : out;
}

std::string FormatElapsed(int64_t us) {
  char buffer[64];
  if (us < 1'000'000) {
    std::snprintf(buffer, sizeof(buffer), "%lld ms", static_cast<long long>(us / 1000));
  } else if (us < 120'000'000) {
    std::snprintf(buffer, sizeof(buffer), "%.1f s", static_cast<double>(us) / 1e6);
  } else if (us < 7'200'000'000) {
    return Concat(us / 60'000'000, " min ", TwoDigits(us / 1'000'000 % 60), " s");
  } else {
    return Concat(us / 3'600'000'000, " h ", TwoDigits(us / 60'000'000 % 60), " min");
  }
  return buffer;
}

std::string FormatClock(int64_t us) {
  int64_t seconds = us / 1'000'000;
  std::string minutes = Concat(TwoDigits(seconds / 60 % 60), ":", TwoDigits(seconds % 60));
  return seconds < 3600 ? minutes : Concat(seconds / 3600, ":", minutes);
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return buffer;
}

std::string FormatTime(int64_t wall_us) {
  if (wall_us == 0) return "";
  time_t seconds = static_cast<time_t>(wall_us / 1'000'000);
  tm parts;
  gmtime_r(&seconds, &parts);
  char buffer[64];
  size_t length = strftime(buffer, sizeof(buffer), "%Y-%m-%dT%H:%M:%S", &parts);
  std::string text(buffer, length);
  int64_t ms = wall_us / 1000 % 1000;
  if (ms != 0) {
    std::snprintf(buffer, sizeof(buffer), ".%03lld", static_cast<long long>(ms));
    text += buffer;
  }
  return text + "Z";
}

std::string ShortId(const JobId& id) { return id.value().substr(0, 8); }

std::string Plural(int64_t count, std::string_view noun) {
  return Concat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

std::string Table::ToString(bool colour) const {
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      if (c >= widths.size()) {
        widths.push_back(0);
        numeric.push_back(rows_.size() > 1);
      }
      widths[c] = std::max(widths[c], Width(rows_[r][c]));
      if (r > 0 && !rows_[r][c].empty() && !LooksNumeric(rows_[r][c])) numeric[c] = false;
    }
  }
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string& cell = rows_[r][c];
      std::string padding(widths[c] - Width(cell), ' ');
      if (c > 0) line += "  ";
      line += numeric[c] ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += r == 0 && colour ? Concat("\033[1m", line, "\033[0m\n") : line + "\n";
  }
  return out;
}

bool StdoutIsTerminal() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || no_colour[0] == '\0');
}

std::string ColouredState(JobState state, bool colour) {
  std::string name(weir::ToString(state));
  if (!colour) return name;
  const char* code = "33";  // yellow: on its way
  if (state == JobState::kRunning || state == JobState::kFinished) code = "32";
  if (state == JobState::kFailed) code = "31";
  if (state == JobState::kCanceled) code = "35";
  return Concat("\033[", code, "m", name, "\033[0m");
}

std::string FormatLeftOut(const JobStatus& job) {
  int64_t dropped_rows = 0;
  int64_t lost_rows = 0;
  for (const VertexStatus& vertex : job.vertices) {
    for (const SubtaskStatus& subtask : vertex.subtasks) {
      dropped_rows += subtask.metrics.dropped_rows;
      lost_rows += subtask.metrics.lost_rows;
    }
  }
  std::string text;
  if (dropped_rows > 0) text += Concat("  bad rows left out ", FormatCount(dropped_rows));
  if (lost_rows > 0) text += Concat("  rows lost before they were read ", FormatCount(lost_rows));
  return text;
}

}  // namespace weir::cli
