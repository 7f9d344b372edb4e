// Goal: job arguments are read in all their forms; every mistake is told, all at once.
#include "common/operator/job_library.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(JobArgumentsTest, ReadsTheThreeForms) {
  JobArguments arguments =
      JobArguments::Parse({"--input", "a b", "--output=x=y", "rows=-5", "--empty="}).value();
  EXPECT_EQ(arguments.text("input"), "a b");
  EXPECT_EQ(arguments.text("output"), "x=y");
  EXPECT_EQ(arguments.integer("rows"), -5);
  EXPECT_EQ(arguments.text("empty"), "");
  EXPECT_EQ(arguments.text("mode", "fast"), "fast");
  EXPECT_EQ(arguments.integer("count", 7), 7);
  EXPECT_FALSE(arguments.has("other"));
  EXPECT_TRUE(arguments.Check().ok());
}

TEST(JobArgumentsTest, RefusesWhatIsNoArgument) {
  auto error = [](std::vector<std::string> words) {
    return JobArguments::Parse(words).status().message();
  };
  EXPECT_EQ(error({"word"}),
            "job argument 'word': expected --name value, --name=value or name=value");
  EXPECT_EQ(error({"--"}), "job argument '--': expected --name value, --name=value or name=value");
  EXPECT_EQ(error({"=x"}), "job argument '=x': expected --name value, --name=value or name=value");
  EXPECT_EQ(error({"--a", "--b", "x"}),
            "job argument 'a' has no value: expected --a value or --a=value");
  EXPECT_EQ(error({"--a"}), "job argument 'a' has no value: expected --a value or --a=value");
  EXPECT_EQ(error({"a=1", "--a", "2"}), "job argument 'a' is there twice");
}

TEST(JobArgumentsTest, TellsAllThatIsWrong) {
  JobArguments arguments = JobArguments::Parse({"inptu=x", "rows=many", "zzz=1"}).value();
  EXPECT_EQ(arguments.text("input"), "");
  EXPECT_EQ(arguments.integer("rows"), 0);
  EXPECT_EQ(arguments.Check().message(),
            "job argument 'input' is missing: give it as --input value; job argument 'rows' is "
            "'many': expected an integer; unknown job argument 'inptu' (value 'x'): did you mean "
            "'input'?; unknown job argument 'zzz' (value '1'): this job takes input, rows");
  JobArguments none = JobArguments::Parse({"x=1"}).value();
  EXPECT_EQ(none.Check().message(), "unknown job argument 'x' (value '1'): this job takes none");
}

}  // namespace
}  // namespace weir
