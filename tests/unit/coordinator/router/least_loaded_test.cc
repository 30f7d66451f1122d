#include <gtest/gtest.h>

#include "coordinator/router/policy.h"

namespace tandem::router {
namespace {
using topology::Role;

InstanceView view_of(std::string name, Role role, uint32_t prefills = 0, uint32_t decodes = 0) {
  return {std::move(name), role, true, prefills, decodes, 100, 0};
}

TEST(LeastLoaded, PicksFewestPrefillsAndFewestDecodes) {
  View view{{view_of("decode-0", Role::kDecode, 0, 3), view_of("decode-1", Role::kDecode, 0, 1),
             view_of("prefill-0", Role::kPrefill, 1), view_of("prefill-1", Role::kPrefill, 0)},
            1, ""};
  EXPECT_EQ(least_loaded(view, {}), (Route{"prefill-1", "decode-1"}));
}

TEST(LeastLoaded, WaitsWhenEveryPrefillSlotIsTaken) {
  View view{{view_of("decode-0", Role::kDecode), view_of("prefill-0", Role::kPrefill, 2)}, 1, ""};
  EXPECT_EQ(least_loaded(view, {}), std::nullopt);
}

TEST(LeastLoaded, ASurvivorDoesBoth) {
  View view{{view_of("decode-0", Role::kDecode), view_of("prefill-0", Role::kPrefill)}, 1, ""};
  view.instances[1].takes_work = false;
  EXPECT_EQ(least_loaded(view, {}), (Route{"decode-0", "decode-0"}));
  view.instances[1].takes_work = true;
  view.instances[0].takes_work = false;
  EXPECT_EQ(least_loaded(view, {}), (Route{"prefill-0", "prefill-0"}));
  view.instances[1].takes_work = false;
  EXPECT_EQ(least_loaded(view, {}), std::nullopt);
}

TEST(LeastLoaded, MixedComputesForItselfAndSizeMatters) {
  View view{{view_of("mixed-0", Role::kMixed, 0, 1), view_of("mixed-1", Role::kMixed)}, 50, ""};
  EXPECT_EQ(least_loaded(view, {}), (Route{"mixed-1", "mixed-1"}));
  view.instances[1].total_blocks = 49;
  EXPECT_EQ(least_loaded(view, {}), (Route{"mixed-0", "mixed-0"}));
}

TEST(LeastLoaded, AFixedSourceNeedsNoSlot) {
  View view{{view_of("decode-0", Role::kDecode), view_of("prefill-0", Role::kPrefill, 2)}, 1,
            "prefill-0"};
  EXPECT_EQ(least_loaded(view, {}), (Route{"prefill-0", "decode-0"}));
}

TEST(PolicyByName, NamesTheKnownOnes) {
  EXPECT_TRUE(policy_by_name("least_loaded").ok());
  EXPECT_NE(policy_by_name("x").error().message.find("least_loaded"), std::string::npos);
}

}  // namespace
}  // namespace tandem::router
