// What every FileSystem owes its callers (common/storage/file_system.h) and the durable writes
// built from it (file_flows.h): the same story is told to each implementation.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdarg>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "common/base/concat.h"
#include "common/storage/file_flows.h"
#include "common/storage/posix_file_system.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/stopping_pool.h"

namespace {

std::atomic<bool> creations_wait = false;
std::atomic<bool> a_creation_waits = false;

}  // namespace

// For all that this program makes: a new file waits in here while its disk is slow.
extern "C" int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
  va_end(arguments);
  while ((flags & O_EXCL) != 0 && creations_wait) {
    a_creation_waits = true;
    std::this_thread::yield();
  }
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

namespace weir {
namespace {

// While it lives, and until End, no new file gets further than its first system call.
class SlowDisk {
 public:
  SlowDisk() {
    a_creation_waits = false;
    creations_wait = true;
  }
  ~SlowDisk() { End(); }
  void WaitForACreation() {
    while (!a_creation_waits) std::this_thread::yield();
  }
  void End() { creations_wait = false; }
};

// Mail from other threads, run by the test's own thread while it waits.
class WaitingExecutor : public Executor {
 public:
  void Post(std::function<void()> mail) override {
    std::lock_guard lock(mutex_);
    mail_.push_back(std::move(mail));
    wake_.notify_one();
  }
  bool InOwnerThread() const override { return std::this_thread::get_id() == owner_; }
  void RunOne() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !mail_.empty(); });
    auto mail = std::move(mail_.front());
    mail_.pop_front();
    lock.unlock();
    mail();
  }

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> mail_;
};

class World {
 public:
  virtual ~World() = default;
  virtual FileSystem& files() = 0;
  virtual void RunOne() = 0;
  // An empty directory.
  virtual std::string root() = 0;
};

class MemoryWorld : public World {
 public:
  MemoryWorld() : files_(executor_) { files_.PutDirectory("/root"); }
  FileSystem& files() override { return files_; }
  void RunOne() override { ASSERT_TRUE(executor_.RunOne()) << "nothing left to run"; }
  std::string root() override { return "/root"; }

 private:
  ManualExecutor executor_;
  MemoryFileSystem files_;
};

class PosixWorld : public World {
 public:
  PosixWorld() : pool_(3), files_(std::make_unique<PosixFileSystem>(executor_, pool_)) {
    pool_.Start();
    std::string pattern = testing::TempDir() + "/file_system_XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~PosixWorld() override {
    files_.reset();
    pool_.Stop();
    std::filesystem::remove_all(root_);
  }
  FileSystem& files() override { return *files_; }
  void RunOne() override { executor_.RunOne(); }
  std::string root() override { return root_; }

  void DropFiles() { files_.reset(); }
  void StopPool() { pool_.Stop(); }

 private:
  WaitingExecutor executor_;
  IoPool pool_;
  std::unique_ptr<PosixFileSystem> files_;
  std::string root_;
};

class FileSystemContract : public testing::TestWithParam<std::string> {
 protected:
  FileSystemContract() {
    if (GetParam() == "posix") {
      world_ = std::make_unique<PosixWorld>();
    } else {
      world_ = std::make_unique<MemoryWorld>();
    }
  }

  FileSystem& files() { return world_->files(); }
  std::string Path(std::string_view name) { return JoinPath(world_->root(), name); }

  template <typename T>
  T Wait(Async<T> request) {
    std::optional<T> result;
    CoScope scope;
    scope.Spawn([](Async<T> request, std::optional<T>* result) -> Co<void> {
      result->emplace(co_await request);
    }(std::move(request), &result));
    while (!result) world_->RunOne();
    return *std::move(result);
  }
  template <typename T>
  T Wait(Co<T> flow) {
    std::optional<T> result;
    CoScope scope;
    scope.Spawn([](Co<T> flow, std::optional<T>* result) -> Co<void> {
      result->emplace(co_await std::move(flow));
    }(std::move(flow), &result));
    while (!result) world_->RunOne();
    return *std::move(result);
  }
  std::string Bytes(const std::string& path) {
    StatusOr<std::string> bytes = Wait(ReadWhole(files(), path));
    return bytes.ok() ? *bytes : bytes.status().ToString();
  }
  std::vector<std::string> Names(const std::string& path) {
    StatusOr<std::vector<FileInfo>> infos = Wait(ListDirectory(files(), path));
    if (!infos.ok()) return {infos.status().ToString()};
    std::vector<std::string> names;
    for (const FileInfo& info : *infos) {
      names.push_back(Concat(info.name, info.is_directory ? "/" : Concat(" ", info.size)));
    }
    return names;
  }

