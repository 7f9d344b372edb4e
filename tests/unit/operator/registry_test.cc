// Goal: what is registered is found, doubled types are reported, a library's registry stands in
// front of the global one.
#include "common/operator/registry.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

class Pass : public Operator {
 public:
  Status ProcessBatch(int, const RecordBatch& batch, Output& output) override {
    output.Emit(batch);
    return {};
  }
};
OperatorFactory MakePass() {
  return [] { return std::make_unique<Pass>(); };
}

TEST(RegistryTest, FindsWhatIsRegistered) {
  Registry registry;
  registry.AddOperator("b", MakePass());
  registry.AddOperator("a", MakePass());
  registry.AddSink("s", SinkFactory());
  registry.AddSource("o", SourceFactory());
  EXPECT_NE(registry.FindOperator("a"), nullptr);
  EXPECT_EQ(registry.FindOperator("s"), nullptr);
  EXPECT_NE(registry.FindSink("s"), nullptr);
  EXPECT_NE(registry.FindCommitter("s"), nullptr);
  EXPECT_NE(registry.FindSource("o"), nullptr);
  EXPECT_EQ(registry.FindSource("c"), nullptr);
  EXPECT_EQ(registry.OperatorTypes(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(registry.TakeErrors().ok());
}

TEST(RegistryTest, ReportsDoubledTypesOnce) {
  Registry registry;
  registry.AddOperator("a", MakePass());
  const OperatorFactory* first = registry.FindOperator("a");
  registry.AddSink("a", SinkFactory());
  registry.AddOperator("", MakePass());
  EXPECT_EQ(registry.TakeErrors().message(),
            "vertex type 'a' is registered twice; a vertex type is registered with an empty name");
  EXPECT_TRUE(registry.TakeErrors().ok());
  EXPECT_EQ(registry.FindOperator("a"), first);
  EXPECT_EQ(registry.FindSink("a"), nullptr);
}

TEST(RegistryTest, FallsBackAndScopes) {
  Registry built_in;
  built_in.AddOperator("filter", MakePass());
  Registry library(&built_in);
  EXPECT_EQ(&Registry::Current(), &Registry::Global());
  {
    Registry::Scope scope(library);
    internal::OperatorRegistration registration("mine", MakePass());
    EXPECT_EQ(&Registry::Current(), &library);
  }
  EXPECT_EQ(&Registry::Current(), &Registry::Global());
  EXPECT_NE(library.FindOperator("mine"), nullptr);
  EXPECT_EQ(library.FindOperator("filter"), built_in.FindOperator("filter"));
  EXPECT_EQ(built_in.FindOperator("mine"), nullptr);
  EXPECT_EQ(library.OperatorTypes(), std::vector<std::string>{"mine"});
}

TEST(OperatorTest, EmitsTheSchemaOfItsInputUnlessItSaysOtherwise) {
  Pass pass;
  const Schema schema({{"a", Type::kInt64}});
  EXPECT_EQ(pass.OutputSchema({}, {schema}).value(), schema);
  EXPECT_FALSE(pass.OutputSchema({}, {}).ok());
}

}  // namespace
}  // namespace weir
