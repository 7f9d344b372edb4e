// What a worker sees at submission: files, headers, directories. Refused: place, value, what is
// valid.
#include "worker/connectors/files/files_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/support/manual_executor.h"
#include "tests/support/memory_file_system.h"
#include "worker/connectors/files/file_names.h"
#include "worker/connectors/files/files_glob.h"

namespace weir {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FilesChecksTest : public testing::Test {
 protected:
  FilesChecksTest() : files_(executor_) { files_.PutDirectory("/data"); }

  template <typename T>
  T Run(Co<T> flow) {
    std::optional<T> result;
    CoScope scope;
    scope.Spawn([](Co<T> flow, std::optional<T>* result) -> Co<void> {
      result->emplace(co_await std::move(flow));
    }(std::move(flow), &result));
    executor_.RunAll();
    return *std::move(result);
  }
  std::vector<std::string> Find(const std::string& pattern) {
    std::vector<std::string> paths;
    StatusOr<std::vector<FoundFile>> found = Run(FindFiles(files_, pattern));
    EXPECT_TRUE(found.ok()) << found.status();
    for (const FoundFile& file : *found) paths.push_back(file.path);
    return paths;
  }
  std::string SourceError(Config config) {
    StatusOr<ResolvedFilesSource> resolved = Run(ResolveFilesSource(files_, std::move(config)));
    return resolved.ok() ? "no error" : resolved.status().message();
  }
  Status Sink(std::string job = "aaaa") {
    return Run(CheckOutputDirectory(files_, "path", "/base/out", JobId(job), "flights", "out"));
  }

  ManualExecutor executor_;
  MemoryFileSystem files_;
};

TEST_F(FilesChecksTest, PatternsMatchNamesInTheirLastComponents) {
  for (const char* path : {"/data/part-1.csv", "/data/part-10.csv", "/data/part-2.csv",
                           "/data/.part-3.csv", "/data/part-4.txt", "/data/2013/01/x.csv",
                           "/data/2013/02/x.csv", "/data/2014/01/x.csv", "/data/od[d]"}) {
    files_.PutFile(path, "x");
  }
  files_.PutDirectory("/data/part-d.csv");
  EXPECT_THAT(Find("/data/part-*.csv"),
              ElementsAre("/data/part-1.csv", "/data/part-10.csv", "/data/part-2.csv"));
  EXPECT_THAT(Find("/data/part-?.csv"), ElementsAre("/data/part-1.csv", "/data/part-2.csv"));
  EXPECT_THAT(Find("/data/part-[2-9].csv"), ElementsAre("/data/part-2.csv"));
  EXPECT_THAT(Find("/data/2013/*/x.csv"),
              ElementsAre("/data/2013/01/x.csv", "/data/2013/02/x.csv"));
  EXPECT_THAT(Find("/data/*/01/*"), ElementsAre("/data/2013/01/x.csv", "/data/2014/01/x.csv"));
  EXPECT_THAT(Find("/data/part-1.csv"), ElementsAre("/data/part-1.csv"));
  EXPECT_THAT(Find("/data/od[d]"), ElementsAre("/data/od[d]"));  // by its very name
  EXPECT_THAT(Find("/data/none*"), IsEmpty());
  EXPECT_THAT(Find("/none/*"), IsEmpty());
  EXPECT_THAT(Find("/data"), IsEmpty());
}

TEST_F(FilesChecksTest, ASourceGetsItsFilesAndItsSchema) {
  files_.PutFile("/data/b.csv", "id,name\n1,x\n");
  files_.PutFile("/data/a.csv", "\xef\xbb\xbfid,name\n");
  files_.PutFile("/data/c.csv", "name,more,id\n");
  files_.PutFile("/data/empty.csv", "");
  StatusOr<ResolvedFilesSource> resolved =
      Run(ResolveFilesSource(files_, Config{{"path", "/data/*.csv"}, {"format", "csv"}}));
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->schema, Schema({{"id", Type::kString}, {"name", Type::kString}}));
  EXPECT_THAT(*resolved->config.TextList("files"),
              ElementsAre("/data/a.csv", "/data/b.csv", "/data/c.csv", "/data/empty.csv"));

