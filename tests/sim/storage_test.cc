// The simulated storage: what a power loss leaves, what becomes of requests whose asker is gone,
// and that a seed decides all of it.
#include "tests/sim/storage.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "tests/support/memory_disk.h"

namespace weir::sim {
namespace {

// A machine with one process and a disk; what is asked is answered in `answers`.
class Machine {
 public:
  explicit Machine(uint64_t seed, World world = Quick()) : world_(world), scheduler_(seed) {
    storage_.set_observer([this](const StorageEvent& event) {
      seen_.push_back(std::string(event.operation) + " " + event.path);
    });
    Start();
    disk().PutDirectory("/d");
  }

  static World Quick() {
    World world;
    world.storage_us_max = 1000;
    return world;
  }

  void Start() {
    files_.reset();
    loop_.reset();
    process_ = std::make_unique<Process>(scheduler_, "worker-1", ++starts_);
    loop_ = std::make_unique<ProcessLoop>(*process_);
    files_ = storage_.Open(*process_, *loop_);
  }
  FileSystem::Done Answer(const std::string& what) {
    return [this, what](Status status) { answers_[what] = status; };
  }
  void Run(int64_t us = 10'000'000) {
    const int64_t until_us = scheduler_.now_us() + us;
    while (scheduler_.RunOne(until_us)) {
    }
  }
  // Carried out and answered.
  Status Do(const std::function<void(FileSystem&, FileSystem::Done)>& request) {
    std::optional<Status> answer;
    request(*files_, [&](Status status) { answer = status; });
    Run();
    return answer.value_or(UnavailableError("never answered"));
  }
  Status Create(const std::string& path, const std::string& bytes) {
    return Do([&](FileSystem& files, FileSystem::Done done) {
      files.Create(path, bytes, std::move(done));
    });
  }
  Status Sync(const std::string& path) {
    return Do([&](FileSystem& files, FileSystem::Done done) { files.Sync(path, std::move(done)); });
  }
  Status SyncDirectory(const std::string& path) {
    return Do([&](FileSystem& files, FileSystem::Done done) {
      files.SyncDirectory(path, std::move(done));
    });
  }
  MemoryDisk& disk() { return *storage_.view().disk(); }

  World world_;
  Scheduler scheduler_;
  Probes probes_;
  Storage storage_{scheduler_, world_, probes_};
  std::unique_ptr<Process> process_;
  std::unique_ptr<ProcessLoop> loop_;
  std::unique_ptr<FileSystem> files_;
  std::map<std::string, Status> answers_;
  std::vector<std::string> seen_;
  int starts_ = 0;
};

TEST(SimStorageTest, AnswersWhatItDid) {
  Machine machine(1);
  EXPECT_TRUE(machine.Create("/d/a", "bytes").ok());
  EXPECT_EQ(machine.Create("/d/a", "others").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(*machine.disk().Bytes("/d/a"), "bytes");
  std::string read;
  machine.files_->Read("/d/a", 1, 3, [&](StatusOr<std::string> bytes) { read = *bytes; });
  machine.Run();
  EXPECT_EQ(read, "yte");
  // Refused ones are not told.
  EXPECT_EQ(machine.seen_, (std::vector<std::string>{"create /d/a", "read /d/a"}));
}

TEST(SimStorageTest, RequestsInFlightOvertakeEachOther) {
  std::set<std::string> winners;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Machine machine(seed);
    machine.files_->Create("/d/a", "first", machine.Answer("first"));
    machine.files_->Create("/d/a", "second", machine.Answer("second"));
    machine.Run();
    EXPECT_NE(machine.answers_["first"].ok(), machine.answers_["second"].ok());
    winners.insert(*machine.disk().Bytes("/d/a"));
  }
  EXPECT_EQ(winners, (std::set<std::string>{"first", "second"}));
}

TEST(SimStorageTest, APowerLossTakesOrKeepsWhatWasNotSynced) {
  std::set<std::string> left;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Machine machine(seed);
    ASSERT_TRUE(machine.Create("/d/safe", "safe").ok());
    ASSERT_TRUE(machine.Sync("/d/safe").ok());
    ASSERT_TRUE(machine.SyncDirectory("/d").ok());
    // The name is durable, the bytes are not.
    ASSERT_TRUE(machine.Create("/d/bytes", "123").ok());
    ASSERT_TRUE(machine.SyncDirectory("/d").ok());
    // The bytes are durable, the name is not.
    ASSERT_TRUE(machine.Create("/d/name", "name").ok());
    ASSERT_TRUE(machine.Sync("/d/name").ok());
    machine.process_->Kill();
    machine.storage_.PowerLoss();
    machine.Start();
    EXPECT_EQ(*machine.disk().Bytes("/d/safe"), "safe");
    ASSERT_TRUE(machine.disk().Exists("/d/bytes"));
    left.insert("bytes '" + *machine.disk().Bytes("/d/bytes") + "'");
    if (!machine.disk().Exists("/d/name")) {
      left.insert("no name");
    } else {
      EXPECT_EQ(*machine.disk().Bytes("/d/name"), "name");
      left.insert("name");
    }
    EXPECT_EQ(machine.probes_.count(Probe::kPowerLossUnsynced),
              !machine.disk().Exists("/d/name") || *machine.disk().Bytes("/d/bytes") != "123");
  }
  EXPECT_EQ(left, (std::set<std::string>{"bytes ''", "bytes '1'", "bytes '12'", "bytes '123'",
                                         "name", "no name"}));
}

TEST(SimStorageTest, APowerLossLeavesARenamedFileUnderOneOfItsNames) {
  std::set<std::string> left;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Machine machine(seed);
    ASSERT_TRUE(machine.Create("/d/old", "bytes").ok());
    ASSERT_TRUE(machine.Sync("/d/old").ok());
    ASSERT_TRUE(machine.SyncDirectory("/d").ok());
    ASSERT_TRUE(machine
                    .Do([](FileSystem& files, FileSystem::Done done) {
                      files.Rename("/d/old", "/d/new", std::move(done));
                    })
                    .ok());
    machine.process_->Kill();
    machine.storage_.PowerLoss();
    std::vector<std::string> names = machine.disk().Names("/d");
    ASSERT_EQ(names.size(), 1u);
    EXPECT_EQ(*machine.disk().Bytes("/d/" + names[0]), "bytes");
    left.insert(names[0]);
  }
  EXPECT_EQ(left, (std::set<std::string>{"new", "old"}));
}

