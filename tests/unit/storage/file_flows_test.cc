// Durable writes under power loss: whatever single operation the crash comes at, what a flow had
// said is durable is there afterwards, and what is there is complete.
#include "common/storage/file_flows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "common/base/concat.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"

namespace weir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Co<void> Keep(Co<Status> flow, std::optional<Status>* result) {
  result->emplace(co_await std::move(flow));
}

Status RunFlow(ManualExecutor& executor, Co<Status> flow) {
  std::optional<Status> result;
  CoScope scope;
  scope.Spawn(Keep(std::move(flow), &result));
  executor.RunAll();
  return result.value_or(CancelledError("no answer"));
}

TEST(Paths, JoinAndParent) {
  EXPECT_EQ(JoinPath("/a", "b"), "/a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("/a/", "b"), "/a/b");
  EXPECT_EQ(ParentPath("/a/b/c"), "/a/b");
  EXPECT_EQ(ParentPath("/a"), "/");
  EXPECT_EQ(ParentPath("/"), "/");
  EXPECT_EQ(ParentPath("/a/b/"), "/a");
}

TEST(MemoryDisk, CrashKeepsOnlyWhatWasSynced) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  files.PutDirectory("/d");
  for (const char* name : {"/d/neither", "/d/bytes", "/d/name", "/d/both"}) {
    files.Create(name, "x", [](Status) {});
  }
  files.Sync("/d/bytes", [](Status) {});
  files.Sync("/d/both", [](Status) {});
  files.SyncDirectory("/d", [](Status) {});
  executor.RunAll();
  files.Create("/d/late", "x", [](Status) {});
  files.Rename("/d/both", "/d/renamed", [](Status) {});
  executor.RunAll();
  files.Crash();
  EXPECT_THAT(files.Files("/d"), ElementsAre("/d/both", "/d/bytes", "/d/name", "/d/neither"));
  EXPECT_EQ(files.Bytes("/d/both"), "x");
  EXPECT_EQ(files.Bytes("/d/name"), "");  // the name came through, the bytes did not
}

TEST(MemoryDisk, CrashDropsWhatIsInFlight) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  bool answered = false;
  files.Create("/a", "x", [&](Status) { answered = true; });
  files.Crash();
  executor.RunAll();
  EXPECT_FALSE(answered);
  EXPECT_FALSE(files.Exists("/a"));
}

// Runs `flow` with a power loss before and after its operation number 1, 2, …; `check` gets what
// the flow said (CancelledError: nothing) and the disk after the crash.
void CrashEverywhere(std::function<void(MemoryFileSystem&)> arrange,
                     std::function<Co<Status>(FileSystem&)> flow,
                     std::function<void(Status, MemoryFileSystem&)> check) {
  for (bool before : {true, false}) {
    for (int64_t at = 1;; ++at) {
      ManualExecutor executor;
      MemoryFileSystem files(executor);
      arrange(files);
      bool crashed = false;
      auto hook = [&](std::string_view, const std::string&) {
        if (files.operations() == at) {
          crashed = true;
          files.Crash();
        }
        return Status();
      };
      before ? files.set_before(hook) : files.set_after(hook);
      Status said = RunFlow(executor, flow(files));
      if (!crashed) files.Crash();
      SCOPED_TRACE(Concat(before ? "crash before operation " : "crash after operation ", at));
      check(said, files);
      if (!crashed) break;
    }
  }
}

TEST(ClaimFile, ACrashLeavesAllOrNothingUnderTheName) {
  CrashEverywhere([](MemoryFileSystem& files) { files.PutDirectory("/d"); },
                  [](FileSystem& files) { return ClaimFile(files, "/d/n", "content", "u"); },
                  [](Status said, MemoryFileSystem& files) {
                    if (said.ok()) {
                      ASSERT_TRUE(files.Exists("/d/n"));
                    }
                    if (files.Exists("/d/n")) {
                      EXPECT_EQ(files.Bytes("/d/n"), "content");
                    }
                  });
}

