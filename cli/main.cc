// The command line of Weir: parses options and hands over to one function per command.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "common/base/concat.h"
#include "common/base/names.h"
#include "common/base/version.h"
#include "common/daemon/endpoint.h"

namespace {

using namespace weir::cli;  // NOLINT: this file is nothing but their use

// Text of `weir --help` behind the options.
constexpr char kFooter[] =
    "A job is named by its id, a unique prefix of it, or its name if one such job is live.\n"
    "Exit codes: 0 done (attached run: FINISHED), 1 failed, 2 wrong usage or refused job,\n"
    "3 cancelled, 4 coordinator not reached, 130 detached by Ctrl-C.\n"
    "Example: weir local -w 2 &  weir run examples/flights/job.json";

// An empty value is a variable that was not set, not a wish.
std::string NotEmpty(const std::string& value) { return value.empty() ? "is empty" : ""; }

int WrongUsage(const Session& session, std::string message) {
  return Report(session, weir::InvalidArgumentError(std::move(message)), kRefused);
}

// What is wrong with the address of a coordinator; "" for nothing.
std::string WhyNoAddress(const std::string& value) {
  return weir::ParseEndpoint(value).status().ok() ? ""
                                                  : weir::ParseEndpoint(value).status().message();
}

void AddJobFile(CLI::App* command, RunOptions& run) {
  command->add_option("job", run.job_file, "JOB.json, or a job library JOB.so")->required();
  command->add_option("-p,--parallelism", run.parallelism, "parallelism of the job")
      ->check(CLI::Range(1, 32768));
  command->add_option("--set", run.settings, "set a job option: name=value (repeat for more)")
      ->allow_extra_args(false);
  command->add_option("--name", run.name, "another name for the job")->check(NotEmpty);
  command->add_option("arguments", run.arguments, "arguments of a job library, after --");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Weir: exactly-once stream processing", "weir"};
  app.set_version_flag("--version", "weir " WEIR_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  Session session;
  app.add_option("--coordinator", session.coordinator,
                 "address of the coordinator, host:port or [::1]:port")
      ->envname("WEIR_COORDINATOR")
      ->check(WhyNoAddress)
      ->capture_default_str();
  app.add_flag("--json", session.json,
               "print one JSON document instead of text, errors too: {\"error\": {...}}");

  int code = 0;
  RunOptions run;
  std::string job;
  bool all = false, force = false, subtasks = false, follow = false;
  LocalOptions local;

  CLI::App* run_command = app.add_subcommand("run", "submit a job and follow it to its end");
  AddJobFile(run_command, run);
  run_command->add_flag("-d,--detached", run.detached, "submit and return");
  run_command
      ->add_option("--from", run.restore_from, "start from a kept checkpoint: its directory, chk-…")
      ->check(NotEmpty);
  run_command->callback([&] { code = Run(session, run); });

  CLI::App* list = app.add_subcommand("list", "live jobs");
  list->add_flag("-a,--all", all, "ended jobs too");
  list->callback([&] { code = List(session, all); });

  CLI::App* status =
      app.add_subcommand("status", "one job: state, subtasks, rates, last checkpoint");
  status->add_option("job", job, "id, prefix or name")->required();
  status->callback([&] { code = ShowStatus(session, job); });

  CLI::App* logs = app.add_subcommand("logs", "what happened to a job");
  logs->add_option("job", job, "id, prefix or name")->required();
  logs->add_flag("-f,--follow", follow, "go on as more happens");
  logs->callback([&] { code = Logs(session, job, follow); });

  CLI::App* info = app.add_subcommand("info", "the plan of a job that is not submitted, as a tree");
  AddJobFile(info, run);
  info->callback([&] { code = Info(session, run); });

  CLI::App* checkpoints = app.add_subcommand("checkpoints", "history of a job's checkpoints");
  checkpoints->add_option("job", job, "id, prefix or name")->required();
  checkpoints->add_flag("--subtasks", subtasks,
                        "barrier, alignment, parts, size and ack of each subtask");
  checkpoints->callback([&] { code = Checkpoints(session, job, subtasks); });

  CLI::App* cancel = app.add_subcommand("cancel", "end a job; what completed stays published");
  cancel->add_option("job", job, "id, prefix or name")->required();
  cancel->add_flag("--force", force,
                   "do not wait for workers to settle transactions; names what is left behind");
  cancel->footer(
      "Stays up to 30 s to see the job end. Exit code 0: it is CANCELED, or CANCELLING, which "
      "goes\n"
      "on by itself and says what it waits for; 1: it ended as FINISHED or FAILED, or has failed\n"
      "and cannot end before its output is settled (--force ends it without).");
  cancel->callback([&] { code = Cancel(session, job, force); });

  CLI::App* remove = app.add_subcommand("remove", "forget an ended job and delete its files");
  remove->add_option("job", job, "id or prefix")->required();
  remove->add_flag("--force", force, "also where rows of it may not be published");
  remove->callback([&] { code = Remove(session, job, force); });

  CLI::App* workers = app.add_subcommand("workers", "registered workers and their slots");
  workers->callback([&] { code = Workers(session); });

  CLI::App* local_command =
      app.add_subcommand("local", "a whole cluster on this machine, in real processes");
  local_command->add_option("-w,--workers", local.workers, "workers to start")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  local_command->add_option("-s,--slots", local.slots, "slots of each worker (0: as many as cores)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  local_command->add_option("--port", local.port, "the coordinator's port (0: a free one)")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  local_command->add_option("--dir", local.directory, "where data and logs go")
      ->capture_default_str();
  local_command->add_flag("--clean", local.clean,
                          "remove the data of an earlier local cluster first");
  local_command->add_option("--log-level", local.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  local_command->callback([&] { code = Local(local); });

  // CLI11 only says that a command is required: name the one that was meant.
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  // Before anything can be wrong.
  for (int i = 1; i < argc && std::string(argv[i]) != "--"; ++i) {
    if (std::string(argv[i]) == "--json") session.json = true;
  }
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--coordinator") ++i;
    if (word.empty() || word[0] == '-') continue;
    if (std::find(commands.begin(), commands.end(), word) != commands.end()) break;
    std::string nearest = weir::NearestName(word, commands);
    return WrongUsage(
        session,
        weir::Concat("there is no command '", word, "'", nearest.empty() ? "" : ", did you mean '",
                     nearest, nearest.empty() ? "" : "'?", "; weir --help lists all"));
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are no errors; everything else is wrong usage.
    if (error.get_exit_code() == 0) return app.exit(error);
    return WrongUsage(session, weir::Concat(error.what(), "; weir --help says more"));
  }
  return code;
}