TEST(SimStorageTest, WhatAKilledProcessAskedForIsCarriedOutOrNot) {
  int carried_out = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Machine machine(seed);
    machine.disk().PutFile("/d/log/entry.tmp", "entry");
    machine.files_->Link("/d/log/entry.tmp", "/d/log/entry", machine.Answer("link"));
    machine.process_->Kill();
    // Dead: not even asked for.
    machine.files_->Create("/d/b", "b", machine.Answer("create"));
    machine.Start();
    machine.Run();
    EXPECT_TRUE(machine.answers_.empty());
    EXPECT_FALSE(machine.disk().Exists("/d/b"));
    const bool done = machine.disk().Exists("/d/log/entry");
    carried_out += done;
    EXPECT_EQ(machine.probes_.count(Probe::kLateFileOperation), done);
    EXPECT_EQ(machine.probes_.count(Probe::kClaimLate), done);
  }
  EXPECT_GT(carried_out, 30);
  EXPECT_LT(carried_out, 70);
}

TEST(SimStorageTest, ADestroyedFileSystemAnswersNothingMore) {
  int carried_out = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Machine machine(seed);
    auto held = std::make_shared<int>();
    machine.files_->Create("/d/a", "a",
                           [&machine, held](Status status) { machine.answers_["a"] = status; });
    machine.Run(static_cast<int64_t>(seed) * 10);
    if (!machine.answers_.empty()) continue;
    machine.files_.reset();
    EXPECT_EQ(held.use_count(), 1);  // no callback lives on
    machine.Run();
    EXPECT_TRUE(machine.answers_.empty());
    carried_out += machine.disk().Exists("/d/a");
  }
  EXPECT_GT(carried_out, 20);
  EXPECT_LT(carried_out, 90);
}

TEST(SimStorageTest, APausedProcessGetsItsAnswersWhenItGoesOn) {
  Machine machine(1);
  machine.files_->Create("/d/a", "a", machine.Answer("a"));
  machine.process_->Pause();
  machine.Run();
  EXPECT_TRUE(machine.disk().Exists("/d/a"));
  EXPECT_TRUE(machine.answers_.empty());
  machine.process_->Continue();
  machine.Run();
  EXPECT_TRUE(machine.answers_.at("a").ok());
}

// Stopped inside an event that asks, and then ends what it asked.
TEST(SimStorageTest, APausedProcessMayDestroyItsFileSystemBeforeItGoesOn) {
  Machine machine(1);
  machine.disk().PutFile("/d/own", "own");
  machine.process_->Pause();
  machine.files_->Create("/d/a", "a", machine.Answer("a"));
  machine.files_->Remove("/d/own", machine.Answer("own"));
  machine.files_.reset();
  machine.process_->Continue();
  machine.Run();
  EXPECT_TRUE(machine.answers_.empty());
  EXPECT_FALSE(machine.disk().Exists("/d/own"));
}

