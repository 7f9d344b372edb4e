// What every state backend promises (worker/state/state_backend.h). Method: batches of keys go
// through a backend and, one row at a time, through a std::map; snapshots are restored at other
// ranges, cut and flipped.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/record/batch_builder.h"
#include "common/record/key_group.h"
#include "worker/state/state_backend.h"
#include "worker/state/state_format.h"

namespace weir {
namespace {

constexpr int kMaxParallelism = 128;

SchemaPtr OneColumn(Type type) {
  return std::make_shared<const Schema>(std::vector<Field>{{"k", type}});
}

RecordBatch Integers(const std::vector<std::optional<int64_t>>& keys) {
  BatchBuilder builder(OneColumn(Type::kInt64));
  for (const auto& key : keys) {
    if (key.has_value()) {
      builder.column(0).AppendInt64(*key);
    } else {
      builder.column(0).AppendNull();
    }
  }
  return builder.Finish();
}

RecordBatch Texts(const std::vector<std::optional<std::string>>& keys, Type type = Type::kString) {
  BatchBuilder builder(OneColumn(type));
  for (const auto& key : keys) {
    if (key.has_value()) {
      builder.column(0).AppendText(*key);
    } else {
      builder.column(0).AppendNull();
    }
  }
  return builder.Finish();
}

RecordBatch Doubles(const std::vector<double>& keys) {
  BatchBuilder builder(OneColumn(Type::kFloat64));
  for (const double key : keys) builder.column(0).AppendFloat64(key);
  return builder.Finish();
}

int64_t& Count(uint8_t* value) { return *reinterpret_cast<int64_t*>(value); }

class StateBackendContract : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<StateBackend> Make(KeyGroupRange range = {0, kMaxParallelism},
                                     int max_parallelism = kMaxParallelism) {
    auto backend = MakeStateBackend(GetParam(), range, max_parallelism);
    EXPECT_TRUE(backend.ok()) << backend.status();
    return std::move(backend).value();
  }

  static KeyedBytes* Bytes(StateBackend& backend, const std::string& name = "bytes") {
    auto table = backend.BytesTable(name);
    EXPECT_TRUE(table.ok()) << table.status();
    return *table;
  }

  static FixedTable* Fixed(StateBackend& backend, int width = 8,
                           const std::string& name = "fixed") {
    auto table = backend.AccumulatorTable(name, width, "count");
    EXPECT_TRUE(table.ok()) << table.status();
    return *table;
  }

  // Adds one to the count of each row's key; what the rows then saw.
  static std::vector<int64_t> Add(StateBackend& backend, FixedTable* table,
                                  const RecordBatch& batch, std::vector<int> columns = {0}) {
    backend.BeginBatch(batch, columns);
    std::vector<uint8_t*> values;
    const Status status = table->Load(&values);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<int64_t> seen;
    for (uint8_t* value : values) seen.push_back(++Count(value));
    const Status end = backend.EndBatch();
    EXPECT_TRUE(end.ok()) << end;
    return seen;
  }

  static std::vector<KeyGroupState> SnapshotOf(StateBackend& backend) {
    auto snapshot = backend.Snapshot();
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return std::move(snapshot).value();
  }

