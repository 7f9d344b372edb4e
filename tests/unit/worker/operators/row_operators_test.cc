// filter, project, union and rebalance over small tables, and the registration of all built-in
// operators.

#include <gtest/gtest.h>

#include <memory>

#include "common/graph/type_descriptor.h"
#include "common/operator/registry.h"
#include "tests/unit/worker/operators/operator_harness.h"
#include "worker/operators/builtin_operators.h"
#include "worker/operators/filter_operator.h"
#include "worker/operators/pass_operator.h"
#include "worker/operators/project_operator.h"

namespace weir {
namespace {

SchemaPtr Numbers() { return MakeSchema({{"n", Type::kInt64}, {"name", Type::kString}}); }

TEST(FilterOperatorTest, PassesOnRowsForWhichTheExpressionIsTrue) {
  OperatorHarness filter(std::make_unique<FilterOperator>(), R"({"expression": "n > 1"})",
                         Numbers());
  ASSERT_TRUE(filter.Open().ok());
  EXPECT_EQ(filter.Shown({{1, "a"}, {2, "b"}, {std::nullopt, "c"}, {3, std::nullopt}}),
            "2 b\n3 null\n");
}

TEST(FilterOperatorTest, ABatchOfWhichAllRowsStayIsNotCopied) {
  OperatorHarness filter(std::make_unique<FilterOperator>(), R"({"expression": "n > 1"})",
                         Numbers());
  ASSERT_TRUE(filter.Open().ok());
  const RecordBatch batch = MakeBatch(Numbers(), {{2, "a"}, {3, "b"}});
  auto result = filter.Process(batch);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->size(), 1u);
  EXPECT_EQ((*result)[0].column(1).data(), batch.column(1).data());
}

TEST(FilterOperatorTest, NoRowsMakeNoBatch) {
  OperatorHarness filter(std::make_unique<FilterOperator>(), R"({"expression": "n > 1"})",
                         Numbers());
  ASSERT_TRUE(filter.Open().ok());
  auto result = filter.Process(Rows{{0, "a"}, {1, "b"}});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->empty());
}

TEST(FilterOperatorTest, ErrorsOfTheExpressionNameTheOperator) {
  OperatorHarness filter(std::make_unique<FilterOperator>(), R"({"expression": "10 / n > 1"})",
                         Numbers());
  ASSERT_TRUE(filter.Open().ok());
  auto result = filter.Process(Rows{{1, "a"}, {0, "b"}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().domain(), ErrorDomain::kUser);
  EXPECT_EQ(result.status().message().find("filter 'step': "), 0u) << result.status();
}

TEST(FilterOperatorTest, AnExpressionOfAnotherTypeIsRefused) {
  OperatorHarness filter(std::make_unique<FilterOperator>(), R"({"expression": "n + 1"})",
                         Numbers());
  EXPECT_EQ(filter.Open().domain(), ErrorDomain::kUser);
}

TEST(ProjectOperatorTest, MakesColumnsInTheOrderOfTheConfig) {
  OperatorHarness project(std::make_unique<ProjectOperator>(),
                          R"({"columns": ["name", {"name": "twice", "expression": "n * 2"}, "n"]})",
                          Numbers());
  ASSERT_TRUE(project.Open().ok());
  EXPECT_EQ(project.output_schema()->ToString(), "(name STRING, twice INT64, n INT64)");
  EXPECT_EQ(project.Shown({{1, "a"}, {std::nullopt, "b"}}), "a 2 1\nb null null\n");
}

TEST(ProjectOperatorTest, ColumnsThatArePassedOnAreNotCopied) {
  OperatorHarness project(std::make_unique<ProjectOperator>(), R"({"columns": ["name"]})",
                          Numbers());
  ASSERT_TRUE(project.Open().ok());
  const RecordBatch batch = MakeBatch(Numbers(), {{2, "a"}});
  auto result = project.Process(batch);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ((*result)[0].column(0).data(), batch.column(1).data());
  EXPECT_EQ((*result)[0].column(0).offsets(), batch.column(1).offsets());
}

TEST(ProjectOperatorTest, ErrorsOfAnExpressionNameColumnAndOperator) {
  OperatorHarness project(
      std::make_unique<ProjectOperator>(),
      R"({"columns": [{"name": "x", "expression": "n * 9223372036854775807"}]})", Numbers());
  ASSERT_TRUE(project.Open().ok());
  auto result = project.Process(Rows{{2, "a"}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().domain(), ErrorDomain::kUser);
  EXPECT_EQ(result.status().message().find("column 'x' of project 'step': "), 0u)
      << result.status();
}

TEST(PassOperatorTest, UnionHandsOnTheRowsOfAllInputs) {
  OperatorHarness both(std::make_unique<PassOperator>("union"), "{}", Numbers(), {}, 2);
  ASSERT_TRUE(both.Open().ok());
  auto first = both.Process({{1, "a"}}, 0);
  auto second = both.Process({{2, "b"}}, 1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Show((*first)[0]) + Show((*second)[0]), "1 a\n2 b\n");
}

TEST(PassOperatorTest, UnionOfDifferentColumnsIsRefused) {
  PassOperator both("union");
  EXPECT_EQ(
      both.OutputSchema(Config(), {*Numbers(), Schema({{"n", Type::kInt64}})}).status().domain(),
      ErrorDomain::kUser);
  EXPECT_EQ(both.OutputSchema(Config(), {*Numbers()}).status().domain(), ErrorDomain::kUser);
}

TEST(PassOperatorTest, RebalanceHandsOnRows) {
  OperatorHarness rebalance(std::make_unique<PassOperator>("rebalance"), "{}", Numbers());
  ASSERT_TRUE(rebalance.Open().ok());
  EXPECT_EQ(rebalance.Shown({{1, "a"}}), "1 a\n");
}

TEST(BuiltinOperatorsTest, EveryBuiltinOperatorTypeHasItsFactory) {
  RegisterBuiltinOperators(Registry::Global());
  for (const auto& [type, descriptor] : BuiltinTypes()) {
    const OperatorFactory* factory = Registry::Global().FindOperator(type);
    ASSERT_EQ(factory != nullptr, descriptor.kind == VertexKind::kOperator) << type;
    if (factory == nullptr) continue;
    EXPECT_NE((*factory)(), nullptr) << type;
  }
}

}  // namespace
}  // namespace weir
