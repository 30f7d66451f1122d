#include "worker/forward/numerics_class.h"

#include <gtest/gtest.h>

#include "kernels/backends/cpu_backend.h"
#include "kernels/tensor/device_error.h"
#include "tests/support/tiny_model.h"

namespace tandem::forward {
namespace {

std::string hash_of(const std::string& ops, int threads, tensor::DType kv_dtype,
                    const spec::ModelSpec& spec) {
  return numerics_class(*backends::make_cpu_backend(ops, threads), spec, kv_dtype).hash;
}

TEST(NumericsClass, ThreadsDoNotMatterTheRestDoes) {
  spec::ModelSpec spec = support::tiny_spec();
  const std::string hash = hash_of("reference", 1, tensor::DType::kBF16, spec);
  EXPECT_EQ(hash.size(), 32U);
  EXPECT_EQ(hash_of("reference", 2, tensor::DType::kBF16, spec), hash);
  EXPECT_NE(hash_of("reference", 1, tensor::DType::kF32, spec), hash);
  spec.rope.base += 1;
  EXPECT_NE(hash_of("reference", 1, tensor::DType::kBF16, spec), hash);
}

TEST(NumericsClass, OpSetsDiffer) {
  const spec::ModelSpec spec = support::tiny_spec();
  try {
    EXPECT_NE(hash_of("avx2", 1, tensor::DType::kF32, spec),
              hash_of("reference", 1, tensor::DType::kF32, spec));
  } catch (const tensor::UnsupportedError& error) {
    GTEST_SKIP() << error.what();
  }
}

TEST(NumericsClass, TextNamesTheParts) {
  const NumericsClass numerics = numerics_class(*backends::make_cpu_backend("reference", 1),
                                                support::tiny_spec(), tensor::DType::kBF16);
  for (const char* part : {"backend=cpu/reference", "forward=", "kv=bf16", "tile=", "rope="}) {
    EXPECT_NE(numerics.text.find(part), std::string::npos) << numerics.text;
  }
}

}  // namespace
}  // namespace tandem::forward
