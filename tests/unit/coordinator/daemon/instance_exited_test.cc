#include "coordinator/daemon/instance_exited.h"

#include <gtest/gtest.h>

namespace tandem::coordinator {
namespace {

TEST(InstanceExited, ReadsNameAndPid) {
  const auto exited = parse_instance_exited(R"({"name": "decode-0", "pid": 123})");
  ASSERT_TRUE(exited.ok());
  EXPECT_EQ(exited->name, "decode-0");
  EXPECT_EQ(exited->pid, 123u);
}

TEST(InstanceExited, RefusesAnythingElse) {
  for (const char* body :
       {"", "{", "[]", "7", R"({"name": "decode-0"})", R"({"pid": 1})",
        R"({"name": 5, "pid": 1})", R"({"name": "a", "pid": "1"})",
        R"({"name": "a", "pid": -1})", R"({"name": "a", "pid": 0})",
        R"({"name": "a", "pid": 1.5})", R"({"name": "a", "pid": 4294967297})",
        R"({"name": "a", "pid": 1, "more": 2})"}) {
    const auto exited = parse_instance_exited(body);
    ASSERT_FALSE(exited.ok()) << body;
    EXPECT_EQ(exited.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem::coordinator