  resolved = Run(ResolveFilesSource(files_, Config{{"path", "/data/*.csv"},
                                                   {"format", "csv"},
                                                   {"follow", true},
                                                   {"schema", ConfigMembers{{"id", "INT64"}}}}));
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->schema, Schema({{"id", Type::kInt64}}));
  EXPECT_FALSE(resolved->config.Has("files"));
}

TEST_F(FilesChecksTest, ASourceIsRefusedByName) {
  files_.PutFile("/data/a.csv", "row_id,carrier\n");
  files_.PutFile("/data/b.csv", "row_id,carier\n");
  Config config{{"path", "/data/*.csv"},
                {"format", "csv"},
                {"schema", ConfigMembers{{"row_id", "INT64"}, {"carrier", "STRING"}}}};
  EXPECT_THAT(SourceError(config),
              AllOf(HasSubstr("/data/b.csv"), HasSubstr("'carrier'"), HasSubstr("carier")));
  config.Set("path", "/data/part-*.csv");
  EXPECT_EQ(SourceError(config),
            "config field 'path' is '/data/part-*.csv': no file matches 'part-*.csv' in /data");
  config.Set("path", "/nowhere/part-*.csv");
  EXPECT_THAT(SourceError(config), HasSubstr("in /nowhere: there is no such directory"));
  config.Set("path", "/data");
  EXPECT_THAT(SourceError(config), HasSubstr("that is a directory"));
  config.Set("path", "data/a.csv");
  EXPECT_THAT(SourceError(config), HasSubstr("expected an absolute path"));
  EXPECT_THAT(SourceError(Config{{"path", "/data/*"}, {"format", "json"}}),
              HasSubstr("'schema' is missing"));
}

TEST_F(FilesChecksTest, AFollowedDirectoryMayBeEmptyIfTheSchemaIsKnown) {
  Config config{{"path", "/data/*.csv"}, {"format", "csv"}, {"follow", true}};
  EXPECT_THAT(SourceError(config), HasSubstr("'schema' is missing"));
  config.Set("schema", ConfigMembers{{"id", "INT64"}});
  EXPECT_EQ(SourceError(config), "no error");
  config.Set("path", "/none/*.csv");
  EXPECT_THAT(SourceError(config), HasSubstr("no such directory"));
}

TEST_F(FilesChecksTest, ASinkTakesAMissingOrEmptyDirectoryAndLeavesNothing) {
  EXPECT_TRUE(Sink().ok());
  EXPECT_FALSE(files_.Exists("/base"));
  files_.PutDirectory("/base/out");
  EXPECT_TRUE(Sink().ok());
  EXPECT_THAT(files_.Files("/"), IsEmpty());
}

TEST_F(FilesChecksTest, ASinkTakesItsOwnDirectoryAgain) {
  files_.PutFile("/base/out/.weir-sink", MarkContents({JobId("aaaa"), "flights", "out", "x"}));
  files_.PutFile("/base/out/flights-out-0-17-0.csv", "x");
  files_.PutFile("/base/out/.weir-aaaa-g3-1-0-out.pending", "x");
  EXPECT_TRUE(Sink().ok()) << Sink();
}

TEST_F(FilesChecksTest, ASinkIsRefusedByName) {
  files_.PutFile("/base/out/report.txt", "x");
  EXPECT_THAT(Sink().message(), AllOf(HasSubstr("'/base/out'"), HasSubstr("'report.txt'")));

  files_.PutFile("/base/out/.weir-sink", MarkContents({JobId("aaaa"), "flights", "out", "x"}));
  EXPECT_THAT(Sink().message(), HasSubstr("'report.txt'"));
  files_.Remove("/base/out/report.txt", [](Status) {});
  executor_.RunAll();

  // An earlier or another job of the same name would make the same names again.
  files_.PutFile("/base/out/flights-out-0-17-0.csv", "x");
  files_.PutFile("/base/out/flights-out-1-17-0.csv", "x");
  Status refused = Sink("bbbb");
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("job flights (aaaa)"), HasSubstr("2 files"),
                    HasSubstr("flights-out-0-17-0.csv"), HasSubstr("choose another path")));
  EXPECT_EQ(refused.domain(), ErrorDomain::kUser);
}

