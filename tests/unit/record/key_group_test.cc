// Goal: the bytes of a key, its hash, key group and subtask are those of the contract, for ever.
// Method: key_vectors.txt, which make_key_vectors.py computes without any code of ours; key groups
// of subtasks against the rule that gives a key group its subtask.
#include "common/record/key_group.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/record/batch_builder.h"
#include "tests/unit/record/sample_batch.h"

namespace weir {
namespace {

struct KeyVector {
  std::string line;
  std::vector<Type> types;
  std::vector<std::string> values;
  std::string encoding;
  uint64_t hash = 0;
  int group_of_128 = 0;
  int subtask_of_3 = 0;
  int group_of_32768 = 0;
  int subtask_of_7 = 0;
};

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<KeyVector> ReadVectors() {
  const char* root = std::getenv("WEIR_SOURCE_DIR");
  std::ifstream file(std::string(root != nullptr ? root : ".") +
                     "/tests/unit/record/key_vectors.txt");
  std::vector<KeyVector> vectors;
  std::string line;
  while (std::getline(file, line)) {
    KeyVector vector;
    vector.line = line;
    std::istringstream words(line);
    std::string word;
    while (words >> word && word != "->") {
      const size_t equals = word.find('=');
      vector.types.push_back(ParseType(word.substr(0, equals)).value());
      vector.values.push_back(word.substr(equals + 1));
    }
    std::string encoding;
    words >> encoding >> std::hex >> vector.hash >> std::dec >> vector.group_of_128 >>
        vector.subtask_of_3 >> vector.group_of_32768 >> vector.subtask_of_7;
    EXPECT_TRUE(words) << line;
    vector.encoding = FromHex(encoding);
    vectors.push_back(vector);
  }
  return vectors;
}

void Append(const std::string& value, ColumnBuilder* column) {
  if (value == "null") return column->AppendNull();
  switch (column->type()) {
    case Type::kBool:
      return column->AppendBool(value == "true");
    case Type::kInt32:
      return column->AppendInt32(std::stoi(value));
    case Type::kInt64:
    case Type::kTimestamp:
      return column->AppendInt64(std::stoll(value));
    case Type::kFloat64:
      return column->AppendFloat64(
          std::bit_cast<double>(uint64_t{std::stoull(value, nullptr, 16)}));
    case Type::kString:
    case Type::kBytes:
      return column->AppendText(FromHex(value));
  }
}

// The key between other rows and columns, which must not matter.
RecordBatch BatchWith(const KeyVector& vector, std::vector<int>* key_columns) {
  std::vector<Field> fields = {{"first", Type::kInt64}};
  for (size_t i = 0; i < vector.types.size(); ++i) {
    fields.push_back({"key" + std::to_string(i), vector.types[i]});
    key_columns->push_back(static_cast<int>(i) + 1);
  }
  BatchBuilder builder(std::make_shared<Schema>(fields));
  for (int row = 0; row < 3; ++row) {
    builder.column(0).AppendInt64(row);
    for (size_t i = 0; i < vector.types.size(); ++i) {
      ColumnBuilder& column = builder.column(static_cast<int>(i) + 1);
      if (row == 0) {
        column.AppendNull();
      } else {
        Append(vector.values[i], &column);
      }
    }
  }
  return builder.Finish();
}

TEST(KeyGroupTest, EncodesAndHashesKeysAsTheContractSays) {
  const std::vector<KeyVector> vectors = ReadVectors();
  ASSERT_EQ(vectors.size(), 143u);
  for (const KeyVector& vector : vectors) {
    SCOPED_TRACE(vector.line);
    std::vector<int> key_columns;
    const RecordBatch batch = BatchWith(vector, &key_columns);
    std::string encoding = "before";
    EncodeKey(batch, key_columns, 1, &encoding);
    EXPECT_EQ(encoding, "before" + vector.encoding);
    std::vector<uint64_t> hashes = {99};
    HashKeys(batch, key_columns, &hashes);
    ASSERT_EQ(hashes.size(), 3u);
    EXPECT_EQ(hashes[1], vector.hash);
    EXPECT_EQ(hashes[2], vector.hash);
    EXPECT_EQ(KeyGroupOf(vector.hash, 128), vector.group_of_128);
    EXPECT_EQ(SubtaskOf(vector.group_of_128, 128, 3), vector.subtask_of_3);
    EXPECT_EQ(KeyGroupOf(vector.hash, 32768), vector.group_of_32768);
    EXPECT_EQ(SubtaskOf(vector.group_of_32768, 32768, 7), vector.subtask_of_7);
  }
}

TEST(KeyGroupTest, HashesTheSameWithAndWithoutNullsAround) {
  for (const KeyVector& vector : ReadVectors()) {
    if (vector.types.size() != 1) continue;
    SCOPED_TRACE(vector.line);
    BatchBuilder builder(std::make_shared<Schema>(std::vector<Field>{{"key", vector.types[0]}}));
    for (int row = 0; row < 20; ++row) Append(vector.values[0], &builder.column(0));
    std::vector<uint64_t> hashes;
    HashKeys(builder.Finish(), std::vector<int>{0}, &hashes);
    EXPECT_EQ(hashes, std::vector<uint64_t>(20, vector.hash));
  }
}

TEST(KeyGroupTest, HashesNoRows) {
  std::vector<uint64_t> hashes = {1, 2};
  HashKeys(EmptyBatch(SampleSchema()), std::vector<int>{2, 4}, &hashes);
  EXPECT_TRUE(hashes.empty());
}

TEST(KeyGroupTest, TheRangesOfSubtasksArePartitionsInOrder) {
  for (const int max_parallelism : {1, 2, 3, 7, 10, 127, 128, 129, 1000, 32768}) {
    for (int parallelism = 1; parallelism <= max_parallelism; parallelism += 1 + parallelism / 5) {
      int next = 0;
      for (int subtask = 0; subtask < parallelism; ++subtask) {
        const KeyGroupRange range = KeyGroupsOf(subtask, max_parallelism, parallelism);
        ASSERT_EQ(range.begin, next);
        ASSERT_GT(range.size(), 0);
        for (int group = range.begin; group < range.end; ++group) {
          ASSERT_EQ(SubtaskOf(group, max_parallelism, parallelism), subtask)
              << group << " of " << max_parallelism << " for " << parallelism;
        }
        next = range.end;
      }
      ASSERT_EQ(next, max_parallelism);
    }
  }
}

TEST(KeyGroupTest, ARangeKnowsItsKeyGroups) {
  // Subtask 1 of 3 has the key groups g with g * 3 / 8 == 1: 3, 4 and 5.
  const KeyGroupRange range = KeyGroupsOf(1, 8, 3);
  EXPECT_EQ(range, (KeyGroupRange{3, 6}));
  EXPECT_FALSE(range.Contains(2));
  EXPECT_TRUE(range.Contains(3));
  EXPECT_TRUE(range.Contains(5));
  EXPECT_FALSE(range.Contains(6));
}

}  // namespace
}  // namespace weir
