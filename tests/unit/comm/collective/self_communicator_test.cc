#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "comm/collective/factory/make_communicator.h"
#include "kernels/backends/cpu_backend.h"

namespace tandem::collective {
namespace {

using tensor::ConstTensorView;
using tensor::TensorView;

class SelfCommunicatorTest : public ::testing::Test {
 protected:
  std::unique_ptr<ops::Backend> backend_ = backends::make_cpu_backend("reference", 1);
  std::unique_ptr<tensor::Stream> stream_ = backend_->make_stream();
  std::unique_ptr<Communicator> comm_ = std::move(make_communicator(1, *backend_)).value();
};

TEST_F(SelfCommunicatorTest, IsAlone) {
  EXPECT_EQ(comm_->rank(), 0);
  EXPECT_EQ(comm_->size(), 1);
}

TEST_F(SelfCommunicatorTest, GathersAndExchangesWithItself) {
  const std::vector<float> in{1, 2, 3};
  const std::array<int64_t, 1> sizes{12};
  std::vector<float> out(3);
  comm_->all_gather(*stream_, in.data(), out.data(), sizes);
  EXPECT_EQ(out, in);
  out.assign(3, 0);
  comm_->all_to_all(*stream_, in.data(), sizes, out.data(), sizes);
  EXPECT_EQ(out, in);
  comm_->all_gather(*stream_, out.data(), out.data(), sizes);  // in place
  comm_->broadcast(*stream_, out.data(), 12, 0);
  EXPECT_EQ(out, in);
}

TEST_F(SelfCommunicatorTest, ReductionOfItsOwnTreeIsTheTree) {
  std::vector<float> sum{1, 2, 3, 4};
  std::vector<float> out(4);
  const std::array<LeafRange, 1> owned{LeafRange{0, 3}};
  comm_->tree_reduce(*stream_, {.partials = ConstTensorView::f32(sum.data(), 2, 2),
                                .out = TensorView::f32(out.data(), 2, 2),
                                .num_leaves = 3,
                                .owned = owned});
  EXPECT_EQ(out, sum);
}

TEST_F(SelfCommunicatorTest, WrongUseStops) {
  std::vector<float> x(4);
  const std::array<LeafRange, 1> part{LeafRange{0, 2}};
  EXPECT_DEATH(comm_->tree_reduce(*stream_, {.partials = ConstTensorView::f32(x.data(), 1, 4),
                                             .out = TensorView::f32(x.data(), 1, 4),
                                             .num_leaves = 3,
                                             .owned = part}),
               "CHECK failed");
  EXPECT_DEATH(comm_->send(*stream_, x.data(), 16, 0), "CHECK failed");
  EXPECT_DEATH(comm_->receive(*stream_, x.data(), 16, 1), "CHECK failed");
  EXPECT_DEATH(comm_->broadcast(*stream_, x.data(), 16, 1), "CHECK failed");
}

TEST(MakeCommunicator, RefusesMoreRanksByName) {
  auto backend = backends::make_cpu_backend("reference", 1);
  const auto result = make_communicator(2, *backend);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(result.error().message.find("2 ranks"), std::string::npos);
}

}  // namespace
}  // namespace tandem::collective
