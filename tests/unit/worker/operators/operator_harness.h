#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/graph/config.h"
#include "common/record/batch_builder.h"
#include "worker/operators/keyed_operator_context.h"
#include "worker/state/state_backend.h"

namespace weir {

// A cell of a table in a test.
struct Cell {
  Cell(std::nullopt_t) {}                                     // NOLINT: a null
  Cell(int value) : text(Concat(value)) {}                    // NOLINT
  Cell(int64_t value) : text(Concat(value)) {}                // NOLINT
  Cell(double value) : number(value), text(Concat(value)) {}  // NOLINT
  Cell(const char* value) : text(value) {}                    // NOLINT
  Cell(std::string value) : text(std::move(value)) {}         // NOLINT
  double number = 0;
  std::optional<std::string> text;
};
using Rows = std::vector<std::vector<Cell>>;

inline SchemaPtr MakeSchema(std::vector<Field> fields) {
  return std::make_shared<const Schema>(std::move(fields));
}

inline RecordBatch MakeBatch(const SchemaPtr& schema, const Rows& rows) {
  BatchBuilder builder(schema);
  for (const auto& row : rows) {
    for (int i = 0; i < schema->size(); ++i) {
      ColumnBuilder& column = builder.column(i);
      if (!row[i].text.has_value()) {
        column.AppendNull();
        continue;
      }
      const std::string& text = *row[i].text;
      switch (schema->field(i).type) {
        case Type::kBool:
          column.AppendBool(text == "true");
          break;
        case Type::kInt32:
          column.AppendInt32(static_cast<int32_t>(std::stol(text)));
          break;
        case Type::kInt64:
        case Type::kTimestamp:
          column.AppendInt64(std::stoll(text));
          break;
        case Type::kFloat64:
          column.AppendFloat64(row[i].number);
          break;
        case Type::kString:
        case Type::kBytes:
          column.AppendText(text);
          break;
      }
    }
  }
  return builder.Finish();
}

// A row a line, cells parted by blanks.
inline std::string Show(const RecordBatch& batch) {
  std::string out;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    for (int i = 0; i < batch.columns(); ++i) {
      const Column& column = batch.column(i);
      if (i > 0) out += ' ';
      if (column.IsNull(row)) {
        out += "null";
        continue;
      }
      switch (column.type()) {
        case Type::kBool:
          out += column.Bool(row) ? "true" : "false";
          break;
        case Type::kInt32:
          out += Concat(column.Int32(row));
          break;
        case Type::kInt64:
        case Type::kTimestamp:
          out += Concat(column.Int64(row));
          break;
        case Type::kFloat64:
          out += Concat(column.Float64(row));
          break;
        case Type::kString:
        case Type::kBytes:
          out += column.Text(row);
          break;
      }
    }
    out += '\n';
  }
  return out;
}

class CollectingOutput : public Output {
 public:
  void Emit(RecordBatch batch) override { batches.push_back(std::move(batch)); }
  std::vector<RecordBatch> batches;
};

// One operator subtask as the task runtime would hold it. Thread: confined to its owner.
class OperatorHarness : public KeyedOperatorContext {
 public:
  OperatorHarness(std::unique_ptr<Operator> op, std::string_view config_json, SchemaPtr input,
                  const std::vector<std::string>& keys = {}, int inputs = 1)
      : op_(std::move(op)),
        config_(Config(std::move(ParseJson(config_json)).value())),
        inputs_(inputs),
        input_(std::move(input)),
        state_(std::move(MakeStateBackend("memory", {0, 16}, 16)).value()) {
    for (const std::string& key : keys) key_columns_.push_back(input_->IndexOf(key));
  }

  // One more input, of partial rows, the first columns of which are the keys. Before Open.
  void TakePartials(SchemaPtr schema) {
    partials_ = std::move(schema);
    for (size_t i = 0; i < key_columns_.size(); ++i) {
      partial_key_columns_.push_back(static_cast<int>(i));
    }
  }

  // OutputSchema, then Open.
  Status Open() {
    WEIR_ASSIGN_OR_RETURN(Schema schema,
                          op_->OutputSchema(config_, std::vector<Schema>(inputs_, *input_)));
    output_ = std::make_shared<const Schema>(std::move(schema));
    return op_->Open(*this);
  }

  // What the operator emits for these rows.
  StatusOr<std::vector<RecordBatch>> Process(const Rows& rows, int input = 0) {
    return Process(MakeBatch(input_, rows), input);
  }
  StatusOr<std::vector<RecordBatch>> Process(const RecordBatch& batch, int input = 0) {
    CollectingOutput output;
    state_->BeginBatch(batch, key_columns(input));
    WEIR_RETURN_IF_ERROR(op_->ProcessBatch(input, batch, output));
    WEIR_RETURN_IF_ERROR(state_->EndBatch());
    for (const RecordBatch& emitted : output.batches) EXPECT_EQ(*emitted.schema(), *output_);
    return std::move(output.batches);
  }
  // The same, as text.
  std::string Shown(const Rows& rows) {
    StatusOr<std::vector<RecordBatch>> batches = Process(rows);
    if (!batches.ok()) return "error: " + batches.status().message();
    std::string text;
    for (const RecordBatch& batch : *batches) text += Show(batch);
    return text;
  }

  // The same operator with its state in a new process.
  void MoveStateFrom(OperatorHarness& other) {
    StatusOr<std::vector<KeyGroupState>> snapshot = other.state_->Snapshot();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    for (const KeyGroupState& chunk : *snapshot) {
      const Status status = state_->Restore(chunk.key_group, chunk.bytes);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  const Config& config() const override { return config_; }
  const std::string& uid() const override { return uid_; }
  int subtask() const override { return 0; }
  int parallelism() const override { return 1; }
  int inputs() const override { return partials_ == nullptr ? inputs_ : inputs_ + 1; }
  const SchemaPtr& input_schema(int input) const override {
    return input < inputs_ ? input_ : partials_;
  }
  const SchemaPtr& output_schema() const override { return output_; }
  const std::vector<int>& key_columns(int input) const override {
    return input < inputs_ ? key_columns_ : partial_key_columns_;
  }
  StateBackend& state() override { return *state_; }

 protected:
  StatusOr<KeyedBytes*> keyed_bytes(const std::string& name) override {
    return state_->BytesTable(name);
  }
  KeyedBytes* keyed_bytes_or_fail(const std::string& name) override {
    return std::move(state_->BytesTable(name)).value();
  }

 private:
  std::unique_ptr<Operator> op_;
  const Config config_;
  const std::string uid_ = "step";
  const int inputs_;
  const SchemaPtr input_;
  SchemaPtr output_;
  std::vector<int> key_columns_;
  SchemaPtr partials_;
  std::vector<int> partial_key_columns_;
  std::unique_ptr<StateBackend> state_;
};

}  // namespace weir
