#include "coordinator/request/request_state.h"

#include <gtest/gtest.h>

namespace tandem::request {
namespace {
using namespace std::chrono_literals;

TEST(MakeWork, CarriesPromptEmittedTokensAndLimits) {
  RequestState state;
  state.request.prompt = {5, 6};
  state.request.max_tokens = 9;
  state.request.sampling.seed = 77;
  state.request.stop_ids = {3};
  state.ids = {10, 11, 12};
  const wire::Work work = make_work(state, 2, 1500ms, true);
  EXPECT_EQ(std::vector<uint32_t>(work.tokens().begin(), work.tokens().end()),
            (std::vector<uint32_t>{5, 6, 10, 11}));
  EXPECT_EQ(work.prompt_length(), 2u);
  EXPECT_EQ(work.max_tokens(), 9u);
  EXPECT_EQ(work.sampling().seed(), 77u);
  EXPECT_EQ(work.stop_ids(0), 3u);
  EXPECT_EQ(work.deadline_ms(), 1500u);
  EXPECT_TRUE(work.solo());
  EXPECT_EQ(make_work(state, 0, -1s, false).deadline_ms(), 0u) << "a passed deadline";
}

TEST(ChainDigests, DependOnOrderAndCoverOnlyTheGivenTokens) {
  EXPECT_NE(chain_digests({1, 2}, 2), chain_digests({2, 1}, 2));
  EXPECT_EQ(chain_digests({1, 2, 3}, 2), chain_digests({1, 2}, 2));
  EXPECT_EQ(chain_digests({0, 0}, 2), 0u);
}

}  // namespace
}  // namespace tandem::request