  // What chunks hold: by key group, table and key the value. No key comes twice.
  using Contents = std::map<std::tuple<int, std::string, std::string>, std::string>;
  static Contents ContentsOf(const std::vector<KeyGroupState>& chunks,
                             int max_parallelism = kMaxParallelism) {
    Contents contents;
    for (const KeyGroupState& chunk : chunks) {
      auto reader = StateChunkReader::Open(chunk.key_group, max_parallelism, chunk.bytes);
      EXPECT_TRUE(reader.ok()) << reader.status();
      if (!reader.ok()) continue;
      std::string_view key, value;
      while (reader->NextEntry(&key, &value)) {
        const std::tuple at(chunk.key_group, reader->table().name, std::string(key));
        EXPECT_TRUE(contents.emplace(at, value).second);
      }
    }
    return contents;
  }
};

using Seen = std::vector<int64_t>;

TEST_P(StateBackendContract, RowsOfEqualKeysShareOneAccumulator) {
  auto backend = Make();
  FixedTable* table = Fixed(*backend);
  EXPECT_EQ(Add(*backend, table, Integers({7, 8, 7, 7})), Seen({1, 1, 2, 3}));
  EXPECT_EQ(Add(*backend, table, Integers({8, 9})), Seen({2, 1}));
  EXPECT_EQ(Add(*backend, table, Integers({})), Seen({}));
}

TEST_P(StateBackendContract, PointersHoldAcrossFurtherLoadsOfTheBatch) {
  // Given a first batch that makes tables grow again and again.
  auto backend = Make({0, 1}, 1);
  FixedTable* first = Fixed(*backend, 8, "first");
  FixedTable* second = Fixed(*backend, 24, "second");
  std::vector<std::optional<int64_t>> keys;
  for (int i = 0; i < 5000; ++i) keys.push_back(i % 2500);
  const RecordBatch batch = Integers(keys);
  const std::vector<int> columns = {0};
  // When both tables are loaded, the first one twice.
  backend->BeginBatch(batch, columns);
  std::vector<uint8_t*> a, b, c;
  ASSERT_TRUE(first->Load(&a).ok());
  for (size_t i = 0; i < a.size(); ++i) Count(a[i]) += static_cast<int64_t>(i);
  ASSERT_TRUE(second->Load(&b).ok());
  ASSERT_TRUE(first->Load(&c).ok());
  // Then equal keys have equal pointers, others different ones, and what was written stays.
  EXPECT_EQ(a, c);
  for (size_t i = 0; i < 2500; ++i) {
    ASSERT_EQ(a[i], a[i + 2500]);
    ASSERT_EQ(b[i], b[i + 2500]);
    ASSERT_EQ(Count(a[i]), static_cast<int64_t>(i + i + 2500));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(b[i]) % 8, 0u);
    for (int byte = 0; byte < 24; ++byte) ASSERT_EQ(b[i][byte], 0);
  }
  EXPECT_EQ(std::set<uint8_t*>(a.begin(), a.end()).size(), 2500u);
  EXPECT_EQ(std::set<uint8_t*>(b.begin(), b.end()).size(), 2500u);
  EXPECT_TRUE(backend->EndBatch().ok());
}

TEST_P(StateBackendContract, RowsLoadedInPiecesHoldUntilTheNextPiece) {
  // Given batches whose keys make tables grow in the middle of a piece; numbers, texts and nulls.
  std::vector<std::optional<int64_t>> numbers;
  std::vector<std::optional<std::string>> texts;
  for (int i = 0; i < 3000; ++i) {
    const int key = i * i % 1009;
    numbers.push_back(key == 4 ? std::nullopt : std::optional<int64_t>(key));
    texts.push_back(key == 4 ? std::nullopt : std::optional<std::string>(std::to_string(key)));
  }
  const std::vector<int> columns = {0};
  for (const RecordBatch& batch : {Integers(numbers), Texts(texts)}) {
    auto backend = Make({0, 1}, 1);
    FixedTable* table = Fixed(*backend);
    std::map<int, int64_t> expected;
    for (int round = 0; round < 2; ++round) {
      backend->BeginBatch(batch, columns);
      std::vector<uint8_t*> values;
      // When each piece is used up before the next is loaded.
      for (int64_t begin = 0; begin < 3000; begin += 70) {
        const int64_t end = std::min<int64_t>(3000, begin + 70);
        ASSERT_TRUE(table->LoadRows(begin, end, &values).ok());
        for (int64_t row = begin; row < end; ++row) {
          ASSERT_EQ(++Count(values[row]), ++expected[static_cast<int>(row * row % 1009)]);
        }
      }
      // Then the batch as a whole shows the same.
      ASSERT_TRUE(table->Load(&values).ok());
      for (int64_t row = 0; row < 3000; ++row) {
        ASSERT_EQ(Count(values[row]), expected[static_cast<int>(row * row % 1009)]);
      }
      EXPECT_TRUE(backend->EndBatch().ok());
    }
  }
}

TEST_P(StateBackendContract, NullEmptyAndZeroesAreDifferentKeys) {
  auto backend = Make();
  FixedTable* table = Fixed(*backend);
  const std::string zero("\0", 1);
  const std::string zeroes("\0\0", 2);
  EXPECT_EQ(
      Add(*backend, table, Texts({std::nullopt, "", zero, zeroes, std::nullopt, "", zero, zeroes})),
      Seen({1, 1, 1, 1, 2, 2, 2, 2}));
  auto integers = Make();
  table = Fixed(*integers);
  EXPECT_EQ(Add(*integers, table, Integers({std::nullopt, 0, std::nullopt, 0, 1, -1})),
            Seen({1, 1, 2, 2, 1, 1}));
}

