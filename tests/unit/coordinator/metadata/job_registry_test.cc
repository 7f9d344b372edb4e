// Goal: a job is on disk completely or not at all, and only what never was a job is swept. Method:
// a file system in memory that loses power before each of its operations.
#include "coordinator/metadata/job_registry.h"

#include <gtest/gtest.h>

#include "common/base/concat.h"
#include "coordinator/metadata/sha256.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"

namespace weir {
namespace {

const JobId kJob("0123456789abcdef0123456789abcdef");

StoredJob MakeJob(bool checked = true) {
  StoredJob job;
  job.record.id = kJob;
  job.record.graph.name = "flights";
  job.record.submit_digest = "digest";
  job.checked = checked;
  return job;
}

class JobRegistryTest : public testing::Test {
 protected:
  JobRegistryTest() { files_->PutDirectory("/c"); }

  template <typename T>
  std::optional<T> Run(Co<T> flow) {
    std::optional<T> result;
    auto wrap = [](Co<T> inner, std::optional<T>* out) -> Co<void> {
      out->emplace(co_await inner);
    };
    scope_.Spawn(wrap(std::move(flow), &result));
    executor_.RunAll();
    return result;
  }
  Co<Status> Add(bool checked = true) {
    StatusOr<std::string> staged = co_await registry_.Stage(kJob, "ab12", "library bytes");
    if (!staged.ok()) co_return staged.status();
    StoredJob job = MakeJob(checked);
    co_return co_await registry_.Publish(*staged, std::move(job));
  }

