#include "comm/runtime/result.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{ErrorCode::kInvalidArgument, "odd", "n"};
  return n / 2;
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(*half(4), 2);
  const Result<int> bad = half(3);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().field, "n");
  EXPECT_STREQ(error_code_name(bad.error().code), "invalid_argument");
}

TEST(ResultDeathTest, ValueOfAnErrorIsAProgrammerError) {
  EXPECT_DEATH((void)half(3).value(), "CHECK failed");
}

}  // namespace
}  // namespace tandem