TEST_P(StateBackendContract, KeysOfEveryLengthAreKeptApart) {
  auto backend = Make();
  FixedTable* table = Fixed(*backend);
  std::vector<std::optional<std::string>> keys;
  for (int length = 0; length < 40; ++length) {
    keys.push_back(std::string(length, 'a'));
    keys.push_back(std::string(length, '\0') + "b");
    keys.push_back(std::string(length, 'a') + "c");
  }
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(Add(*backend, table, Texts(keys, Type::kBytes)), Seen(keys.size(), round));
  }
}

TEST_P(StateBackendContract, NegativeZeroIsZeroAndAllNansAreOneKey) {
  auto backend = Make();
  FixedTable* table = Fixed(*backend);
  uint64_t other_nan_bits = 0xfff8000000000123;
  double other_nan;
  std::memcpy(&other_nan, &other_nan_bits, sizeof(other_nan));
  EXPECT_EQ(Add(*backend, table,
                Doubles({0.0, -0.0, std::numeric_limits<double>::quiet_NaN(), other_nan, 1.5})),
            Seen({1, 2, 1, 2, 1}));
}

TEST_P(StateBackendContract, OneNumberHasOneStateWhateverItsWidth) {
  auto backend = Make();
  FixedTable* table = Fixed(*backend);
  BatchBuilder builder(OneColumn(Type::kInt32));
  builder.column(0).AppendInt32(-5);
  EXPECT_EQ(Add(*backend, table, builder.Finish()), Seen({1}));
  EXPECT_EQ(Add(*backend, table, Integers({-5})), Seen({2}));
}

TEST_P(StateBackendContract, ColumnsOfAKeyDoNotRunTogether) {
  auto schema = std::make_shared<const Schema>(
      std::vector<Field>{{"a", Type::kString}, {"n", Type::kInt32}, {"b", Type::kString}});
  BatchBuilder builder(schema);
  auto append = [&](const char* a, const char* b) {
    builder.column(0).AppendText(a);
    builder.column(1).AppendNull();
    builder.column(2).AppendText(b);
  };
  append("ab", "c");
  append("a", "bc");
  append("ab", "c");
  const RecordBatch batch = builder.Finish();
  auto backend = Make();
  FixedTable* table = Fixed(*backend);
  EXPECT_EQ(Add(*backend, table, batch, {0, 2}), Seen({1, 1, 2}));
  EXPECT_EQ(Add(*backend, table, batch, {2, 0}), Seen({1, 1, 2}));  // another key
}

TEST_P(StateBackendContract, BytesAreSetReadAndClearedInRowOrder) {
  auto backend = Make();
  KeyedBytes* table = Bytes(*backend);
  const RecordBatch batch = Integers({1, 2, 1, 1});
  const std::vector<int> columns = {0};
  std::string_view value;
  backend->BeginBatch(batch, columns);
  EXPECT_FALSE(table->Get(0, &value));
  table->Set(0, "one");
  ASSERT_TRUE(table->Get(2, &value));
  EXPECT_EQ(value, "one");
  EXPECT_FALSE(table->Get(1, &value));
  table->Set(2, "a longer value than fits");
  ASSERT_TRUE(table->Get(3, &value));
  EXPECT_EQ(value, "a longer value than fits");
  table->Clear(3);
  EXPECT_FALSE(table->Get(0, &value));
  table->Clear(0);
  table->Set(0, "");
  ASSERT_TRUE(table->Get(2, &value));
  EXPECT_EQ(value, "");
  table->Set(1, "two");
  table->Clear(1);
  ASSERT_TRUE(backend->EndBatch().ok());

  backend->BeginBatch(batch, columns);
  ASSERT_TRUE(table->Get(3, &value));
  EXPECT_EQ(value, "");
  EXPECT_FALSE(table->Get(1, &value));
  table->Clear(2);
  ASSERT_TRUE(backend->EndBatch().ok());
  EXPECT_TRUE(SnapshotOf(*backend).empty());
}

