// Goal: whatever stands in a file, the good rows come out, and each bad one ends the job with a
// message from which one finds it, or is counted once, or becomes a dead letter of identical bytes;
// also when the source starts again behind any row, or its process dies at any operation.
// Method: texts written a row at a time, with what becomes of each; dead letters are read back with
// simdjson's DOM parser and a base64 decoder of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>

#include "common/base/concat.h"
#include "tests/support/connector_contexts.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"
#include "worker/connectors/files/files_committer.h"
#include "worker/connectors/files/files_source.h"

namespace weir {
namespace {

using testing::IsEmpty;

using namespace std::string_literals;  // texts with NUL

// One row of a text: what is read of it, or why it is not.
struct Piece {
  std::string bytes;
  std::string row;     // "a|s|f"; empty: no row
  std::string reason;  // of a bad one; empty: none
};
Piece Good(std::string bytes, std::string row) { return {std::move(bytes), std::move(row), ""}; }
Piece Bad(std::string bytes, std::string reason) { return {std::move(bytes), "", reason}; }
Piece Nothing(std::string bytes) { return {std::move(bytes), "", ""}; }

struct Text {
  std::string name;
  std::string format;
  std::vector<Piece> pieces;
};
void PrintTo(const Text& text, std::ostream* out) { *out << text.name; }

// Compared one by one, and of long ones the beginnings are shown.
void ExpectSame(const std::vector<std::string>& actual, const std::vector<std::string>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    EXPECT_TRUE(actual[i] == expected[i]) << i << "\n"
                                          << actual[i].substr(0, 300) << "\nexpected\n"
                                          << expected[i].substr(0, 300);
  }
}

std::string Repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

const std::string kNoInt64 =
    " is no INT64: expected an integer from -9223372036854775808 to 9223372036854775807";
const std::string kNoFloat64 =
    " is no FLOAT64: expected a number, \"NaN\", \"Infinity\" or \"-Infinity\"";

std::vector<Text> Texts() {
  const std::string nested =
      "{\"z\":" + std::string(100'000, '[') + std::string(100'000, ']') + ",\"a\":1}\n";
  std::string many_fields = "{";
  for (int i = 0; i < 10'000; ++i) many_fields += Concat("\"field-", i, "\":", i, ",");
  many_fields += "\"a\":31}\n";
  return {
      {"json",
       "json",
       {Nothing("\xEF\xBB\xBF"),
        Good("{\"a\":1,\"s\":\"x\"}\n", "1|[x]|null"),
        Bad("{\"a\":2,\"s\":\"cut\n",
            "the line is not valid JSON: A string is opened, but never closed: "
            "'{\"a\":2,\"s\":\"cut'"),
        Bad("{\"a\":2,\"s\":\"cut\"\n",
            "the line is not valid JSON: JSON document ended early in the middle of an object or "
            "array: '{\"a\":2,\"s\":\"cut\"'"),
        Bad("{\"a\":3,\"s\":7}\n", "column 's': '7' is no STRING: expected a text in valid UTF-8"),
        Bad("{\"a\":4,\"s\":\"\xff\"}\n",
            "the line is not valid JSON: The input is not valid UTF-8: "
            "'{\"a\":4,\"s\":\"\\xff\"}'"),
        Bad("{\"a\":5,\"s\":\"\\ud800\"}\n",
            "the line is not valid JSON: Problem while parsing a string: "
            "'{\"a\":5,\"s\":\"\\ud800\"}'"),
        Bad("{\"a\":6}{\"a\":7}\n",
            "the line is not valid JSON: text stands behind the object: '{\"a\":6}{\"a\":7}'"),
        Nothing("\n"),
        Nothing("  \t \r\n"),
        Good("{\"a\":8}\r\n", "8|null|null"),
        Bad("\xEF\xBB\xBF{\"a\":9}\n", "the line is no JSON object: '\\xef\\xbb\\xbf{\"a\":9}'"),
        Good("{\"a\":9007199254740993}\n", "9007199254740993|null|null"),
        Good("{\"a\":9223372036854775807}\n", "9223372036854775807|null|null"),
        Good("{\"a\":-9223372036854775808}\n", "-9223372036854775808|null|null"),
        Bad("{\"a\":9223372036854775808}\n", "column 'a': '9223372036854775808'" + kNoInt64),
        Bad("{\"a\":18446744073709551615}\n", "column 'a': '18446744073709551615'" + kNoInt64),
        Bad("{\"a\":1e2}\n", "column 'a': '1e2'" + kNoInt64),
        Bad("{\"f\":1e400}\n", "column 'f': '1e400'" + kNoFloat64),
        Bad("{\"f\":NaN}\n", "column 'f': 'NaN'" + kNoFloat64),
        Good("{\"f\":\"NaN\"}\n", "null|null|nan"),
        Good("{\"f\":1e-400}\n", "null|null|0"),
        Good("{\"a\":10,\"a\":11,\"s\":\"first\",\"s\":7}\n", "10|[first]|null"),
        Bad(nested, "the line is not valid JSON: it is nested too deep: '{\"z\":" +
                        std::string(59, '[') + "\u2026'"),
        Good(many_fields, "31|null|null"),
        Bad("{\"s\":\"a\0b\"}\n"s,
            "the line is not valid JSON: Within strings, some characters must be escaped, we found "
            "unescaped characters: '{\"s\":\"a\\x00b\"}'"),
        Bad("\0\n"s, "the line is no JSON object: '\\x00'"),
        Good("{\"s\":\"a\\u0000b\"}\n", "null|[a\0b]|null"s),
        Bad("{\"s\":\"last\"",
            "the line is not valid JSON: JSON document ended early in the middle of an object or "
            "array: '{\"s\":\"last\"'")}},
      {"csv",
       "csv",
       {Nothing("\xEF\xBB\xBF"
                "a,s,f\r\n"),
        Good("1,x,0.5\r\n", "1|[x]|0.5"),
        Good("2,\"say \"\"x\"\", y\",\n", "2|[say \"x\", y]|null"),
        Good("3,\"line 1\r\nline 2\n\n\",NaN\n", "3|[line 1\r\nline 2\n\n]|nan"),
        Bad("\n", "the row has 1 fields: expected 3"),
        Bad("  \n", "the row has 1 fields: expected 3"),
        Bad("4,x\n", "the row has 2 fields: expected 3"),
        Bad("five,x,\n", "column 'a': 'five'" + kNoInt64),
        Bad("6,\xff,\n", "the row is not valid UTF-8: '6,\\xff,\\x0a'"),
        Bad("7,\xed\xa0\x80,\n", "the row is not valid UTF-8: '7,\\xed\\xa0\\x80,\\x0a'"),
        Good("8,a\0b,\n"s, "8|[a\0b]|null"s),
        Bad("\xEF\xBB\xBF"
            "9,x,\n",
            "column 'a': '\\xef\\xbb\\xbf"
            "9'" +
                kNoInt64),
        Good("9007199254740993,,\n", "9007199254740993|null|null"),
        Good("9223372036854775807,\"\",\n", "9223372036854775807|[]|null"),
        Good("-9223372036854775808,,\n", "-9223372036854775808|null|null"),
        Bad("9223372036854775808,,\n", "column 'a': '9223372036854775808'" + kNoInt64),
        Bad("18446744073709551615,,\n", "column 'a': '18446744073709551615'" + kNoInt64),
        Bad("10,x,1e400\n", "column 'f': '1e400'" + kNoFloat64),
        Good("11,x,1e-400\n", "11|[x]|0"),
        Good("12,x,-Infinity\n", "12|[x]|-inf"),
        Bad(Repeated("1,", 9'999) + "1\n", "the row has 10000 fields: expected 3"),
        Bad("13,\"x\"y,1\n", "text stands behind a closing quote"),
        Bad("14,x\"y,1\n", "a quote stands in a field that does not begin with one"),
        Bad("15,\"never closed,1\n", "text stands behind a closing quote"),
        Good("16,\"y\",1\n", "16|[y]|1"),
        Bad("17,\"never closed,1\n", "text stands behind a closing quote"),
        Good("18,z,1\n", "18|[z]|1"),
        Bad("19,\"last", "a quote is not closed")}},
  };
}

Schema RowSchema() {
  return Schema({{"a", Type::kInt64}, {"s", Type::kString}, {"f", Type::kFloat64}});
}

std::vector<std::string> Rows(const CollectingOutput& output) {
  std::vector<std::string> rows;
  for (const RecordBatch& batch : output.batches()) {
    for (int64_t row = 0; row < batch.rows(); ++row) {
      const auto& a = batch.column(0);
      const auto& s = batch.column(1);
      const auto& f = batch.column(2);
      std::ostringstream text;
      text << (a.IsNull(row) ? "null" : std::to_string(a.Int64(row))) << '|';
      text << (s.IsNull(row) ? "null" : Concat('[', s.Text(row), ']')) << '|';
      if (f.IsNull(row)) {
        text << "null";
      } else {
        text << f.Float64(row);
      }
      rows.push_back(std::move(text).str());
    }
  }
  return rows;
}

std::string FromBase64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    have += 6;
    if (have < 8) continue;
    have -= 8;
    bytes.push_back(static_cast<char>(bits >> have & 0xff));
  }
  return bytes;
}

// "line offset length reason: bytes", and text is the bytes or null.
std::vector<std::string> Letters(const MemoryFileSystem& files) {
  std::vector<std::string> letters;
  simdjson::dom::parser parser;
  for (const std::string& path : files.Files("/dead")) {
    if (path.starts_with("/dead/.")) continue;
    EXPECT_TRUE(path.starts_with("/dead/job-in-0-") && path.ends_with(".jsonl")) << path;
    std::istringstream in(files.Bytes(path));
    for (std::string line; std::getline(in, line);) {
      simdjson::dom::element letter = parser.parse(line);
      EXPECT_EQ(std::string_view(letter["source"]), "in");
      EXPECT_EQ(std::string_view(letter["file"]), "/data/a");
      std::string bytes = FromBase64(std::string_view(letter["bytes"]));
      if (!letter["text"].is_null()) {
        EXPECT_EQ(std::string_view(letter["text"]), bytes);
      }
      letters.push_back(Concat(int64_t(letter["line"]), ' ', int64_t(letter["offset"]), ' ',
                               int64_t(letter["length"]), ' ', std::string_view(letter["reason"]),
                               ": ", bytes));
    }
  }
  return letters;
}

Config ConfigOf(const std::string& format, const std::string& bad_data) {
  return Config{{"path", "/data/a"},
                {"format", format},
                {"schema", ConfigMembers{{"a", "INT64"}, {"s", "STRING"}, {"f", "FLOAT64"}}},
                {"files", ConfigList{"/data/a"}},
                {"bad_data", bad_data},
                {"dead_letter_path", "/dead"}};
}

// One generation of the source in a process of its own.
class Process {
 public:
  Process(const std::string& format, const std::string& bad_data, uint64_t generation,
          std::shared_ptr<MemoryFileSystem::Disk> disk = nullptr, bool resumes = false)
      : files(executor, std::move(disk)),
        context(executor, files, ConfigOf(format, bad_data), RowSchema(), 0, 1),
        committer_context(executor, files, ConfigOf(format, bad_data)) {
    context.generation_ = Generation(generation);
    // From the newest: nothing was published later.
    if (resumes) context.resumed_from_ = CheckpointId(1'000'000);
    committer_context.uid_ = "in";
    committer.Open(committer_context);
  }

  Status Open(const std::vector<SplitState>& restored) { return source.Open(context, restored); }
  // Once, waiting for what it waits for.
  StatusOr<PollResult> Poll() {
    while (true) {
      context.woken_ = false;
      StatusOr<PollResult> result = source.Poll(output);
      if (!result.ok() || *result != PollResult::kIdle) return result;
      if (!executor.RunUntil([&] { return context.woken_ || files.killed(); })) {
        return InternalError("idle, and nothing will wake it");
      }
      if (files.killed()) return PollResult::kIdle;
    }
  }
  template <typename T>
  std::optional<T> Wait(std::function<void(std::function<void(T)>)> start) {
    auto answer = std::make_shared<std::optional<T>>();
    start([answer](T value) { answer->emplace(std::move(value)); });
    executor.RunUntil([&] { return answer->has_value() || files.killed(); }, 20'000'000);
    return *answer;
  }
  std::optional<StatusOr<std::vector<Committable>>> Prepare(uint64_t checkpoint) {
    return Wait<StatusOr<std::vector<Committable>>>(
        [&](auto done) { source.committable_owner()->Prepare(CheckpointId(checkpoint), done); });
  }
  std::optional<Status> Publish(uint64_t checkpoint) {
    return Wait<Status>(
        [&](auto done) { source.committable_owner()->Publish(CheckpointId(checkpoint), done); });
  }

  ManualExecutor executor;
  MemoryFileSystem files;
  FakeSourceContext context;
  FakeCommitterContext committer_context;
  FilesCommitter committer{FilesCommitter::Kind::kDeadLetters};
  CollectingOutput output;
  FilesSource source;  // goes first
};

class BadDataTest : public testing::TestWithParam<Text> {
 protected:
  BadDataTest() {
    int64_t line = 1;
    for (const Piece& piece : GetParam().pieces) {
      if (!piece.row.empty()) good_.push_back(piece.row);
      if (!piece.reason.empty()) {
        letters_.push_back(Concat(line, ' ', text_.size(), ' ', piece.bytes.size(), ' ',
                                  piece.reason, ": ", piece.bytes));
        messages_.push_back(Concat("files.source 'in': /data/a line ", line, " (offset ",
                                   text_.size(), "): ", piece.reason));
      }
      text_ += piece.bytes;
      line += std::count(piece.bytes.begin(), piece.bytes.end(), '\n');
    }
  }

  std::string text_;
  std::vector<std::string> good_, letters_, messages_;
};

TEST_P(BadDataTest, FailNamesThePlaceOfEachBadRow) {
  // Begun anew behind each bad row, so that each is the first one once.
  int64_t line = 1;
  size_t offset = 0;
  std::vector<std::string> messages;
  for (const Piece& piece : GetParam().pieces) {
    if (!piece.reason.empty()) {
      Process process(GetParam().format, "fail", 1);
      process.files.PutFile("/data/a", text_);
      ASSERT_TRUE(process.Open({{"/data/a", Concat(offset, ' ', line)}}).ok());
      StatusOr<PollResult> result = process.Poll();
      while (result.ok() && *result == PollResult::kRows) result = process.Poll();
      messages.push_back(result.status().message());
      EXPECT_EQ(result.status().domain(), ErrorDomain::kUser);
      EXPECT_EQ(process.source.committable_owner(), nullptr);
    }
    offset += piece.bytes.size();
    line += std::count(piece.bytes.begin(), piece.bytes.end(), '\n');
  }
  ExpectSame(messages, messages_);
}

TEST_P(BadDataTest, DropCountsEachBadRowOnceAlsoAcrossRestartsBehindEachRow) {
  for (const int64_t rows_max : {1, 3, 4096}) {
    std::vector<std::string> rows;
    std::vector<SplitState> positions;
    int64_t dropped = 0;
    for (bool ended = false; !ended;) {
      Process process(GetParam().format, "drop", 1);
      process.files.PutFile("/data/a", text_);
      process.context.options_.batch_rows_max = rows_max;
      ASSERT_TRUE(process.Open(positions).ok());
      StatusOr<PollResult> result = process.Poll();
      ASSERT_TRUE(result.ok()) << result.status();
      ended = *result == PollResult::kEnded;
      for (std::string& row : Rows(process.output)) rows.push_back(std::move(row));
      dropped += process.context.dropped_;
      positions = process.source.SnapshotPositions();
    }
    ExpectSame(rows, good_);
    EXPECT_EQ(dropped, static_cast<int64_t>(letters_.size()));
  }
}

TEST_P(BadDataTest, DeadLettersAreTheBytesAndThePlaceOfEachBadRow) {
  Process process(GetParam().format, "dead_letter", 1);
  process.files.PutFile("/data/a", text_);
  ASSERT_TRUE(process.Open({}).ok());
  while (true) {
    StatusOr<PollResult> result = process.Poll();
    ASSERT_TRUE(result.ok()) << result.status();
    if (*result == PollResult::kEnded) break;
  }
  ExpectSame(Rows(process.output), good_);
  EXPECT_EQ(process.context.dropped_, static_cast<int64_t>(letters_.size()));
  ASSERT_TRUE(process.Prepare(5)->ok());
  EXPECT_THAT(Letters(process.files), IsEmpty());  // not before the checkpoint completed
  ASSERT_TRUE(process.Publish(5)->ok());
  ExpectSame(Letters(process.files), letters_);
}

// A checkpoint behind each row, and a death of the process at each operation; what a coordinator
// would do then: settle what the newest completed checkpoint lists, and start again from there.
TEST_P(BadDataTest, DeadLettersAppearOnceWhateverOperationTheProcessDiesAt) {
  for (int64_t die_at = 1;; ++die_at) {
    std::vector<SplitState> positions;      // of the newest completed checkpoint
    std::vector<Committable> committables;  // that it lists
    uint64_t completed = 0;
    int64_t good = 0;  // rows of completed checkpoints
    int64_t dropped = 0;
    bool died = false;
    int64_t operations = 0;
    std::shared_ptr<MemoryFileSystem::Disk> disk;
    for (uint64_t generation = 1;; ++generation) {
      Process process(GetParam().format, "dead_letter", generation, disk, completed > 0);
      disk = process.files.disk();
      process.files.PutFile("/data/a", text_);
      process.context.options_.batch_rows_max = 7;
      if (generation > 1) {
        ASSERT_TRUE(
            process.Wait<Status>([&](auto done) { process.committer.Commit(committables, done); })
                ->ok());
        ASSERT_TRUE(process
                        .Wait<Status>([&](auto done) {
                          process.committer.AbortOthers(Generation(generation), committables, done);
                        })
                        ->ok());
        for (const std::string& path : process.files.Files("/dead")) {
          EXPECT_TRUE(path == "/dead/.weir-sink" || !path.starts_with("/dead/.")) << path;
        }
      } else {
        process.files.set_before([&](std::string_view, const std::string&) {
          if (++operations == die_at) process.files.Kill();
          return Status();
        });
      }
      ASSERT_TRUE(process.Open(positions).ok());
      bool ended = false;
      while (!ended && !process.files.killed()) {
        StatusOr<PollResult> result = process.Poll();
        if (process.files.killed()) break;
        ASSERT_TRUE(result.ok()) << result.status();
        ended = *result == PollResult::kEnded;
        std::vector<SplitState> cut = process.source.SnapshotPositions();
        const int64_t cut_good = process.output.rows();
        const int64_t cut_dropped = process.context.dropped_;
        auto prepared = process.Prepare(completed + 1);
        if (!prepared.has_value()) break;
        ASSERT_TRUE(prepared->ok()) << prepared->status();
        positions = std::move(cut);
        committables = **std::move(prepared);
        ++completed;
        good += cut_good;
        dropped += cut_dropped;
        process.output = CollectingOutput();
        process.context.dropped_ = 0;
        if (!process.Publish(completed).has_value()) break;
      }
      if (!process.files.killed()) {
        SCOPED_TRACE(Concat("died at operation ", die_at));
        ExpectSame(Letters(process.files), letters_);
        EXPECT_EQ(good, static_cast<int64_t>(good_.size()));
        EXPECT_EQ(dropped, static_cast<int64_t>(letters_.size()));
        break;
      }
      died = true;
      process.source.Close();
    }
    if (!died) {
      EXPECT_GT(die_at, 30);
      break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BadDataTest, testing::ValuesIn(Texts()),
                         [](const auto& info) { return info.param.name; });

TEST(DeadLettersTest, ARowThatIsTooLongIsALetterWithoutItsBytes) {
  Process process("json", "dead_letter", 1);
  std::string text = "{\"a\":1}\n" + std::string(kTextRowBytesMax + 7, 'x') + "\n{\"a\":2}\n";
  process.files.PutFile("/data/a", text);
  ASSERT_TRUE(process.Open({}).ok());
  while (*process.Poll() != PollResult::kEnded) {
  }
  EXPECT_THAT(Rows(process.output), testing::ElementsAre("1|null|null", "2|null|null"));
  ASSERT_TRUE(process.Prepare(1)->ok());
  ASSERT_TRUE(process.Publish(1)->ok());
  EXPECT_EQ(process.files.Bytes("/dead/job-in-0-1-0.jsonl"),
            "{\"source\":\"in\",\"file\":\"/data/a\",\"line\":2,\"offset\":8,\"length\":67108872,"
            "\"reason\":\"a row is longer than 67108864 bytes\",\"text\":null,\"bytes\":null}\n");
}

TEST(DeadLettersTest, WhatIsInFlightIsBounded) {
  Process process("json", "dead_letter", 1);
  DeadLetters letters(process.context, "/dead");
  ASSERT_TRUE(process.Wait<Status>([&](auto done) { letters.Open(done); })->ok());
  const std::string row(1 << 20, 'x');
  int added = 0;
  while (letters.parts().Ready()) {
    letters.Add({.file = "/data/a", .length = 1 << 20, .reason = "why", .bytes = row});
    ASSERT_LT(++added, 100);
  }
  // Past 8 MiB of whole pages: 1 MiB is 1,398,104 bytes of base64, six of them are 16 bytes more.
  EXPECT_EQ(added, 7);
  process.context.woken_ = false;
  process.executor.RunAll();
  EXPECT_TRUE(process.context.woken_);
  EXPECT_TRUE(letters.parts().Ready());
}

// Else a generation that goes on from this checkpoint would wait for a mark that never was.
TEST(DeadLettersTest, NoCheckpointIsAcknowledgedBeforeTheDirectoryIsMarked) {
  Process process("json", "dead_letter", 1);
  process.files.PutFile("/data/a", "{}\n");
  ASSERT_TRUE(process.Open({}).ok());
  EXPECT_TRUE(process.Prepare(1)->ok());
  EXPECT_TRUE(process.files.Exists("/dead/.weir-sink"));

  Process without("json", "dead_letter", 1);
  without.files.PutFile("/data/a", "{}\n");
  without.files.set_before([](std::string_view operation, const std::string&) {
    return operation == "link" ? UnavailableError("no link yet") : Status();
  });
  ASSERT_TRUE(without.Open({}).ok());
  EXPECT_FALSE(without.Prepare(1).has_value());
  EXPECT_FALSE(without.files.Exists("/dead/.weir-sink"));
}

TEST(DeadLettersTest, ADirectoryOfSomebodyElseIsRefused) {
  Process process("json", "dead_letter", 1);
  process.files.PutFile("/data/a", "{}\n");
  process.files.PutFile("/dead/.weir-sink", "weir-sink 2\nfeed\nother\nout\nmaker\n");
  ASSERT_TRUE(process.Open({}).ok());
  EXPECT_EQ(process.Poll().status().message(),
            "dead letters: files.source 'in': /dead belongs to sink 'out' of job other (feed), not "
            "to job job (0123456789abcdef0123456789abcdef)");
}

}  // namespace
}  // namespace weir