TEST(SimStorageTest, AFullDiskRefusesNewBytesAndAReadOnlyOneEveryChange) {
  Machine machine(1);
  ASSERT_TRUE(machine.Create("/d/a", "a").ok());
  machine.storage_.set_full(true);
  EXPECT_EQ(machine.Create("/d/b", "b").code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(machine.Sync("/d/a").ok());
  auto remove = [](FileSystem& files, FileSystem::Done done) {
    files.Remove("/d/a", std::move(done));
  };
  machine.storage_.set_full(false);
  machine.storage_.set_read_only(true);
  EXPECT_EQ(machine.Do(remove).code(), StatusCode::kFailedPrecondition);
  machine.storage_.set_read_only(false);
  EXPECT_TRUE(machine.Do(remove).ok());
  EXPECT_EQ(machine.probes_.count(Probe::kDiskFull), 1);
  EXPECT_EQ(machine.probes_.count(Probe::kDiskReadOnly), 1);
}

TEST(SimStorageTest, AHangingDiskDoesNothingUntilItIsOver) {
  Machine machine(1);
  machine.storage_.set_hanging(true);
  machine.files_->Create("/d/a", "a", machine.Answer("a"));
  machine.Run();
  EXPECT_FALSE(machine.disk().Exists("/d/a"));
  machine.storage_.set_hanging(false);
  machine.Run();
  EXPECT_TRUE(machine.answers_.at("a").ok());
  // What hung when the power was lost never comes back.
  machine.storage_.set_hanging(true);
  machine.files_->Create("/d/b", "b", machine.Answer("b"));
  machine.Run();
  machine.process_->Kill();
  machine.storage_.PowerLoss();
  machine.storage_.set_hanging(false);
  machine.Run();
  EXPECT_FALSE(machine.disk().Exists("/d/b"));
}

TEST(SimStorageTest, ErrorsComeBeforeOrAfterTheEffect) {
  World world = Machine::Quick();
  world.odds.storage_error_before = 0.3;
  world.odds.storage_error_after = 0.3;
  std::map<std::pair<bool, bool>, int> seen;  // answered well, carried out
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Machine machine(seed, world);
    machine.storage_.set_faults_on(true);
    Status status = machine.Create("/d/a", "a");
    ++seen[{status.ok(), machine.disk().Exists("/d/a")}];
    EXPECT_TRUE(status.ok() || status.retryable()) << status;
  }
  EXPECT_GT((seen[{true, true}]), 50);
  EXPECT_GT((seen[{false, true}]), 20);
  EXPECT_GT((seen[{false, false}]), 20);
  EXPECT_EQ((seen[{true, false}]), 0);
}

TEST(SimStorageTest, BytesWhoseSyncFailedAreNotMadeDurableByALaterOne) {
  World world = Machine::Quick();
  world.odds.storage_error_before = 1;
  int lost = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Machine machine(seed, world);
    ASSERT_TRUE(machine.Create("/d/a", "first").ok());
    ASSERT_TRUE(machine.SyncDirectory("/d").ok());
    machine.storage_.set_faults_on(true);
    EXPECT_FALSE(machine.Sync("/d/a").ok());
    machine.storage_.set_faults_on(false);
    EXPECT_TRUE(machine.Sync("/d/a").ok());
    lost += !machine.disk().IsDurable("/d/a");
    // What is written anew is.
    machine.files_->WriteAt("/d/a", 0, "second", [](Status) {});
    machine.Run();
    EXPECT_TRUE(machine.Sync("/d/a").ok());
    EXPECT_TRUE(machine.disk().IsDurable("/d/a"));
  }
  EXPECT_GT(lost, 10);
  EXPECT_LT(lost, 40);
}

TEST(SimStorageTest, HooksStopTheWorldJustBeforeAndJustAfter) {
  for (bool before : {true, false}) {
    Machine machine(1);
    auto kill = [&](const Process&, std::string_view operation, const std::string& path,
                    const std::string&) {
      if (operation == "create" && path == "/d/a") machine.process_->Kill();
      return Status();
    };
    before ? machine.storage_.set_before(kill) : machine.storage_.set_after(kill);
    machine.files_->Create("/d/a", "a", machine.Answer("a"));
    machine.Run();
    EXPECT_EQ(machine.disk().Exists("/d/a"), !before);
    EXPECT_TRUE(machine.answers_.empty());
  }
}

TEST(SimStorageTest, TheSeedDecidesAllOfIt) {
  auto run = [](uint64_t seed) {
    Machine machine(seed);
    for (int i = 0; i < 50; ++i) {
      std::string path = "/d/" + std::to_string(i % 7);
      machine.files_->Create(path, "x", machine.Answer(path));
      machine.files_->Remove(path, machine.Answer(path));
    }
    machine.Run();
    return machine.scheduler_.trace_hash();
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

}  // namespace
}  // namespace weir::sim