TEST_P(StateBackendContract, AValueReadStaysWhileOtherKeysChange) {
  auto backend = Make({0, 1}, 1);
  KeyedBytes* table = Bytes(*backend);
  std::vector<std::optional<int64_t>> keys;
  for (int i = 0; i < 4096; ++i) keys.push_back(i);
  const RecordBatch batch = Integers(keys);
  const std::vector<int> columns = {0};
  backend->BeginBatch(batch, columns);
  table->Set(0, "short");
  table->Set(1, "a value of more than eight bytes");
  std::string_view short_value, long_value, other;
  ASSERT_TRUE(table->Get(0, &short_value));
  ASSERT_TRUE(table->Get(1, &long_value));
  for (int64_t row = 2; row < 4096; ++row) table->Set(row, short_value);
  for (int64_t row = 2; row < 4096; row += 2) table->Clear(row);
  EXPECT_EQ(short_value, "short");
  EXPECT_EQ(long_value, "a value of more than eight bytes");
  // A value may be set to a part of itself, in place or moving between the sizes.
  table->Set(1, long_value.substr(2));
  ASSERT_TRUE(table->Get(1, &long_value));
  EXPECT_EQ(long_value, "value of more than eight bytes");
  table->Set(1, long_value.substr(0, 5));
  ASSERT_TRUE(table->Get(1, &long_value));
  EXPECT_EQ(long_value, "value");
  EXPECT_TRUE(table->Get(4095, &other));
  ASSERT_TRUE(backend->EndBatch().ok());
}

TEST_P(StateBackendContract, ABatchThatUsesNoStateChangesNothing) {
  auto backend = Make();
  Bytes(*backend);
  Fixed(*backend);
  const RecordBatch batch = Integers({1, 2, 3});
  const std::vector<int> columns = {0};
  backend->BeginBatch(batch, columns);
  EXPECT_TRUE(backend->EndBatch().ok());
  EXPECT_TRUE(SnapshotOf(*backend).empty());
}

// 100,000 random keys of three shapes, a third of the values cleared, against a std::map.
TEST_P(StateBackendContract, RandomKeysBehaveAsInAMap) {
  enum Shape { kWord, kText, kTwoColumns };
  auto schema =
      std::make_shared<const Schema>(std::vector<Field>{{"n", Type::kInt64}, {"s", Type::kString}});
  for (const Shape shape : {kWord, kText, kTwoColumns}) {
    std::vector<int> columns = {0};
    if (shape == kText) columns = {1};
    if (shape == kTwoColumns) columns = {0, 1};
    std::mt19937_64 random(17 + shape);
    std::map<std::string, int64_t> counts;
    std::map<std::string, std::string> texts;
    auto backend = Make();
    FixedTable* fixed = Fixed(*backend, 16);
    KeyedBytes* bytes = Bytes(*backend);
    for (int batches = 0; batches < 100; ++batches) {
      // Given a batch of skewed keys, some null.
      BatchBuilder builder(schema);
      std::vector<std::string> names;
      for (int row = 0; row < 1000; ++row) {
        const uint64_t key = random() % (1 + random() % 30000);
        std::string name;
        if (key % 101 == 3) {
          builder.column(0).AppendNull();
          builder.column(1).AppendNull();
          name = "null";
        } else {
          const std::string text = "k" + std::string(key % 37, 'x') + std::to_string(key);
          builder.column(0).AppendInt64(static_cast<int64_t>(key * 0x9e3779b97f4a7c15));
          builder.column(1).AppendText(text);
          name = text;
        }
        names.push_back(name);
      }
      const RecordBatch batch = builder.Finish();
      // When each row counts, and sets, clears or only reads a text.
      backend->BeginBatch(batch, columns);
      std::vector<uint8_t*> values;
      ASSERT_TRUE(fixed->Load(&values).ok());
      for (int row = 0; row < 1000; ++row) {
        const std::string& name = names[row];
        ASSERT_EQ(++Count(values[row]), ++counts[name]);
        std::string_view value;
        const auto known = texts.find(name);
        ASSERT_EQ(bytes->Get(row, &value), known != texts.end());
        if (known != texts.end()) {
          ASSERT_EQ(value, known->second);
        }
        switch (random() % 3) {
          case 0:
            texts[name] = std::string(random() % 40, static_cast<char>('a' + row % 26));
            bytes->Set(row, texts[name]);
            break;
          case 1:
            texts.erase(name);
            bytes->Clear(row);
            break;
          default:
            break;
        }
      }
      ASSERT_TRUE(backend->EndBatch().ok());
      // Half way the state moves on to another backend.
      if (batches == 50) {
        auto next = Make();
        for (const KeyGroupState& chunk : SnapshotOf(*backend)) {
          const Status status = next->Restore(chunk.key_group, chunk.bytes);
          ASSERT_TRUE(status.ok()) << status;
        }
        backend = std::move(next);
        fixed = Fixed(*backend, 16);
        bytes = Bytes(*backend);
      }
    }
  }
}

