#include "cli/supervisor/cluster_view.h"

#include <gtest/gtest.h>

namespace tandem::supervisor {
namespace {

TEST(ParseCluster, TakesWhatItNeeds) {
  const auto views = parse_cluster(
      R"({"instances":[{"name":"prefill-0","role":"prefill","state":"ready","pid":5,)"
      R"("launcher_pid":4,"blocks":{"free":1}}]})");
  ASSERT_TRUE(views.ok());
  ASSERT_EQ(views->size(), 1u);
  EXPECT_EQ(views->front().name, "prefill-0");
  EXPECT_EQ(views->front().state, "ready");
  EXPECT_EQ(views->front().pid, 5);
  EXPECT_EQ(views->front().launcher_pid, 4);
}

TEST(ParseCluster, RefusesOtherShapes) {
  for (const char* text : {"", "{", "[]", "{}", R"({"instances":{}})", R"({"instances":[5]})",
                           R"({"instances":[{"name":"a","state":"ready","pid":"5",)"
                           R"("launcher_pid":4}]})",
                           R"({"instances":[{"name":"a","state":"ready","pid":5}]})"}) {
    EXPECT_FALSE(parse_cluster(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tandem::supervisor
