// Goal: types and columns are found by name, and what a user mistypes is named with what is near.
// Method: literals.
#include "common/record/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/names.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SchemaTest, ReadsTheNamesOfAllTypes) {
  const std::pair<const char*, int> expected[] = {{"BOOL", 1},     {"INT32", 2},  {"INT64", 3},
                                                  {"FLOAT64", 4},  {"STRING", 5}, {"BYTES", 6},
                                                  {"TIMESTAMP", 7}};
  for (const auto& [name, number] : expected) {
    const StatusOr<Type> type = ParseType(name);
    ASSERT_TRUE(type.ok()) << name;
    EXPECT_EQ(static_cast<int>(*type), number) << name;
    EXPECT_EQ(ToString(*type), name);
  }
}

TEST(SchemaTest, RefusesAnUnknownTypeAndNamesTheNearest) {
  const Status status = ParseType("int32").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.domain(), ErrorDomain::kUser);
  EXPECT_THAT(status.message(), HasSubstr("'int32'"));
  EXPECT_THAT(status.message(), HasSubstr("did you mean 'INT32'?"));
  EXPECT_THAT(status.message(), HasSubstr("BOOL, INT32, INT64, FLOAT64, STRING, BYTES, TIMESTAMP"));
  EXPECT_THAT(ParseType("DECIMAL").status().message(), Not(HasSubstr("did you mean")));
}

TEST(SchemaTest, FindsColumnsByName) {
  const Schema schema({{"row_id", Type::kInt64}, {"carrier", Type::kString}});
  EXPECT_EQ(schema.IndexOf("carrier"), 1);
  EXPECT_EQ(schema.IndexOf("Carrier"), -1);
  EXPECT_EQ(schema.ToString(), "(row_id INT64, carrier STRING)");
  EXPECT_EQ(schema.Require("row_id").value(), 0);
  const Status missing = schema.Require("carier").status();
  EXPECT_EQ(missing.message(),
            "there is no column 'carier' in (row_id INT64, carrier STRING); did you mean "
            "'carrier'?");
}

TEST(SchemaTest, RefusesEmptyAndDoubledNames) {
  EXPECT_TRUE(Schema::Make({{"a", Type::kBool}, {"b", Type::kBool}}).ok());
  EXPECT_THAT(Schema::Make({{"a", Type::kBool}, {"", Type::kBool}}).status().message(),
              HasSubstr("column 2 has an empty name"));
  EXPECT_THAT(Schema::Make({{"a", Type::kBool}, {"b", Type::kBool}, {"a", Type::kInt32}})
                  .status()
                  .message(),
              HasSubstr("two columns are named 'a'"));
}

TEST(NearestNameTest, NamesOnlyWhatMayBeMeant) {
  const std::vector<std::string> known = {"parallelism", "max_parallelism", "bad_data", "rate"};
  EXPECT_EQ(NearestName("paralellism", known), "parallelism");
  EXPECT_EQ(NearestName("PARALLELISM", known), "parallelism");
  EXPECT_EQ(NearestName("max_paralelism", known), "max_parallelism");
  EXPECT_EQ(NearestName("rtae", known), "rate");
  EXPECT_EQ(NearestName("checkpoint", known), "");
  EXPECT_EQ(NearestName("", known), "");
  EXPECT_EQ(NearestName("x", {"y"}), "");
  EXPECT_EQ(NearestName("rate", {}), "");
}

}  // namespace
}  // namespace weir
