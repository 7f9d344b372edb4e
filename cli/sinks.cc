#include "cli/sinks.h"

#include <algorithm>

#include "cli/text.h"
#include "common/base/concat.h"

namespace weir::cli {

std::optional<SinkProgress> ProgressOf(const VertexStatus& vertex) {
  std::optional<SinkProgress> all;
  for (const SubtaskStatus& subtask : vertex.subtasks) {
    const std::optional<SinkProgress>& one = subtask.metrics.sink;
    if (!one) continue;
    if (!all) {
      all = one;
      continue;
    }
    all->staged_rows += one->staged_rows;
    all->staged_bytes += one->staged_bytes;
    all->publishing_rows += one->publishing_rows;
    all->publishing_bytes += one->publishing_bytes;
    all->committed = std::min(all->committed, one->committed);
    all->committed_wall_us = std::min(all->committed_wall_us, one->committed_wall_us);
  }
  return all;
}

std::string ProgressText(const std::string& uid, const SinkProgress& progress,
                         int64_t now_wall_us) {
  std::string text = Concat(uid, ": staged ", Plural(progress.staged_rows, "row"), " (",
                            FormatBytes(progress.staged_bytes), "), publishing ",
                            Plural(progress.publishing_rows, "row"), " (",
                            FormatBytes(progress.publishing_bytes), "), ");
  if (progress.committed.value() == 0) return text + "nothing committed yet";
  text += Concat("committed up to checkpoint ", progress.committed);
  if (progress.committed_wall_us == 0) return text;
  // Another host's clock may be ahead of this one's.
  const int64_t age_us = std::max<int64_t>(0, now_wall_us - progress.committed_wall_us);
  return text + Concat(", ", FormatElapsed(age_us), " ago");
}

}  // namespace weir::cli