// Batches of every kind come while a snapshot is written down in bits of every size; what is
// restored from it is what a std::map had at its begin. Tables grow, shrink and are made meanwhile.
TEST_P(StateBackendContract, ASnapshotHoldsWhatWasThereWhenItBegan) {
  auto schema =
      std::make_shared<const Schema>(std::vector<Field>{{"n", Type::kInt64}, {"s", Type::kString}});
  struct Held {
    std::map<std::string, int64_t> counts;
    std::map<std::string, std::string> texts;
  };
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<int> columns = {static_cast<int>(seed % 2)};
    const int width = seed % 3 == 0 ? 300 : 8 * static_cast<int>(1 + random() % 4);
    auto backend = Make({0, 2}, 2);
    FixedTable* fixed = Fixed(*backend, width);
    KeyedBytes* bytes = Bytes(*backend);
    Held held;
    // Rows of up to `keys` keys count, and set, clear or only read a text.
    auto batch_of = [&](int rows, uint64_t keys, uint64_t clears) {
      BatchBuilder builder(schema);
      std::vector<std::string> names;
      for (int row = 0; row < rows; ++row) {
        const uint64_t key = random() % keys;
        std::string text = std::string(key % 23, 'x') + std::to_string(key);
        if (key % 101 == 3) {
          builder.column(0).AppendNull();
          builder.column(1).AppendNull();
          text = "null";
        } else {
          builder.column(0).AppendInt64(static_cast<int64_t>(key * 0x9e3779b97f4a7c15));
          builder.column(1).AppendText(text);
        }
        names.push_back(text);
      }
      const RecordBatch batch = builder.Finish();
      backend->BeginBatch(batch, columns);
      std::vector<uint8_t*> values;
      if (random() % 4 != 0) {
        ASSERT_TRUE(fixed->Load(&values).ok());
        for (int row = 0; row < rows; ++row) {
          ASSERT_EQ(++Count(values[row]), ++held.counts[names[row]]);
        }
      }
      for (int row = 0; row < rows; ++row) {
        const uint64_t does = random() % 10;
        if (does < clears) {
          held.texts.erase(names[row]);
          bytes->Clear(row);
        } else if (does < 8) {
          held.texts[names[row]] =
              std::string(random() % 40, static_cast<char>('a' + random() % 26));
          bytes->Set(row, held.texts[names[row]]);
        }
      }
      ASSERT_TRUE(backend->EndBatch().ok());
    };
    batch_of(1 + static_cast<int>(random() % 6000), 1 + random() % 20000, 2);
    for (int snapshots = 0; snapshots < 4; ++snapshots) {
      // When it is written down between batches that come in turn,
      const Held begun = held;
      ASSERT_TRUE(backend->BeginSnapshot().ok());
      std::vector<KeyGroupState> chunks;
      const uint64_t bit = uint64_t{64} << random() % 14;
      const bool dropped = random() % 5 == 0;
      for (int turns = 0; backend->in_snapshot(); ++turns) {
        if (turns < 20) {
          batch_of(static_cast<int>(random() % 300), 1 + random() % 30000, random() % 9);
        }
        if (random() % 3 == 0) Fixed(*backend, 8, "made later " + std::to_string(snapshots));
        backend->ContinueSnapshot(static_cast<int64_t>(random() % bit));
        if (dropped && random() % 8 == 0) backend->AbortSnapshot();
        for (KeyGroupState& chunk : backend->TakeChunks()) chunks.push_back(std::move(chunk));
      }
      if (dropped) continue;
      // then it holds what there was before them.
      auto next = Make({0, 2}, 2);
      for (const KeyGroupState& chunk : chunks) {
        const Status status = next->Restore(chunk.key_group, chunk.bytes);
        ASSERT_TRUE(status.ok()) << status << " seed " << seed;
      }
      Held found;
      for (const auto& [at, value] : ContentsOf(chunks, 2)) {
        // 0x00 is null; else 0x01 and a number, or 0x01, a length of four bytes and the text.
        const std::string& key = std::get<2>(at);
        std::string name = "null";
        if (key.size() > 1 && columns[0] == 1) name = key.substr(5);
        if (key.size() > 1 && columns[0] == 0) {
          uint64_t number;
          std::memcpy(&number, key.data() + 1, sizeof(number));
          number *= 0xf1de83e19937733d;  // the inverse of the factor above
          name = std::string(number % 23, 'x') + std::to_string(number);
        }
        if (std::get<1>(at) == "bytes") {
          found.texts[name] = value;
        } else {
          std::memcpy(&found.counts[name], value.data(), sizeof(int64_t));
          ASSERT_EQ(value.size(), static_cast<size_t>(width));
        }
      }
      ASSERT_EQ(found.counts, begun.counts) << "seed " << seed;
      ASSERT_EQ(found.texts, begun.texts) << "seed " << seed;
      // A restored one goes on as the same.
      ASSERT_EQ(ContentsOf(SnapshotOf(*next), 2), ContentsOf(chunks, 2));
    }
  }
}

