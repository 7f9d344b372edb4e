#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/record/record_batch.h"

namespace weir {

// Where an operator puts the rows it makes. Thread: the task's.
class Output {
 public:
  virtual ~Output() = default;
  // Hands on rows. REQUIRES: the batch has the operator's output schema. Batches of no rows are
  // ignored. The rows go on before the call returns or are buffered by the task; never waits.
  virtual void Emit(RecordBatch batch) = 0;
};

// Keyed state of one named kind of one operator subtask, for the rows of the batch in process: the
// runtime loads the values of all keys of the batch before ProcessBatch and stores what changed
// after it. Rows with equal keys see each other's changes in row order. Values are bytes here;
// users hold a ValueState<T>. Thread: the task's.
class KeyedBytes {
 public:
  virtual ~KeyedBytes() = default;
  // The value of the key of `row`, or no value. Valid until the next call that changes this key.
  virtual bool Get(int64_t row, std::string_view* value) const = 0;
  virtual void Set(int64_t row, std::string_view value) = 0;
  virtual void Clear(int64_t row) = 0;
};

// One value of T a key. T: a trivially copyable type (stored as its bytes; no pointers), or
// std::string. Default-constructed ones are unusable until assigned from value_state().
template <typename T>
class ValueState {
  static_assert(std::is_same_v<T, std::string> || std::is_trivially_copyable_v<T>);

 public:
  ValueState() = default;
  explicit ValueState(KeyedBytes* bytes) : bytes_(bytes) {}

  // Whether the key of `row` (a row of the batch in process) has a value.
  bool has(int64_t row) const {
    std::string_view value;
    return bytes_->Get(row, &value);
  }
  // The value of the key of `row`, or `absent`.
  T get(int64_t row, T absent = T{}) const {
    std::string_view value;
    if (!bytes_->Get(row, &value)) return absent;
    if constexpr (std::is_same_v<T, std::string>) {
      return T(value);
    } else {
      T result{};
      if (value.size() == sizeof(T)) std::memcpy(&result, value.data(), sizeof(T));
      return result;
    }
  }
  void set(int64_t row, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      bytes_->Set(row, value);
    } else {
      bytes_->Set(row, std::string_view(reinterpret_cast<const char*>(&value), sizeof(T)));
    }
  }
  void clear(int64_t row) { bytes_->Clear(row); }

 private:
  KeyedBytes* bytes_ = nullptr;
};

// What an operator subtask is told about itself. Lives as long as the operator. Thread: the task's.
class OperatorContext {
 public:
  virtual ~OperatorContext() = default;
  virtual const Config& config() const = 0;
  virtual const std::string& uid() const = 0;
  virtual int subtask() const = 0;
  virtual int parallelism() const = 0;
  virtual int inputs() const = 0;
  virtual const SchemaPtr& input_schema(int input) const = 0;
  virtual const SchemaPtr& output_schema() const = 0;  // nullptr for sinks
  // Columns of the input by whose hash the rows arrive (HASH edge); empty if not keyed.
  virtual const std::vector<int>& key_columns(int input) const = 0;

  // Keyed state `name` (unique in the operator; part of the snapshot). Only in Open. User error
  // if the inputs are not keyed.
  template <typename T>
  StatusOr<ValueState<T>> keyed_value(const std::string& name) {
    StatusOr<KeyedBytes*> bytes = keyed_bytes(name);
    if (!bytes.ok()) return bytes.status();
    return ValueState<T>(*bytes);
  }
  // As keyed_value; an error ends the job with that error after Open returns.
  template <typename T>
  ValueState<T> value_state(const std::string& name) {
    return ValueState<T>(keyed_bytes_or_fail(name));
  }

 protected:
  virtual StatusOr<KeyedBytes*> keyed_bytes(const std::string& name) = 0;
  virtual KeyedBytes* keyed_bytes_or_fail(const std::string& name) = 0;
};

// A step of a job between sources and sinks; one instance a subtask, made by its registered
// factory. The same interface for built-in and user operators. Every call comes from the task's
// thread, in the order Open, ProcessBatch…, OnEndOfInput, Close; none may wait or sleep.
// An error fails the generation: the job fails with it if it is a user error that no repetition
// helps, else it is started again from the newest completed checkpoint.
class Operator {
 public:
  virtual ~Operator() = default;

  // The schema this operator emits for these inputs. Called without Open, at submission, on an
  // instance of its own. Default: that of input 0.
  virtual StatusOr<Schema> OutputSchema(const Config& config, const std::vector<Schema>& inputs);

  virtual Status Open(OperatorContext& context);
  virtual Status ProcessBatch(int input, const RecordBatch& batch, Output& output) = 0;
  // All inputs have ended: emit what is still held back. Nothing may be emitted later.
  virtual Status OnEndOfInput(Output& output);
  virtual Status Close();
};

}  // namespace weir
