#include "kernels/tensor/dtype.h"

#include "kernels/tensor/check.h"
#include "kernels/tensor/quant.h"

namespace tandem::tensor {
namespace {

struct Info {
  const char* name;
  int64_t elements;
  int64_t bytes;
};

constexpr Info kInfo[kNumDTypes] = {
    {"f32", 1, 4},
    {"f16", 1, 2},
    {"bf16", 1, 2},
    {"q8_0", kQuantBlock, sizeof(BlockQ8_0)},
    {"q4_0", kQuantBlock, sizeof(BlockQ4_0)},
    {"q4_1", kQuantBlock, sizeof(BlockQ4_1)},
};

const Info& info(DType dtype) {
  CHECK_KERNEL(static_cast<int>(dtype) < kNumDTypes);
  return kInfo[static_cast<int>(dtype)];
}

}  // namespace

const char* dtype_name(DType dtype) { return info(dtype).name; }
int64_t dtype_block_elements(DType dtype) { return info(dtype).elements; }
int64_t dtype_block_bytes(DType dtype) { return info(dtype).bytes; }

int64_t dtype_bytes(DType dtype, int64_t elements) {
  const Info& i = info(dtype);
  CHECK_KERNEL(elements >= 0 && elements % i.elements == 0);
  return elements / i.elements * i.bytes;
}

}  // namespace tandem::tensor