TEST_P(StateBackendContract, AKeyGroupOfManyKeysComesInSeveralChunks) {
  auto backend = Make({0, 1}, 1);
  FixedTable* table = Fixed(*backend);
  constexpr int64_t kKeys = 200000;
  std::vector<std::optional<int64_t>> keys;
  for (int64_t key = 0; key < kKeys; ++key) keys.push_back(key);
  Add(*backend, table, Integers(keys));
  const auto chunks = SnapshotOf(*backend);
  EXPECT_GT(chunks.size(), 1u);
  for (const KeyGroupState& chunk : chunks) EXPECT_LT(chunk.bytes.size(), 1u << 20);
  auto next = Make({0, 1}, 1);
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    ASSERT_TRUE(next->Restore(0, chunk->bytes).ok());
  }
  EXPECT_EQ(Add(*next, Fixed(*next), Integers(keys)), Seen(kKeys, 2));
}

TEST_P(StateBackendContract, StateMovesToOtherRangesOfKeyGroups) {
  // Given 10,000 keys counted by two subtasks, each one that many times as its last digit says.
  std::map<int, std::vector<KeyGroupState>> chunks;
  for (int subtask = 0; subtask < 2; ++subtask) {
    const KeyGroupRange range = KeyGroupsOf(subtask, kMaxParallelism, 2);
    auto backend = Make(range);
    FixedTable* table = Fixed(*backend);
    for (int digit = 0; digit < 10; ++digit) {
      std::vector<std::optional<int64_t>> keys;
      for (int64_t key = 0; key < 10000; ++key) {
        std::vector<uint64_t> hash;
        HashKeys(Integers({key}), std::vector<int>{0}, &hash);
        if (key % 10 >= digit && range.Contains(KeyGroupOf(hash[0], kMaxParallelism))) {
          keys.push_back(key);
        }
      }
      Add(*backend, table, Integers(keys));
    }
    for (const KeyGroupState& chunk : SnapshotOf(*backend)) {
      EXPECT_TRUE(range.Contains(chunk.key_group));
      chunks[chunk.key_group].push_back(chunk);
    }
  }
  EXPECT_EQ(chunks.size(), 128u);
  // When three subtasks take it over.
  int64_t keys_found = 0;
  for (int subtask = 0; subtask < 3; ++subtask) {
    const KeyGroupRange range = KeyGroupsOf(subtask, kMaxParallelism, 3);
    auto backend = Make(range);
    FixedTable* table = subtask == 0 ? Fixed(*backend) : nullptr;  // before or after: both do
    for (int group = range.begin; group < range.end; ++group) {
      for (const KeyGroupState& chunk : chunks.at(group)) {
        ASSERT_TRUE(backend->Restore(group, chunk.bytes).ok());
      }
    }
    if (table == nullptr) table = Fixed(*backend);
    // Then each finds the counts of its keys, and a new snapshot holds the same.
    std::vector<KeyGroupState> taken;
    for (int group = range.begin; group < range.end; ++group) {
      taken.insert(taken.end(), chunks.at(group).begin(), chunks.at(group).end());
    }
    EXPECT_EQ(ContentsOf(SnapshotOf(*backend)), ContentsOf(taken));
    std::vector<std::optional<int64_t>> keys;
    std::vector<int64_t> expected;
    for (int64_t key = 0; key < 10000; ++key) {
      std::vector<uint64_t> hash;
      HashKeys(Integers({key}), std::vector<int>{0}, &hash);
      if (!range.Contains(KeyGroupOf(hash[0], kMaxParallelism))) continue;
      keys.push_back(key);
      expected.push_back(key % 10 + 2);
    }
    EXPECT_EQ(Add(*backend, table, Integers(keys)), expected);
    keys_found += static_cast<int64_t>(keys.size());
  }
  EXPECT_EQ(keys_found, 10000);
}

