// Goal: durations, sizes and job options read as written, and everything else is refused with name,
// value, what is valid and the nearest known name. Expected values are from the option table.
#include "common/graph/job_options.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

std::string ErrorOf(const std::map<std::string, std::string>& options) {
  StatusOr<JobOptions> parsed = ParseJobOptions(options);
  return parsed.ok() ? "no error" : parsed.status().message();
}

TEST(JobOptionsTest, ReadsAndWritesDurations) {
  EXPECT_EQ(ParseDuration("250ms").value(), 250'000);
  EXPECT_EQ(ParseDuration("10s").value(), 10'000'000);
  EXPECT_EQ(ParseDuration("5min").value(), 300'000'000);
  EXPECT_EQ(ParseDuration("1h").value(), 3'600'000'000);
  EXPECT_EQ(ParseDuration("0s").value(), 0);
  for (const char* text : {"", "10", "s", "-1s", "1.5s", "1 s", "5m", "1S", "99999999999999999999s",
                           "9223372036854775807h", " 1s", "1s "}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
  EXPECT_EQ(FormatDuration(250'000), "250ms");
  EXPECT_EQ(FormatDuration(10'000'000), "10s");
  EXPECT_EQ(FormatDuration(600'000'000), "10min");
  EXPECT_EQ(FormatDuration(1), "1us");
  EXPECT_EQ(FormatDuration(0), "0s");
}

TEST(JobOptionsTest, ReadsAndWritesSizes) {
  EXPECT_EQ(ParseSize("64MiB").value(), 67'108'864);
  EXPECT_EQ(ParseSize("256KiB").value(), 262'144);
  EXPECT_EQ(ParseSize("1GiB").value(), 1'073'741'824);
  EXPECT_EQ(ParseSize("100").value(), 100);
  for (const char* text : {"", "MiB", "-1", "1MB", "1 MiB", "9223372036854775807KiB", "0x10"}) {
    EXPECT_FALSE(ParseSize(text).ok()) << text;
  }
  EXPECT_EQ(FormatSize(67'108'864), "64MiB");
  EXPECT_EQ(FormatSize(100), "100");
  EXPECT_EQ(FormatSize(0), "0");
}

TEST(JobOptionsTest, DefaultsAreThoseOfTheTable) {
  JobOptions options = ParseJobOptions({}).value();
  std::map<std::string, std::string> written;
  for (const JobOptionHelp& help : JobOptionDescriptions()) {
    written[help.name] = help.default_value;
  }
  JobOptions again = ParseJobOptions(written).value();
  EXPECT_EQ(again.parallelism, options.parallelism);
  EXPECT_EQ(again.max_parallelism, 128);
  EXPECT_EQ(again.checkpoint_interval_us, options.checkpoint_interval_us);
  EXPECT_EQ(again.checkpoint_timeout_us, options.checkpoint_timeout_us);
  EXPECT_EQ(again.checkpoint_min_pause_us, 0);
  EXPECT_EQ(again.checkpoint_max_concurrent, 1);
  EXPECT_EQ(again.checkpoint_retained, 1);
  EXPECT_EQ(again.checkpoint_tolerable_failures, std::nullopt);
  EXPECT_EQ(again.checkpoint_on_cancel, Retention::kDelete);
  EXPECT_EQ(again.checkpoint_on_failure, Retention::kKeep);
  EXPECT_EQ(again.restart_backoff_initial_us, options.restart_backoff_initial_us);
  EXPECT_EQ(again.restart_backoff_max_us, options.restart_backoff_max_us);
  EXPECT_EQ(again.restart_attempts_max, std::nullopt);
  EXPECT_EQ(again.batch_rows_max, 4096);
  EXPECT_EQ(again.batch_bytes_max, 262'144);
  EXPECT_EQ(again.batch_delay_max_us, 5000);
  EXPECT_EQ(written.size(), 18u);
}

TEST(JobOptionsTest, ReadsValues) {
  JobOptions options = ParseJobOptions({{"checkpoint.interval", "off"},
                                        {"checkpoint.tolerable_failures", "0"},
                                        {"checkpoint.on_cancel", "keep"},
                                        {"restart.attempts_max", "3"},
                                        {"bad_data", "drop"},
                                        {"max_parallelism", "32768"},
                                        {"parallelism", "32768"}})
                           .value();
  EXPECT_EQ(options.checkpoint_interval_us, std::nullopt);
  EXPECT_EQ(options.checkpoint_tolerable_failures, 0);
  EXPECT_EQ(options.checkpoint_on_cancel, Retention::kKeep);
  EXPECT_EQ(options.restart_attempts_max, 3);
  EXPECT_EQ(options.bad_data, BadData::kDrop);
  EXPECT_EQ(options.parallelism, 32768);
}

TEST(JobOptionsTest, RefusesWithNameValueAndWhatIsValid) {
  EXPECT_EQ(ErrorOf({{"checkpoint.intervall", "1s"}}),
            "unknown option 'checkpoint.intervall' (value '1s'): did you mean "
            "'checkpoint.interval'?");
  EXPECT_EQ(ErrorOf({{"checkpoint.interval", "9ms"}}),
            "option 'checkpoint.interval' is '9ms': valid is off, or a duration of at least 10ms");
  EXPECT_EQ(ErrorOf({{"parallelism", "129"}}),
            "option 'parallelism' is '129': valid is 1 ... max_parallelism, which is 128");
  EXPECT_EQ(ErrorOf({{"parallelism", "0"}}),
            "option 'parallelism' is '0': valid is 1 ... max_parallelism");
  EXPECT_EQ(ErrorOf({{"max_parallelism", "32769"}}),
            "option 'max_parallelism' is '32769': valid is 1 ... 32768");
  EXPECT_EQ(ErrorOf({{"state.backend", "rocksdb"}}),
            "option 'state.backend' is 'rocksdb': valid is memory");
  EXPECT_EQ(ErrorOf({{"bad_data", "dead_letters"}}),
            "option 'bad_data' is 'dead_letters': valid is fail, drop, dead_letter");
  EXPECT_NE(ErrorOf({{"xyzzy", "1"}}).find("known are parallelism, max_parallelism"),
            std::string::npos);
  for (const char* value : {"", "x", "1.5", "-1", " 1", "99999999999"}) {
    EXPECT_NE(ErrorOf({{"checkpoint.max_concurrent", value}}), "no error") << value;
    EXPECT_NE(ErrorOf({{"batch.bytes_max", value}}), "no error") << value;
    EXPECT_NE(ErrorOf({{"restart.backoff_max", value}}), "no error") << value;
  }
}

}  // namespace
}  // namespace weir
