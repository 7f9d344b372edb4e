#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/threading/executor.h"

// The real Kafka broker of a test run (weir_needs_kafka in cmake/weir.cmake), seen without Weir's
// own code. Everything aborts the test when the broker does not do as it should.
namespace weir::test_kafka {

std::string Brokers();  // host:port

// A topic of a new name.
std::string MakeTopic(int partitions, const std::map<std::string, std::string>& config = {});

struct Row {
  int32_t partition = 0;
  std::optional<std::string> key = {};
  std::optional<std::string> value = {};
  int64_t timestamp_ms = -1;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers = {};
  bool operator==(const Row&) const = default;
};

// All rows that are committed now, in order within a partition.
std::vector<Row> Committed(const std::string& topic);

struct Ends {
  int64_t stable = 0;  // behind the last offset that read_committed may read
  int64_t high = 0;
};
Ends EndsOf(const std::string& topic, int32_t partition);

// Commits an offset as any consumer might.
void CommitOffset(const std::string& group, const std::string& topic, int64_t offset,
                  const std::string& metadata);

// A proxy in front of the broker (tests/support/kafka/kafka_proxy.py) as long as this lives.
class Proxy {
 public:
  Proxy();
  ~Proxy();
  Proxy(const Proxy&) = delete;
  // host:port of the way through it.
  std::string brokers() const;
  // Adds a rule, without the braces: `"api": "EndTxn", "at": "answer", "action": "cut"`.
  int Add(const std::string& rule);
  void WaitFor(int rule);  // until it has acted
  void Release(int rule);

 private:
  std::string Ask(const std::string& command);

  int pid_ = 0;
  int input_ = -1;    // the proxy ends when this is closed
  int control_ = -1;  // a connection
  int port_ = 0;
};

// Runs mail of other threads when the test says so. Thread: Post thread-safe, the rest the test's.
class WaitingExecutor : public Executor {
 public:
  void Post(std::function<void()> mail) override;
  bool InOwnerThread() const override { return std::this_thread::get_id() == owner_; }
  // Runs mail until `condition` holds; aborts the test after `seconds_max`.
  void RunUntil(const std::function<bool()>& condition, int seconds_max = 60);

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> mail_;  // guarded by mutex_
};

}  // namespace weir::test_kafka
