#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/graph/config.h"
#include "common/record/schema.h"
#include "common/storage/file_system.h"
#include "common/threading/co.h"

// What only a worker can see of files.source and files.sink when a job is submitted. Errors name
// the place and what is valid; the caller puts the vertex in front of them.
namespace weir {

struct ResolvedFilesSource {
  Config config;  // with `files` (sorted) if bounded
  Schema schema;  // what the source emits
};

// Looks up the files of a source and checks each: it can be read, and its header has all columns.
// At least one file must match; following a directory with a schema, only the directory (of the
// first part with a wildcard) must be there. Without a schema the header of the first file gives
// the columns, all STRING, and the other files must have them as well; JSON needs a schema. Files
// of no bytes have no rows, and no header to check.
Co<StatusOr<ResolvedFilesSource>> ResolveFilesSource(FileSystem& files, Config config);

// Checks the output directory that config field `field_name` of a vertex names: of a sink, or of
// the dead letters of a source. It must be possible to make it, or to write in it (tried with a
// file that is removed again). It may hold nothing, or the mark and files of this very sink (same
// job id and uid: a job that is submitted again, or restarted). Everything else is refused by name:
// foreign files, and the output of another sink or an earlier job of the same name, whose file
// names the new one would make again: choose another path, or remove those files with the mark.
Co<Status> CheckOutputDirectory(FileSystem& files, std::string field_name, std::string path,
                                JobId job, std::string job_name, std::string uid);

}  // namespace weir
