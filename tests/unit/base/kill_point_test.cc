// The testing version of KillPoint: dies at the named point, at the right time, once.
#include "common/base/kill_point.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace weir {
namespace {

// What becomes of a process with this environment that runs `body`: waitpid's status.
int RunProcess(const std::map<std::string, std::string>& environment,
               const std::function<void()>& body) {
  pid_t pid = ::fork();
  if (pid == 0) {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    body();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
  if (WIFSTOPPED(status)) {
    int ignored;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &ignored, 0);
  }
  return status;
}

TEST(KillPoint, DoesNothingWithoutAWish) {
  int status = RunProcess({}, [] { KillPoint("a"); });
  EXPECT_TRUE(WIFEXITED(status));
}

TEST(KillPoint, KillsAtTheNamedPointAlone) {
  EXPECT_TRUE(WIFEXITED(RunProcess({{"WEIR_KILL_POINT", "a.b"}}, [] { KillPoint("a"); })));
  int status = RunProcess({{"WEIR_KILL_POINT", "a.b"}}, [] { KillPoint("a.b"); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(KillPoint, CountsArrivals) {
  auto arrive = [](int times) {
    return [times] {
      for (int i = 0; i < times; ++i) KillPoint("a");
    };
  };
  EXPECT_TRUE(WIFEXITED(RunProcess({{"WEIR_KILL_POINT", "a:3"}}, arrive(2))));
  EXPECT_TRUE(WIFSIGNALED(RunProcess({{"WEIR_KILL_POINT", "a:3"}}, arrive(3))));
}

TEST(KillPoint, StopsIfAskedTo) {
  int status =
      RunProcess({{"WEIR_KILL_POINT", "a"}, {"WEIR_KILL_SIGNAL", "STOP"}}, [] { KillPoint("a"); });
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGSTOP);
}

TEST(KillPoint, OnlyTheFirstProcessDiesWhenThereIsAFile) {
  std::string pattern = testing::TempDir() + "/kill_point_XXXXXX";
  std::string directory = ::mkdtemp(pattern.data());
  std::map<std::string, std::string> environment = {{"WEIR_KILL_POINT", "a"},
                                                    {"WEIR_KILL_POINT_FILE", directory + "/once"}};
  EXPECT_TRUE(WIFSIGNALED(RunProcess(environment, [] { KillPoint("a"); })));
  EXPECT_TRUE(std::filesystem::exists(directory + "/once"));
  EXPECT_TRUE(WIFEXITED(RunProcess(environment, [] { KillPoint("a"); })));
  std::filesystem::remove_all(directory);
}

TEST(KillPoint, StopsAgainOnceTheFileIsGone) {
  std::string pattern = testing::TempDir() + "/kill_point_XXXXXX";
  const std::string directory = ::mkdtemp(pattern.data());
  const std::string file = directory + "/once";
  ::setenv("WEIR_KILL_POINT", "a:2", 1);
  ::setenv("WEIR_KILL_SIGNAL", "STOP", 1);
  ::setenv("WEIR_KILL_POINT_FILE", file.c_str(), 1);
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (int i = 0; i < 4; ++i) {
      KillPoint("a");
      // At the third arrival it still lies there.
      if (i == 2) std::filesystem::remove(file);
    }
    ::_exit(0);
  }
  for (int stop = 0; stop < 2; ++stop) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
    ASSERT_TRUE(WIFSTOPPED(status)) << stop;
    EXPECT_TRUE(std::filesystem::exists(file)) << stop;
    ::kill(pid, SIGCONT);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status));
  for (const char* name : {"WEIR_KILL_POINT", "WEIR_KILL_SIGNAL", "WEIR_KILL_POINT_FILE"}) {
    ::unsetenv(name);
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace weir