TEST_F(FilesChecksTest, FinalFilesWithoutAMarkAreForeign) {
  files_.PutFile("/base/out/flights-out-0-17-0.csv", "x");
  EXPECT_THAT(Sink().message(), HasSubstr("'flights-out-0-17-0.csv'"));
}

TEST_F(FilesChecksTest, ASinkNeedsADirectoryItCanWriteIn) {
  files_.PutFile("/base", "a file");
  EXPECT_THAT(Sink().message(), HasSubstr("/base is not a directory"));
  files_.Remove("/base", [](Status) {});
  executor_.RunAll();
  files_.set_before([](std::string_view operation, const std::string& path) {
    return operation == "create" ? UnavailableError("cannot create " + path) : Status();
  });
  EXPECT_THAT(Sink().message(), AllOf(HasSubstr("'/base/out'"), HasSubstr("cannot create /")));
}

TEST(FileNames, AreReadAsTheyAreWritten) {
  EXPECT_EQ(FinalName("my-job", "out-1", 3, CheckpointId(17), 2, FileFormat::kJson),
            "my-job-out-1-3-17-2.jsonl");
  EXPECT_TRUE(IsFinalName("my-job-out-1-3-17-2.jsonl", "my-job", "out-1"));
  EXPECT_TRUE(IsFinalName("my-job-out-1-3-17-2.csv", "my-job", "out-1"));
  EXPECT_FALSE(IsFinalName("my-job-out-1-3-17-2.csv", "my", "job-out"));
  EXPECT_FALSE(IsFinalName("my-job-out-1-3-17-2.csv.gz", "my-job", "out-1"));
  EXPECT_FALSE(IsFinalName("my-job-out-1-3-17.csv", "my-job", "out-1"));
  EXPECT_FALSE(IsFinalName("my-job-out-1-03-17-2.csv", "my-job", "out-1"));
  HiddenName hidden{JobId("0123abcd"), Generation(12), 3, 45, "out-1.x"};
  EXPECT_EQ(PendingName(hidden), ".weir-0123abcd-g12-3-45-out-1.x.pending");
  EXPECT_EQ(ParseHiddenName(PendingName(hidden)), hidden);
  EXPECT_EQ(ParseHiddenName(".weir-sink.tmp-" + MarkUnique(hidden)), hidden);
  for (const char* other :
       {".weir-sink", ".weir-x.pending", ".weir-a-g1-2-out.pending", ".weir-a-g1-2-3-.pending",
        "weir-a-g1-2-3-out.pending", ".weir-a-g1-2-3-out.pendin", ".weir-a-1-2-3-out.pending"}) {
    EXPECT_FALSE(ParseHiddenName(other).has_value()) << other;
  }
}

TEST(FileNames, CommittablesAreReadAsTheyAreWrittenAndNothingElseIs) {
  FilePart part{".weir-a-g1-2-3-out.pending", "job-out-2-17-0.csv", 12345, "a-g1-0-0-out"};
  EXPECT_EQ(*DecodeFilePart(EncodeFilePart(part)), part);
  FilePart bad = part;
  bad.final_name = "../etc/passwd";
  EXPECT_FALSE(DecodeFilePart(EncodeFilePart(bad)).ok());
  bad = part;
  bad.pending_name = "some/file";
  EXPECT_FALSE(DecodeFilePart(EncodeFilePart(bad)).ok());
  std::string text = EncodeFilePart(part);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(DecodeFilePart(text.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace weir
