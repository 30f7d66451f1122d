#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/backends/cpu_backend.h"
#include "kernels/tensor/device_error.h"
#include "tests/parity/kernels/op_cases.h"

namespace tandem::backends {
namespace {

using ::testing::HasSubstr;

std::string refusal(const char* name, int threads) {
  try {
    make_cpu_backend(name, threads);
  } catch (const tensor::UnsupportedError& error) {
    return error.what();
  }
  return "";
}

TEST(CpuBackendFactory, RefusesWhatItCantRunAndSaysWhatToSet) {
  EXPECT_THAT(refusal("avx512", 1), HasSubstr("use ops: auto"));
  EXPECT_THAT(refusal("sse", 1), HasSubstr("'sse' is unknown"));
  EXPECT_THAT(refusal("auto", 0), HasSubstr("threads: 0"));
}

TEST(CpuBackendFactory, AutoTakesTheFastestRunnable) {
  const std::string fastest = op_cases::runnable_op_sets().back();
  EXPECT_EQ(make_cpu_backend("auto", 1)->name(), fastest);
  if (fastest == "reference") {
    EXPECT_THAT(refusal("avx2", 1), HasSubstr("needs a CPU with AVX2"));
  } else {
    EXPECT_EQ(refusal("avx2", 1), "");
  }
}

TEST(CpuBackendFactory, NumericsRevisionTellsOpSetsApartButNotThreads) {
  const std::string reference = make_cpu_backend("reference", 1)->numerics_revision();
  EXPECT_THAT(reference, HasSubstr("cpu/reference/"));
  EXPECT_EQ(reference, make_cpu_backend("reference", 2)->numerics_revision());
  const auto fastest = make_cpu_backend("auto", 1);
  if (std::string_view(fastest->name()) == "reference") {
    GTEST_SKIP() << "this machine runs the reference only";
  }
  EXPECT_NE(reference, fastest->numerics_revision());
}

TEST(CpuBackend, AllocatesZeroedAlignedMemory) {
  const auto backend = make_cpu_backend("auto", 1);
  for (int64_t size : {int64_t{1}, int64_t{100}, int64_t{5} << 20}) {
    tensor::Buffer buffer = backend->allocate(size);
    EXPECT_EQ(buffer.size_bytes(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    for (uint8_t byte : buffer.as<uint8_t>()) ASSERT_EQ(byte, 0);
    buffer.as<uint8_t>().back() = 1;
    const tensor::Buffer moved = std::move(buffer);
    EXPECT_TRUE(buffer.empty());  // NOLINT: the moved-from state is part of the contract
    EXPECT_EQ(moved.as<uint8_t>().back(), 1);
  }
  EXPECT_TRUE(backend->allocate(0).empty());
}

TEST(CpuBackend, AllocationFailureNamesTheSize) {
  const auto backend = make_cpu_backend("auto", 1);
  try {
    backend->allocate(int64_t{1} << 60);
    FAIL() << "an exbibyte was allocated";
  } catch (const tensor::DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1152921504606846976"));
  }
}

}  // namespace
}  // namespace tandem::backends