  std::unique_ptr<World> world_;
};

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

#define EXPECT_OK(expression)                        \
  do {                                               \
    Status status_ = (expression);                   \
    EXPECT_TRUE(status_.ok()) << status_.ToString(); \
  } while (false)

TEST_P(FileSystemContract, AnswersComeAsMailAndNeverInsideTheCall) {
  bool answered = false;
  files().Create(Path("a"), "x", [&](Status status) {
    EXPECT_OK(status);
    answered = true;
  });
  EXPECT_FALSE(answered);
  while (!answered) world_->RunOne();
}

TEST_P(FileSystemContract, WhatIsWrittenIsRead) {
  EXPECT_OK(Wait(CreateFile(files(), Path("a"), "hello")));
  EXPECT_EQ(Bytes(Path("a")), "hello");
  EXPECT_OK(Wait(WriteAt(files(), Path("a"), 5, " world")));
  EXPECT_EQ(Bytes(Path("a")), "hello world");
  EXPECT_OK(Wait(WriteAt(files(), Path("a"), 0, "J")));
  EXPECT_EQ(Bytes(Path("a")), "Jello world");
  EXPECT_OK(Wait(WriteAt(files(), Path("a"), 13, "!")));  // a hole is zeros
  EXPECT_EQ(Bytes(Path("a")), std::string("Jello world\0\0!", 14));
  EXPECT_OK(Wait(TruncateFile(files(), Path("a"), 5)));
  EXPECT_EQ(Bytes(Path("a")), "Jello");
  EXPECT_OK(Wait(SyncFile(files(), Path("a"))));
  EXPECT_OK(Wait(SyncDirectory(files(), world_->root())));
}

TEST_P(FileSystemContract, ReadsAreShortOnlyAtTheEnd) {
  EXPECT_OK(Wait(CreateFile(files(), Path("a"), "0123456789")));
  EXPECT_EQ(*Wait(ReadAt(files(), Path("a"), 0, 4)), "0123");
  EXPECT_EQ(*Wait(ReadAt(files(), Path("a"), 4, 6)), "456789");
  EXPECT_EQ(*Wait(ReadAt(files(), Path("a"), 8, 100)), "89");
  EXPECT_EQ(*Wait(ReadAt(files(), Path("a"), 10, 5)), "");
  EXPECT_EQ(*Wait(ReadAt(files(), Path("a"), 100, 5)), "");
}

TEST_P(FileSystemContract, WhatStorageIsGivenDoesNotChangeWhatIsRead) {
  ASSERT_TRUE(Wait(CreateFile(files(), Path("a"), "0123456789")).ok());
  for (const size_t storage_bytes : {size_t{0}, size_t{3}, size_t{500}}) {
    const std::string storage(storage_bytes, 'x');
    EXPECT_EQ(*Wait(ReadAt(files(), Path("a"), 2, 4, storage)), "2345");
    EXPECT_EQ(*Wait(ReadAt(files(), Path("a"), 8, 100, storage)), "89");
    EXPECT_EQ(*Wait(ReadAt(files(), Path("a"), 10, 5, storage)), "");
  }
}

