#include "common/base/status.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(StatusOrDeathTest, TakingTheValueOfAnErrorSaysTheError) {
  const StatusOr<int> none = UnavailableError("broker 127.0.0.1:9092 does not answer");
  EXPECT_DEATH((void)none.value(), "broker 127.0.0.1:9092 does not answer");
}

TEST(StatusOrDeathTest, OkInPlaceOfAValueIsSaid) {
  EXPECT_DEATH(StatusOr<int>{Status()}, "OK has no value");
}

}  // namespace
}  // namespace weir
