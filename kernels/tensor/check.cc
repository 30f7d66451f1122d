#include "kernels/tensor/check.h"

#include <cstdio>
#include <cstdlib>

namespace tandem::tensor {

void check_kernel_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: CHECK_KERNEL failed: %s\n", file, line, what);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tandem::tensor
