#pragma once

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/storage/file_system.h"
#include "common/threading/co.h"
#include "worker/connectors/files/file_names.h"

namespace weir {

// The directory of a sink, or of the dead letters of a source, and whose it is.
struct SinkDirectory {
  std::string path;
  JobId job;
  std::string job_name;
  std::string uid;
  std::string type = "files.sink";  // of the vertex

  std::string Owner() const;  // "files.sink 'out'"
};

// Makes the directory and its mark, durably; the maker of the mark. It bears the mark of another
// sink: a user error that names both. `unique` is in the name of the temporary file. Concurrent
// calls of the same sink all succeed. `marked`: a mark was there before, so that nothing is made:
// where it is missing another directory is mounted, or none, and rows would be hidden as soon as
// the right one is back (retryable).
Co<StatusOr<std::string>> MarkDirectory(FileSystem& files, SinkDirectory directory,
                                        HiddenName unique, bool marked);

// Whether what was just sealed lies where it will be published: the directory bears the mark
// of the parts, and the pending files are in it. Else another directory was mounted while they were
// written, or none (retryable): what a checkpoint lists must not be hidden by the next mount.
Co<Status> CheckSealed(FileSystem& files, SinkDirectory directory, std::vector<FilePart> parts);

// Gives each part its final name, then makes the names durable. May be repeated, also at the same
// time from elsewhere: what is published stays as it is. Per part:
//   final there, pending gone      published; another length than the part's: error
//   final absent, pending there    renamed; another length than the part's: error
//   both there                     error: the final name is taken by a file that is not ours
//   both gone                      the directory does not bear the mark of the part, under which it
//                                  was sealed: another one is mounted, or none, may heal;
//                                  else published and taken away by the consumer, if that may be
//                                  (`may_be_taken`); else error
// Errors of the file system may heal (retryable); those that tell of wrong files never do.
// Crash: any number of the parts has its final name, durable or not; each has one of its names.
// Kill points: sink.before_rename (the first of a call), sink.between_renames, sink.before_sync.
// `may_be_taken`: somebody may have published them before; false for the first try of the task that
// sealed them.
Co<Status> PublishParts(FileSystem& files, SinkDirectory directory, std::vector<FilePart> parts,
                        bool may_be_taken);

}  // namespace weir
