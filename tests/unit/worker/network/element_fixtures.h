#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/record/batch_builder.h"
#include "common/record/stream_element.h"

// What the tests of channels send, and how their two sides wait for each other.
namespace weir::network_test {

inline SchemaPtr NumberAndText() {
  static const SchemaPtr schema = std::make_shared<const Schema>(
      std::vector<Field>{{"number", Type::kInt64}, {"text", Type::kString}});
  return schema;
}

// One row: (number, text).
inline RecordBatchPtr Row(int64_t number, std::string_view text = "") {
  BatchBuilder builder(NumberAndText());
  builder.column(0).AppendInt64(number);
  builder.column(1).AppendText(text);
  return std::make_shared<const RecordBatch>(builder.Finish());
}

inline int64_t NumberOf(const StreamElement& element) {
  return std::get<RecordBatchPtr>(element)->column(0).Int64(0);
}

inline std::string TextOf(const StreamElement& element) {
  return std::string(std::get<RecordBatchPtr>(element)->column(1).Text(0));
}

// A sleeping task: Wait returns after a Notify that came since the last Wait.
class Gate {
 public:
  void Notify() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    open_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace weir::network_test
