// The team of threads under many small ops, for the thread sanitizer.
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <thread>

#include "tests/parity/kernels/attention_rig.h"

namespace tandem::ops {
namespace {

using op_cases::MatmulCase;
using op_cases::Rig;
using tensor::ConstTensorView;
using tensor::TensorView;

double process_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

class Threads : public ::testing::TestWithParam<std::string> {};

TEST_P(Threads, ManySmallOpsGiveTheBitsOfOneThread) {
  const MatmulCase shape{tensor::DType::kQ4_1, 128, 192, {2, {0, 96, 192}}};
  const auto bytes = op_cases::random_weights(shape, 3);
  const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
  const auto x = op_cases::random_values(4, shape.cols);
  const auto run = [&](int threads, int times) {
    Rig rig = op_cases::make_rig(GetParam(), threads);
    const auto w = rig.backend->pack(raw, raw.whole());
    std::vector<float> out(128);
    const auto view = TensorView::f32(out.data(), 1, 128);
    for (int i = 0; i < times; ++i) {
      rig.backend->matmul_tree(*rig.stream, ConstTensorView::f32(x.data(), 1, 192), *w,
                               shape.leaves, view);
      rig.backend->add(*rig.stream, view, view, view);
    }
    return out;
  };
  EXPECT_EQ(run(1, 1), run(3, 300));
}

TEST_P(Threads, AttentionTasksShareNothing) {
  const op_cases::AttentionCase shape{2, 2, 16, 16, tensor::DType::kBF16};
  const auto a = op_cases::random_sequence(shape, 80, 1);
  const auto b = op_cases::random_sequence(shape, 50, 2);
  op_cases::AttentionRig one(GetParam(), 1, shape, {a, b});
  op_cases::AttentionRig three(GetParam(), 3, shape, {a, b});
  one.run(20);
  three.run(20);
  EXPECT_EQ(one.out(0), three.out(0));
  EXPECT_EQ(one.out(1), three.out(1));
}

TEST_P(Threads, IdleTeamUsesNoCpu) {
  Rig rig = op_cases::make_rig(GetParam(), 3);
  std::vector<float> x(100'000, 1.0f);
  const auto view = TensorView::f32(x.data(), 100, 1000);
  rig.backend->add(*rig.stream, view, view, view);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double before = process_cpu_s();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(process_cpu_s() - before, 0.05);  // two spinning helpers would take 0.6 s
}

INSTANTIATE_TEST_SUITE_P(OpSets, Threads, ::testing::ValuesIn(op_cases::runnable_op_sets()),
                         [](const auto& op_set) { return op_set.param; });

}  // namespace
}  // namespace tandem::ops