TEST_P(FileSystemContract, LargeFilesComeBackWhole) {
  std::string bytes(9'000'001, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 % 251);
  EXPECT_OK(Wait(CreateFile(files(), Path("large"), bytes)));
  EXPECT_TRUE(Bytes(Path("large")) == bytes);
  StatusOr<std::string> limited = Wait(ReadWhole(files(), Path("large"), 9'000'000));
  EXPECT_EQ(limited.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(limited.status().message(),
              AllOf(HasSubstr(Path("large")), HasSubstr("larger than 9000000 bytes")));
  EXPECT_TRUE(*Wait(ReadWhole(files(), Path("large"), 9'000'001)) == bytes);
}

// Whatever way long writes take, that of short ones, before and after, meets them in one file.
TEST_P(FileSystemContract, LongWritesAndShortOnesMakeOneFile) {
  auto bytes = [](size_t size, uint32_t seed) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
    return text;
  };
  std::string expected = bytes(600'100, 1);  // ends within a page
  EXPECT_OK(Wait(CreateFile(files(), Path("a"), expected)));
  EXPECT_TRUE(Bytes(Path("a")) == expected);
  struct Write {
    int64_t offset;
    size_t size;
  };
  constexpr int64_t kPage = FileSystem::kPageBytes;
  for (const auto& [offset, size] :
       {Write{600'100, 700'000}, Write{317 * kPage, 1'200'000}, Write{50 * kPage, 300'001},
        Write{50 * kPage + 1, 300'000}, Write{60 * kPage + 9, 7}, Write{60 * kPage, 64 * kPage},
        Write{700 * kPage, 100 * kPage}}) {
    const std::string written = bytes(size, static_cast<uint32_t>(offset));
    EXPECT_OK(Wait(WriteAt(files(), Path("a"), offset, written)));
    const size_t at = static_cast<size_t>(offset);
    if (expected.size() < at + size) expected.resize(at + size);  // a hole is zeros
    expected.replace(at, size, written);
    EXPECT_TRUE(Bytes(Path("a")) == expected) << size << " at " << offset;
  }
}

TEST_P(FileSystemContract, CreateAndLinkTakeOnlyFreeNames) {
  EXPECT_OK(Wait(CreateFile(files(), Path("a"), "first")));
  Status again = Wait(CreateFile(files(), Path("a"), "second"));
  EXPECT_EQ(again.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(again.message(), Concat("cannot create ", Path("a"), ": File exists"));
  EXPECT_EQ(again.domain(), ErrorDomain::kExternal);
  EXPECT_EQ(Bytes(Path("a")), "first");

  EXPECT_OK(Wait(LinkFile(files(), Path("a"), Path("b"))));
  EXPECT_EQ(Bytes(Path("b")), "first");
  Status taken = Wait(LinkFile(files(), Path("a"), Path("b")));
  EXPECT_EQ(taken.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(taken.message(), Concat("cannot link ", Path("a"), " to ", Path("b"), ": File exists"));
  EXPECT_OK(Wait(RemoveFile(files(), Path("a"))));
  EXPECT_EQ(Bytes(Path("b")), "first");
}

// Pool threads carry out requests side by side; but who takes away its own is never too early.
TEST_P(FileSystemContract, RemoveIsBehindTheCreateOfItsName) {
  for (int i = 0; i < 1000; ++i) {
    const std::string path = Path("a");
    std::optional<Status> made, removed;
    files().Create(path, "x", [&](Status status) { made = std::move(status); });
    files().Remove(path, [&](Status status) { removed = std::move(status); });
    while (!made || !removed) world_->RunOne();
    EXPECT_OK(*made);
    EXPECT_OK(*removed);
    ASSERT_EQ(Names(world_->root()), std::vector<std::string>()) << i;
  }
}

TEST_P(FileSystemContract, RenameReplaces) {
  EXPECT_OK(Wait(CreateFile(files(), Path("a"), "new")));
  EXPECT_OK(Wait(CreateFile(files(), Path("b"), "old")));
  EXPECT_OK(Wait(RenameFile(files(), Path("a"), Path("b"))));
  EXPECT_EQ(Bytes(Path("b")), "new");
  EXPECT_THAT(Names(world_->root()), ElementsAre("b 3"));
  EXPECT_EQ(Wait(RenameFile(files(), Path("a"), Path("b"))).code(), StatusCode::kNotFound);
}

TEST_P(FileSystemContract, ListIsSortedAndKnowsKindsAndSizes) {
  EXPECT_OK(Wait(CreateFile(files(), Path("b"), "12")));
  EXPECT_OK(Wait(MakeDirectory(files(), Path("c"))));
  EXPECT_OK(Wait(CreateFile(files(), Path(".hidden"), "")));
  EXPECT_OK(Wait(CreateFile(files(), Path("a"), "123")));
  EXPECT_THAT(Names(world_->root()), ElementsAre(".hidden 0", "a 3", "b 2", "c/"));
  EXPECT_EQ(Wait(StatFile(files(), Path("a")))->size, 3);
  EXPECT_EQ(Wait(StatFile(files(), Path("a")))->name, "a");
  EXPECT_FALSE(Wait(StatFile(files(), Path("a")))->is_directory);
  EXPECT_TRUE(Wait(StatFile(files(), Path("c")))->is_directory);
}

TEST_P(FileSystemContract, WhatIsNotThereIsNotFoundByName) {
  std::string path = Path("none");
  for (Status status :
       {Wait(ReadAt(files(), path, 0, 1)).status(), Wait(WriteAt(files(), path, 0, "x")),
        Wait(TruncateFile(files(), path, 0)), Wait(SyncFile(files(), path)),
        Wait(SyncDirectory(files(), path)), Wait(LinkFile(files(), path, Path("b"))),
        Wait(RenameFile(files(), path, Path("b"))), Wait(ListDirectory(files(), path)).status(),
        Wait(StatFile(files(), path)).status(), Wait(RemoveFile(files(), path)),
        Wait(RemoveEmptyDirectory(files(), path)),
        Wait(CreateFile(files(), JoinPath(path, "x"), "")),
        Wait(MakeDirectory(files(), JoinPath(path, "x")))}) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(path), HasSubstr("No such file")));
  }
}

TEST_P(FileSystemContract, DirectoriesAreRemovedOnlyWhenEmpty) {
  EXPECT_OK(Wait(MakeDirectory(files(), Path("d"))));
  EXPECT_EQ(Wait(MakeDirectory(files(), Path("d"))).code(), StatusCode::kAlreadyExists);
  EXPECT_OK(Wait(CreateFile(files(), Path("d/f"), "")));
  EXPECT_EQ(Wait(RemoveEmptyDirectory(files(), Path("d"))).code(), StatusCode::kAlreadyExists);
  EXPECT_FALSE(Wait(RemoveFile(files(), Path("d"))).ok());
  EXPECT_OK(Wait(RemoveFile(files(), Path("d/f"))));
  EXPECT_OK(Wait(RemoveEmptyDirectory(files(), Path("d"))));
  EXPECT_THAT(Names(world_->root()), ElementsAre());
}

TEST_P(FileSystemContract, MakeDirectoriesMakesParentsAndMayBeRepeated) {
  EXPECT_OK(Wait(MakeDirectories(files(), Path("a/b/c"))));
  EXPECT_OK(Wait(MakeDirectories(files(), Path("a/b/c"))));
  EXPECT_OK(Wait(MakeDirectories(files(), Path("a/b/d"))));
  EXPECT_THAT(Names(Path("a/b")), ElementsAre("c/", "d/"));
  EXPECT_OK(Wait(CreateFile(files(), Path("f"), "")));
  Status blocked = Wait(MakeDirectories(files(), Path("f")));
  EXPECT_THAT(blocked.message(), HasSubstr("is not a directory"));
}

TEST_P(FileSystemContract, ClaimSucceedsOnceAndLeavesNoTemporary) {
  EXPECT_OK(Wait(ClaimFile(files(), Path("claim"), "mine", "u1")));
  EXPECT_EQ(Wait(ClaimFile(files(), Path("claim"), "theirs", "u2")).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(Bytes(Path("claim")), "mine");
  EXPECT_THAT(Names(world_->root()), ElementsAre("claim 4"));
}

TEST_P(FileSystemContract, ClaimMayBeRepeatedOverItsOwnLeftovers) {
  EXPECT_OK(Wait(CreateFile(files(), Path("claim.tmp-u1"), "mi")));
  EXPECT_OK(Wait(ClaimFile(files(), Path("claim"), "mine", "u1")));
  EXPECT_EQ(Bytes(Path("claim")), "mine");
  EXPECT_EQ(Wait(ClaimFile(files(), Path("claim"), "mine", "u1")).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(Bytes(Path("claim")), "mine");
  EXPECT_THAT(Names(world_->root()), ElementsAre("claim 4"));
}

TEST_P(FileSystemContract, ReplaceAndCreateDurably) {
  EXPECT_OK(Wait(CreateDurably(files(), Path("a"), "1")));
  EXPECT_EQ(Wait(CreateDurably(files(), Path("a"), "2")).code(), StatusCode::kAlreadyExists);
  EXPECT_OK(Wait(ReplaceDurably(files(), Path("a"), "3", "u1")));
  EXPECT_EQ(Bytes(Path("a")), "3");
  EXPECT_OK(Wait(ReplaceDurably(files(), Path("b"), "4", "u2")));
  EXPECT_THAT(Names(world_->root()), ElementsAre("a 1", "b 1"));
}

TEST_P(FileSystemContract, AFileThatIsReplacedOrWrittenToHasAnotherVersion) {
  EXPECT_OK(Wait(CreateFile(files(), Path("a"), "12")));
  EXPECT_OK(Wait(CreateFile(files(), Path("b"), "12")));
  const uint64_t first = Wait(StatFile(files(), Path("a")))->version;
  EXPECT_EQ(Wait(StatFile(files(), Path("a")))->version, first);
  EXPECT_EQ(Wait(ListDirectory(files(), world_->root()))->at(0).version, first);
  EXPECT_OK(Wait(RenameFile(files(), Path("b"), Path("a"))));
  const uint64_t replaced = Wait(StatFile(files(), Path("a")))->version;
  EXPECT_NE(replaced, first);
  // As often as it takes the file's time to move on; never would be the test's time limit.
  do {
    EXPECT_OK(Wait(WriteAt(files(), Path("a"), 0, "34")));
  } while (Wait(StatFile(files(), Path("a")))->version == replaced);
}

TEST_P(FileSystemContract, RemoveTreeRemovesAllBelow) {
  EXPECT_OK(Wait(MakeDirectories(files(), Path("t/a/b"))));
  EXPECT_OK(Wait(CreateFile(files(), Path("t/x"), "1")));
  EXPECT_OK(Wait(CreateFile(files(), Path("t/a/b/y"), "1")));
  EXPECT_OK(Wait(CreateFile(files(), Path("keep"), "1")));
  EXPECT_OK(Wait(RemoveTree(files(), Path("t"))));
  EXPECT_OK(Wait(RemoveTree(files(), Path("t"))));
  EXPECT_THAT(Names(world_->root()), ElementsAre("keep 1"));
}

INSTANTIATE_TEST_SUITE_P(All, FileSystemContract, testing::Values("memory", "posix"),
                         [](const auto& info) { return info.param; });

TEST(PosixFileSystem, DropsWhatIsUnderWayWhenItGoes) {
  PosixWorld world;
  auto witness = std::make_shared<int>();
  bool answered = false;
  for (int i = 0; i < 50; ++i) {
    world.files().Create(JoinPath(world.root(), Concat("f", i)), "x",
                         [&answered, witness](Status) { answered = true; });
  }
  world.DropFiles();
  EXPECT_EQ(witness.use_count(), 1);  // no callback lives on
  world.StopPool();
  EXPECT_FALSE(answered);
}

// A task is the owner of its file system, and ends while its requests are under way.
TEST(PosixFileSystem, SaysNothingToItsOwnerAnyMoreWhenItHasGone) {
  struct CountingExecutor : Executor {
    void Post(std::function<void()>) override { ++posts; }
    bool InOwnerThread() const override { return true; }
    std::atomic<int> posts = 0;
  };
  std::string root = testing::TempDir() + "/file_system_XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const std::string pipe = root + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  CountingExecutor owner;
  IoPool pool(1);
  pool.Start();
  for (int turn = 0; turn < 100; ++turn) {
    auto files = std::make_unique<PosixFileSystem>(owner, pool);
    // The pool's thread waits in its open until there is a writer, if it has got so far.
    files->Read(pipe, 0, 10, [](StatusOr<std::string>) { FAIL() << "answered"; });
    files->Create(root + "/late", "x", [](Status) { FAIL() << "answered"; });
    std::ofstream(root + "/own") << "x";
    files->Remove(root + "/own", [](Status) { FAIL() << "answered"; });
    std::atomic<bool> done = false;
    pool.Post([&done] { done = true; });
    for (int i = 0; i < turn; ++i) std::this_thread::yield();
    files.reset();
    while (!done) {
      int writer = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK);
      if (writer >= 0) ::close(writer);
    }
    EXPECT_EQ(owner.posts, 0);
    EXPECT_FALSE(std::filesystem::exists(root + "/late"));  // was not begun
    EXPECT_FALSE(std::filesystem::exists(root + "/own"));
  }
  pool.Stop();
  std::filesystem::remove_all(root);
}

// A worker that ends may have asked for it while its disk is slow and each thread of the pool
// waits.
TEST(PosixFileSystem, RemovesAlsoWhenThePoolStops) {
  std::string root = testing::TempDir() + "/file_system_XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  WaitingExecutor owner;
  IoPool pool(1);
  pool.Start();
  auto files = std::make_unique<PosixFileSystem>(owner, pool);
  std::ofstream(root + "/queued") << "x";
  std::ofstream(root + "/refused") << "x";
  SlowDisk slow;
  files->Create(root + "/behind", "x", [](Status) { FAIL() << "answered"; });
  slow.WaitForACreation();
  files->Remove(root + "/behind", [](Status) { FAIL() << "answered"; });
  files->Remove(root + "/queued", [](Status) { FAIL() << "answered"; });
  std::thread stopper([&] { pool.Stop(); });
  WaitUntilItStops(pool);
  files->Remove(root + "/refused", [](Status) { FAIL() << "answered"; });
  files.reset();
  slow.End();
  stopper.join();
  EXPECT_TRUE(std::filesystem::is_empty(root)) << *std::filesystem::directory_iterator(root);
  std::filesystem::remove_all(root);
}

// The answer to an earlier Create of the name comes while a later one is under way.
TEST(PosixFileSystem, RemoveIsBehindTheLatestCreateOfItsName) {
  PosixWorld world;
  const std::string path = JoinPath(world.root(), "a");
  int answers = 0;
  auto answered = [&answers](Status status) {
    EXPECT_OK(status);
    ++answers;
  };
  world.files().Create(path, "x", answered);
  while (!std::filesystem::exists(path)) std::this_thread::yield();
  world.files().Remove(path, answered);
  while (std::filesystem::exists(path)) std::this_thread::yield();
  SlowDisk slow;
  world.files().Create(path, "x", answered);
  slow.WaitForACreation();
  world.RunOne();
  EXPECT_EQ(answers, 1);
  world.files().Remove(path, answered);
  bool looked = false;  // by a pool thread that takes its work after that
  world.files().Stat(world.root(), [&looked](StatusOr<FileInfo>) { looked = true; });
  while (!looked) world.RunOne();
  slow.End();
  while (answers < 4) world.RunOne();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PosixFileSystem, RemoveTreeDoesNotLeaveTheTreeOverALink) {
  PosixWorld world;
  std::filesystem::create_directories(world.root() + "/outside");
  std::filesystem::create_directories(world.root() + "/tree");
  std::filesystem::create_directory_symlink(world.root() + "/outside", world.root() + "/tree/link");
  std::filesystem::create_symlink(world.root() + "/nowhere", world.root() + "/tree/dangling");
  std::optional<Status> status;
  CoScope scope;
  scope.Spawn([](FileSystem& files, std::string path, std::optional<Status>* status) -> Co<void> {
    status->emplace(co_await RemoveTree(files, path));
  }(world.files(), world.root() + "/tree", &status));
  while (!status) world.RunOne();
  EXPECT_OK(*status);
  EXPECT_FALSE(std::filesystem::exists(world.root() + "/tree"));
  EXPECT_TRUE(std::filesystem::exists(world.root() + "/outside"));
}

}  // namespace
}  // namespace weir
