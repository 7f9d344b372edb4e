#include "worker/connectors/files/register.h"

#include <memory>

#include "worker/connectors/files/files_committer.h"
#include "worker/connectors/files/files_sink.h"
#include "worker/connectors/files/files_source.h"

namespace weir {

void RegisterFilesConnector(Registry& registry) {
  registry.AddSource(
      "files.source", [] { return std::make_unique<FilesSource>(); },
      [] { return std::make_unique<FilesCommitter>(FilesCommitter::Kind::kDeadLetters); });
  registry.AddSink("files.sink", {.sink = [] { return std::make_unique<FilesSink>(); },
                                  .committer = [] { return std::make_unique<FilesCommitter>(); }});
}

}  // namespace weir