TEST_P(StateBackendContract, EqualStateIsOneSetWhateverItsHistory) {
  // Given one backend that saw keys forwards, and one that saw them backwards between others
  // whose values were cleared again.
  auto forwards = Make({0, 4}, 4);
  auto backwards = Make({0, 4}, 4);
  KeyedBytes* to = Bytes(*forwards);
  KeyedBytes* fro = Bytes(*backwards);
  const std::vector<int> columns = {0};
  for (int i = 0; i < 3000; ++i) {
    const RecordBatch one = Texts({"key number " + std::to_string(i)});
    forwards->BeginBatch(one, columns);
    to->Set(0, "value " + std::to_string(i));
    ASSERT_TRUE(forwards->EndBatch().ok());
  }
  for (int i = 5999; i >= 0; --i) {
    const RecordBatch one = Texts({"key number " + std::to_string(i)});
    backwards->BeginBatch(one, columns);
    fro->Set(0, "value " + std::to_string(i));
    ASSERT_TRUE(backwards->EndBatch().ok());
  }
  for (int i = 3000; i < 6000; ++i) {
    const RecordBatch one = Texts({"key number " + std::to_string(i)});
    backwards->BeginBatch(one, columns);
    fro->Clear(0);
    ASSERT_TRUE(backwards->EndBatch().ok());
  }
  const auto a = SnapshotOf(*forwards);
  const auto b = SnapshotOf(*backwards);
  EXPECT_EQ(ContentsOf(a, 4).size(), 3000u);
  EXPECT_EQ(ContentsOf(a, 4), ContentsOf(b, 4));
}

TEST_P(StateBackendContract, TablesThatNobodyAskedForStayInTheState) {
  auto backend = Make({0, 1}, 1);
  Add(*backend, Fixed(*backend, 8, "old"), Integers({1, 2}));
  const auto before = SnapshotOf(*backend);
  auto next = Make({0, 1}, 1);
  ASSERT_TRUE(next->Restore(0, before[0].bytes).ok());
  EXPECT_EQ(SnapshotOf(*next)[0].bytes, before[0].bytes);
}

TEST_P(StateBackendContract, ATableOfAnotherKindWidthOrLayoutIsRefusedByName) {
  auto backend = Make({0, 1}, 1);
  Add(*backend, Fixed(*backend, 8, "flights"), Integers({1}));
  const std::string chunk = SnapshotOf(*backend)[0].bytes;
  auto expect_refused = [&](auto ask) {
    // Whichever comes first, the restore or the table.
    auto before = Make({0, 1}, 1);
    ASSERT_TRUE(ask(*before).ok());
    const Status status = before->Restore(0, chunk);
    EXPECT_EQ(status.domain(), ErrorDomain::kUser);
    EXPECT_NE(status.message().find("'flights'"), std::string::npos) << status;
    EXPECT_TRUE(SnapshotOf(*before).empty());
    auto after = Make({0, 1}, 1);
    ASSERT_TRUE(after->Restore(0, chunk).ok());
    const Status asked = ask(*after);
    EXPECT_EQ(asked.domain(), ErrorDomain::kUser);
    EXPECT_NE(asked.message().find("'flights'"), std::string::npos) << asked;
  };
  expect_refused([](StateBackend& b) { return b.BytesTable("flights").status(); });
  expect_refused(
      [](StateBackend& b) { return b.AccumulatorTable("flights", 16, "count").status(); });
  expect_refused([](StateBackend& b) { return b.AccumulatorTable("flights", 8, "sum").status(); });
  EXPECT_TRUE(backend->AccumulatorTable("flights", 8, "count").ok());
}

TEST_P(StateBackendContract, DamagedStateIsRefusedAndNothingIsTakenIn) {
  auto backend = Make({0, 1}, 1);
  KeyedBytes* bytes = Bytes(*backend);
  const RecordBatch batch = Texts({"a", "a key that is long", std::nullopt});
  const std::vector<int> columns = {0};
  backend->BeginBatch(batch, columns);
  for (int row = 0; row < 3; ++row) bytes->Set(row, "value");
  ASSERT_TRUE(backend->EndBatch().ok());
  Add(*backend, Fixed(*backend), batch);
  const std::vector<KeyGroupState> chunks = SnapshotOf(*backend);
  const std::string chunk = chunks[0].bytes;

  auto next = Make({0, 1}, 1);
  for (size_t size = 0; size < chunk.size(); ++size) {
    ASSERT_EQ(next->Restore(0, chunk.substr(0, size)).code(), StatusCode::kDataLoss) << size;
  }
  ASSERT_EQ(next->Restore(0, chunk + '\0').code(), StatusCode::kDataLoss);
  for (size_t bit = 0; bit < chunk.size() * 8; ++bit) {
    std::string flipped = chunk;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_EQ(next->Restore(0, flipped).code(), StatusCode::kDataLoss) << bit;
  }
  EXPECT_TRUE(SnapshotOf(*next).empty());
  for (const KeyGroupState& each : chunks) EXPECT_TRUE(next->Restore(0, each.bytes).ok());
  EXPECT_EQ(ContentsOf(SnapshotOf(*next), 1), ContentsOf(chunks, 1));
  // A key that is there already: the files of a checkpoint do not fit together.
  EXPECT_EQ(next->Restore(0, chunk).code(), StatusCode::kDataLoss);
}

