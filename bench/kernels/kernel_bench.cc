#include "bench/kernels/kernel_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>

#include "kernels/tensor/dtype.h"
#include "tests/parity/kernels/attention_rig.h"
#include "tests/parity/kernels/op_cases.h"

namespace tandem::bench {

using op_cases::AttentionCase;
using op_cases::AttentionRig;
using op_cases::MatmulCase;
using op_cases::Rig;
using tensor::ConstTensorView;
using tensor::DType;
using tensor::TensorView;

namespace {

constexpr double kTryS = 0.02;          // least time of one try
constexpr double kTolerance = 1e-4;     // relative to the largest output
constexpr int64_t kWidth = 2048;        // K = N
constexpr int64_t kColdBytes = 96 << 20;  // beyond the last-level cache of the usual machines

double now_s() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Median over `repeat` tries of the mean time of one call.
double time_call(int32_t repeat, const std::function<void()>& call) {
  std::vector<double> tries;
  for (int32_t i = 0; i < repeat; ++i) {
    int64_t calls = 0;
    const double begin = now_s();
    double end = begin;
    for (; end - begin < kTryS; end = now_s(), ++calls) call();
    tries.push_back((end - begin) / static_cast<double>(calls));
  }
  std::ranges::sort(tries);
  return tries[tries.size() / 2];
}

double worst_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::fabs(static_cast<double>(actual[i]) - expected[i]);
    worst = std::max(worst, std::isnan(error) ? INFINITY : error);
    largest = std::max(largest, std::fabs(static_cast<double>(expected[i])));
  }
  return worst / largest;
}

void require_right(const KernelRow& row) {
  if (!(row.worst_error <= kTolerance)) {
    throw std::runtime_error(row.name + ": differs from the reference by " +
                             std::to_string(row.worst_error) + " of the largest output");
  }
}

void add_matmul_rows(const KernelBenchOptions& options, DType dtype,
                     std::vector<KernelRow>& rows) {
  const MatmulCase shape{dtype, kWidth, kWidth, ops::LeafLayout::single(kWidth)};
  const auto bytes = op_cases::random_weights(shape, 1);
  const ops::RawMatrix raw = op_cases::raw_matrix(shape, bytes);
  Rig reference = op_cases::make_rig("reference", options.threads);
  Rig rig = op_cases::make_rig(options.ops, options.threads);
  const auto expected_w = reference.backend->pack(raw, raw.whole());
  std::vector<std::unique_ptr<ops::PackedMatrix>> copies;
  do {
    copies.push_back(rig.backend->pack(raw, raw.whole()));
  } while (copies[0]->size_bytes() * static_cast<int64_t>(copies.size()) < kColdBytes);
  for (int64_t n : {1, 2, 4, 8, 16, 64, 256}) {
    const auto x = op_cases::random_values(2, n * kWidth);
    std::vector<float> out(static_cast<size_t>(n * kWidth)), expected(out.size());
    const auto xs = ConstTensorView::f32(x.data(), n, kWidth);
    const auto to = TensorView::f32(out.data(), n, kWidth);
    reference.backend->matmul(*reference.stream, xs, *expected_w,
                              TensorView::f32(expected.data(), n, kWidth));
    rig.backend->matmul(*rig.stream, xs, *copies[0], to);
    KernelRow row;
    row.name = std::string("matmul ") + tensor::dtype_name(dtype) + " 2048x2048 n=" +
               std::to_string(n);
    row.flops = 2.0 * static_cast<double>(n * kWidth * kWidth);
    row.bytes = static_cast<double>(copies[0]->size_bytes());
    row.worst_error = worst_error(out, expected);
    require_right(row);
    size_t next = 0;
    row.time_s = time_call(options.repeat, [&] {
      rig.backend->matmul(*rig.stream, xs, *copies[next], to);
      next = (next + 1) % copies.size();
    });
    rows.push_back(row);
  }
}

// The last `num_rows` tokens of a context, attention alone.
void add_attention_row(const KernelBenchOptions& options, const AttentionCase& shape,
                       int64_t context, int64_t num_rows, std::vector<KernelRow>& rows) {
  const auto input = op_cases::random_sequence(shape, context, 3);
  AttentionRig reference("reference", options.threads, shape, {input});
  AttentionRig rig(options.ops, options.threads, shape, {input});
  for (AttentionRig* r : {&reference, &rig}) {
    if (context > num_rows) r->append({context - num_rows});
    r->step({num_rows});
  }
  KernelRow row;
  row.name = std::string("attention ") + tensor::dtype_name(shape.dtype) + " rows=" +
             std::to_string(num_rows) + " context=" + std::to_string(context);
  const double pairs = static_cast<double>(num_rows) *
                       (static_cast<double>(context) - static_cast<double>(num_rows - 1) / 2);
  row.flops = 4 * pairs * static_cast<double>(shape.q_cols());
  row.bytes = 2.0 * static_cast<double>(context * shape.kv_cols()) *
              (shape.dtype == DType::kF32 ? 4 : 2);
  row.worst_error = worst_error(rig.out(0), reference.out(0));
  require_right(row);
  row.time_s = time_call(options.repeat, [&] { rig.repeat_attention(); });
  rows.push_back(row);
}

}  // namespace

KernelBenchResult run_kernel_bench(const KernelBenchOptions& options) {
  KernelBenchResult result;
  result.ops = op_cases::make_rig(options.ops, 1).backend->name();
  result.limits = measure_limits(options.threads);
  for (int d = 0; d < tensor::kNumDTypes; ++d) {
    add_matmul_rows(options, static_cast<DType>(d), result.rows);
  }
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const AttentionCase smollm2{3, 3, 64, 32, dtype};
    const AttentionCase wide{2, 4, 128, 32, dtype};
    for (const AttentionCase& shape : {smollm2, wide}) {
      add_attention_row(options, shape, 512, 512, result.rows);
      add_attention_row(options, shape, 2048, 64, result.rows);
      add_attention_row(options, shape, 2048, 1, result.rows);
      for (size_t i = result.rows.size() - 3; i < result.rows.size(); ++i) {
        result.rows[i].name += " hd=" + std::to_string(shape.head_dim);
      }
    }
  }
  return result;
}

}  // namespace tandem::bench