TEST(ReplaceDurably, ACrashLeavesTheOldOrTheNew) {
  CrashEverywhere([](MemoryFileSystem& files) { files.PutFile("/d/n", "old"); },
                  [](FileSystem& files) { return ReplaceDurably(files, "/d/n", "new", "u"); },
                  [](Status said, MemoryFileSystem& files) {
                    std::string bytes = files.Bytes("/d/n");
                    if (said.ok()) {
                      EXPECT_EQ(bytes, "new");
                    } else {
                      EXPECT_TRUE(bytes == "old" || bytes == "new") << bytes;
                    }
                  });
}

TEST(CreateDurably, OkMeansDurable) {
  CrashEverywhere([](MemoryFileSystem& files) { files.PutDirectory("/d"); },
                  [](FileSystem& files) { return CreateDurably(files, "/d/n", "content"); },
                  [](Status said, MemoryFileSystem& files) {
                    if (said.ok()) {
                      EXPECT_EQ(files.Bytes("/d/n"), "content");
                    }
                  });
}

TEST(CreateDurably, IsRefusedWhenEitherSyncFails) {
  for (std::string_view failing : {"sync", "sync_directory"}) {
    ManualExecutor executor;
    MemoryFileSystem files(executor);
    files.PutDirectory("/d");
    files.set_before([&](std::string_view operation, const std::string&) {
      return operation == failing ? UnavailableError("no disk") : Status();
    });
    EXPECT_EQ(RunFlow(executor, CreateDurably(files, "/d/n", "content")).message(), "no disk")
        << failing;
  }
}

TEST(MakeDirectories, OkMeansDurableAlsoWhenSomebodyElseHadMadeThem) {
  CrashEverywhere([](MemoryFileSystem&) {},
                  [](FileSystem& files) { return MakeDirectories(files, "/a/b/c"); },
                  [](Status said, MemoryFileSystem& files) {
                    if (said.ok()) {
                      EXPECT_TRUE(files.Exists("/a/b/c"));
                    }
                  });

  ManualExecutor executor;
  MemoryFileSystem files(executor);
  files.MakeDirectory("/a", [](Status) {});  // and died before it synced "/"
  executor.RunAll();
  EXPECT_TRUE(RunFlow(executor, MakeDirectories(files, "/a/b")).ok());
  files.Crash();
  EXPECT_TRUE(files.Exists("/a/b"));
}

TEST(ClaimFile, AnErrorOfTheTakenNameIsToldFromAnUnknownOutcome) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  files.PutDirectory("/d");
  files.set_after([](std::string_view operation, const std::string&) {
    return operation == "link" ? UnavailableError("no answer") : Status();
  });
  EXPECT_EQ(RunFlow(executor, ClaimFile(files, "/d/n", "c", "u")).code(), StatusCode::kUnavailable);
  files.set_after(nullptr);
  EXPECT_EQ(RunFlow(executor, ClaimFile(files, "/d/n", "c", "u")).code(),
            StatusCode::kAlreadyExists);
  EXPECT_THAT(files.Files(), ElementsAre("/d/n"));
}

TEST(Flows, AFailedSyncIsAnErrorAndNeverTriedAgain) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  int syncs = 0;
  files.set_before([&](std::string_view operation, const std::string&) {
    if (operation != "sync") return Status();
    ++syncs;
    return UnavailableError("I/O error");
  });
  EXPECT_FALSE(RunFlow(executor, ClaimFile(files, "/n", "c", "u")).ok());
  EXPECT_EQ(syncs, 1);
  EXPECT_THAT(files.Files(), IsEmpty());
}

TEST(Flows, EndingAFlowDropsItBetweenTwoSteps) {
  ManualExecutor executor;
  MemoryFileSystem files(executor);
  std::optional<Status> result;
  {
    CoScope scope;
    scope.Spawn(Keep(ClaimFile(files, "/n", "c", "u"), &result));
    executor.RunOne();  // the create
  }
  executor.RunAll();  // the sync asked for is carried out, its answer goes nowhere
  EXPECT_FALSE(result.has_value());
  EXPECT_THAT(files.Files(), ElementsAre("/n.tmp-u"));
}

}  // namespace
}  // namespace weir