TEST_P(StateBackendContract, StateOfAnotherMaxParallelismOrKeyGroupIsRefused) {
  auto backend = Make();
  Add(*backend, Fixed(*backend), Integers({1}));
  const auto chunks = SnapshotOf(*backend);
  ASSERT_EQ(chunks.size(), 1u);
  auto other = Make({0, 256}, 256);
  EXPECT_EQ(other->Restore(chunks[0].key_group, chunks[0].bytes).domain(), ErrorDomain::kUser);
  auto same = Make();
  EXPECT_EQ(same->Restore((chunks[0].key_group + 1) % 128, chunks[0].bytes).code(),
            StatusCode::kDataLoss);
}

TEST_P(StateBackendContract, ARowOfAForeignKeyGroupIsAnErrorOfOurs) {
  std::vector<uint64_t> hash;
  const RecordBatch batch = Integers({42});
  const std::vector<int> columns = {0};
  HashKeys(batch, columns, &hash);
  const int group = KeyGroupOf(hash[0], kMaxParallelism);
  const KeyGroupRange foreign = group < 64 ? KeyGroupRange{64, 128} : KeyGroupRange{0, 64};
  auto backend = Make(foreign);
  FixedTable* fixed = Fixed(*backend);
  KeyedBytes* bytes = Bytes(*backend);
  backend->BeginBatch(batch, columns);
  std::vector<uint8_t*> values;
  std::string_view value;
  EXPECT_EQ(fixed->Load(&values).code(), StatusCode::kInternal);
  bytes->Set(0, "x");
  EXPECT_FALSE(bytes->Get(0, &value));
  EXPECT_EQ(backend->EndBatch().code(), StatusCode::kInternal);
}

TEST_P(StateBackendContract, WrongUseOfStateIsReportedWhenTheBatchEnds) {
  const RecordBatch batch = Integers({42});
  const std::vector<int> columns = {0};
  std::string_view value;
  for (const int64_t row : {int64_t{-1}, int64_t{1}, std::numeric_limits<int64_t>::max()}) {
    auto backend = Make();
    KeyedBytes* bytes = Bytes(*backend, "worst");
    backend->BeginBatch(batch, columns);
    bytes->Set(row, "x");
    EXPECT_FALSE(bytes->Get(row, &value));
    bytes->Clear(row);
    const Status status = backend->EndBatch();
    EXPECT_EQ(status.domain(), ErrorDomain::kUser);
    EXPECT_NE(status.message().find("'worst'"), std::string::npos) << status;
    EXPECT_FALSE(backend->Snapshot().ok());
  }
  auto backend = Make();
  KeyedBytes* bytes = Bytes(*backend, "worst");
  EXPECT_FALSE(bytes->Get(0, &value));
  bytes->Set(0, "x");
  EXPECT_EQ(backend->Snapshot().status().domain(), ErrorDomain::kUser);
}

TEST_P(StateBackendContract, MemoryIsGivenBackWhenValuesAreCleared) {
  auto backend = Make({0, 1}, 1);
  KeyedBytes* bytes = Bytes(*backend);
  const std::vector<int> columns = {0};
  const std::string value(1000, 'v');
  int64_t peak = 0;
  // Ever new long keys, one alive at a time: a window that moves on.
  for (int i = 0; i < 20000; ++i) {
    const RecordBatch batch = Texts({std::string(100, 'k') + std::to_string(i)});
    backend->BeginBatch(batch, columns);
    bytes->Set(0, value);
    bytes->Clear(0);
    ASSERT_TRUE(backend->EndBatch().ok());
    peak = std::max(peak, backend->bytes());
  }
  EXPECT_LT(peak, 100 << 10);
  const int64_t empty = backend->bytes();
  const RecordBatch batch = Texts({"key"});
  backend->BeginBatch(batch, columns);
  bytes->Set(0, value);
  ASSERT_TRUE(backend->EndBatch().ok());
  EXPECT_GE(backend->bytes(), empty + 1000);
}

INSTANTIATE_TEST_SUITE_P(Backends, StateBackendContract, testing::Values("memory"));

}  // namespace
}  // namespace weir
