#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

// The commands of `weir`, one file each. Every function prints its result to standard output,
// errors to standard error, and returns the exit code. With --json standard output gets one
// document in every case.
namespace weir::cli {

// Exit codes (surface.md).
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kRefused = 2;  // wrong usage or refused job
inline constexpr int kCancelled = 3;
inline constexpr int kNotReached = 4;  // no coordinator
inline constexpr int kDetached = 130;  // by Ctrl-C

struct Session {
  std::string coordinator = "127.0.0.1:7070";
  bool json = false;
};

// Prints "weir: message" to standard error, with --json also {"error": {…}} to standard output, and
// returns `code`, or kNotReached when no coordinator answered.
int Report(const Session& session, const Status& status, int code = kFailed);

struct RunOptions {
  std::string job_file;
  bool detached = false;
  int parallelism = 0;                // 0: as the job says
  std::vector<std::string> settings;  // "name=value"
  std::string restore_from;
  std::string name;
  std::vector<std::string> arguments;  // of a job library
};
int Run(const Session& session, const RunOptions& options);
int Info(const Session& session, const RunOptions& options);

int List(const Session& session, bool all);
int ShowStatus(const Session& session, const std::string& job);
int Logs(const Session& session, const std::string& job, bool follow);
int Checkpoints(const Session& session, const std::string& job, bool subtasks);
int Cancel(const Session& session, const std::string& job, bool force);
int Remove(const Session& session, const std::string& job, bool force);
int Workers(const Session& session);

struct LocalOptions {
  int workers = 1;
  int slots = 0;    // of each worker; 0: as many as cores
  int port = 7070;  // 0: a free one
  std::string directory = "weir-local";
  bool clean = false;
  std::string log_level = "info";
};
int Local(const LocalOptions& options);

}  // namespace weir::cli