  ManualExecutor executor_;
  std::unique_ptr<MemoryFileSystem> files_ = std::make_unique<MemoryFileSystem>(executor_);
  Random random_{7};
  JobRegistry registry_{*files_, "/c", random_};
  CoScope scope_;
};

TEST(Sha256Test, PublishedVectors) {  // FIPS 180-4 examples, NIST CSRC
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_F(JobRegistryTest, WhatIsAddedIsLoaded) {
  ASSERT_TRUE(Run(Add(false))->ok());
  EXPECT_EQ(files_->Bytes(Concat("/c/", kJob, "/lib/ab12.so")), "library bytes");
  auto loaded = Run(registry_.Load());
  ASSERT_TRUE(loaded->ok());
  ASSERT_EQ((*loaded)->size(), 1u);
  EXPECT_EQ((**loaded)[0].record.graph.name, "flights");
  EXPECT_FALSE((**loaded)[0].checked);
  JobRecord checked = MakeJob().record;
  checked.graph.name = "completed by a worker";
  ASSERT_TRUE(Run(registry_.StoreChecked(checked))->ok());
  auto one = Run(registry_.LoadOne(kJob));
  EXPECT_TRUE((*one)->checked);
  EXPECT_EQ((*one)->record.graph.name, "completed by a worker");
}

TEST_F(JobRegistryTest, PowerLossLeavesAWholeJobOrNone) {
  int whole = 0;
  int none = 0;
  for (int64_t stop = 0; stop < 40; ++stop) {
    SCOPED_TRACE(stop);
    scope_.Clear();
    ManualExecutor executor;
    MemoryFileSystem files(executor);
    files.PutDirectory("/c");
    JobRegistry registry(files, "/c", random_);
    auto add = [](JobRegistry* to) -> Co<void> {
      StatusOr<std::string> staged = co_await to->Stage(kJob, "ab12", "library bytes");
      StoredJob job = MakeJob();
      if (staged.ok()) (void)co_await to->Publish(*staged, std::move(job));
    };
    int64_t seen = 0;
    bool dead = false;
    files.set_before([&](std::string_view, const std::string&) {
      dead |= seen++ == stop;
      return dead ? UnavailableError("no power") : Status();
    });
    CoScope scope;
    scope.Spawn(add(&registry));
    executor.RunAll();
    scope.Clear();
    files.set_before({});
    files.Crash();
    std::optional<StatusOr<std::vector<StoredJob>>> loaded;
    auto load = [](JobRegistry* from,
                   std::optional<StatusOr<std::vector<StoredJob>>>* out) -> Co<void> {
      out->emplace(co_await from->Load());
    };
    scope.Spawn(load(&registry, &loaded));
    executor.RunAll();
    ASSERT_TRUE(loaded && loaded->ok());
    if ((*loaded)->empty()) {
      ++none;
      EXPECT_TRUE(files.Files("/c").empty());  // and nothing else is left
    } else {
      ++whole;
      EXPECT_EQ(files.Bytes(Concat("/c/", kJob, "/lib/ab12.so")), "library bytes");
    }
    if (!dead) break;
  }
  EXPECT_GT(none, 5);
  EXPECT_GE(whole, 1);
}

// Its rename was carried out and answered with an error, so that nobody has synced it: the client
// submits again, and what is found then is the job.
TEST_F(JobRegistryTest, AJobThatIsFoundStaysThroughAPowerLoss) {
  for (bool all : {false, true}) {
    files_ = std::make_unique<MemoryFileSystem>(executor_);
    files_->PutDirectory("/c");
    JobRegistry registry(*files_, "/c", random_);
    files_->set_after([](std::string_view operation, const std::string&) {
      return operation == "rename" ? UnavailableError("who knows") : Status();
    });
    auto add = [](JobRegistry* to) -> Co<Status> {
      StatusOr<std::string> staged = co_await to->Stage(kJob, "ab12", "library bytes");
      StoredJob job = MakeJob();
      co_return co_await to->Publish(*staged, std::move(job));
    };
    EXPECT_FALSE(Run(add(&registry))->ok());
    if (all) {
      EXPECT_EQ((*Run(registry.Load()))->size(), 1u);
    } else {
      EXPECT_TRUE(Run(registry.LoadOne(kJob))->ok());
    }
    files_->Crash();
    EXPECT_TRUE(files_->Exists(Concat("/c/", kJob, "/job.pb")));
  }
}

// A deposed coordinator gives what it has staged its name while its successor sweeps.
TEST_F(JobRegistryTest, WhatIsSweptNeverBecomesHalfAJob) {
  auto stage = [](JobRegistry* by) -> Co<Status> {
    StatusOr<std::string> staged = co_await by->Stage(kJob, "ab12", "library bytes");
    co_return staged.status();
  };
  for (int64_t stop = 0; stop < 12; ++stop) {
    SCOPED_TRACE(stop);
    files_ = std::make_unique<MemoryFileSystem>(executor_);
    files_->PutDirectory("/c");
    JobRegistry registry(*files_, "/c", random_);
    ASSERT_TRUE(Run(stage(&registry))->ok());
    const std::string staged = "/c/" + files_->disk()->Names("/c")[0];
    files_->PutFile(staged + "/job.pb", EncodeJobRecord(MakeJob().record));
    int64_t seen = 0;
    files_->set_before([&](std::string_view, const std::string&) {
      if (seen++ == stop) (void)files_->disk()->Rename(staged, Concat("/c/", kJob));
      return Status();
    });
    ASSERT_TRUE(Run(registry.Load())->ok());
    if (!files_->Exists(Concat("/c/", kJob))) continue;
    EXPECT_TRUE(files_->Exists(Concat("/c/", kJob, "/job.pb")));
    EXPECT_TRUE(files_->Exists(Concat("/c/", kJob, "/lib/ab12.so")));
  }
}

TEST_F(JobRegistryTest, LoadSweepsOnlyItsOwnLeftovers) {
  ASSERT_TRUE(Run(Add())->ok());
  files_->PutFile(Concat("/c/.new-", kJob, "-12345678/lib/x.so"), "left");
  files_->PutFile(Concat("/c/.removed-", kJob, "-12345678/job.pb"), "left");
  files_->PutFile("/c/notes.txt", "the user's");
  files_->PutFile("/c/fedcba9876543210fedcba9876543210/job.pb", "damaged");
  auto loaded = Run(registry_.Load());
  ASSERT_TRUE(loaded->ok());
  EXPECT_EQ((*loaded)->size(), 1u);
  EXPECT_TRUE(files_->Exists("/c/notes.txt"));
  EXPECT_TRUE(files_->Exists("/c/fedcba9876543210fedcba9876543210/job.pb"));
  EXPECT_FALSE(files_->Exists(Concat("/c/.new-", kJob, "-12345678")));
  EXPECT_FALSE(files_->Exists(Concat("/c/.removed-", kJob, "-12345678")));
  ASSERT_TRUE(Run(registry_.Remove(kJob))->ok());
  ASSERT_TRUE(Run(registry_.Remove(kJob))->ok());
  EXPECT_FALSE(files_->Exists(Concat("/c/", kJob)));
}

}  // namespace
}  // namespace weir
