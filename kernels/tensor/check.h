#pragma once
// CHECK_KERNEL: programmer errors inside kernels/. kernels/ stands alone, so it has its own; the
// name differs from the runtime's CHECK because some files include both.

namespace tandem::tensor {

// Prints "file:line: CHECK_KERNEL failed: what" to stderr and aborts. Thread-safe.
[[noreturn]] void check_kernel_failed(const char* file, int line, const char* what);

}  // namespace tandem::tensor

#define CHECK_KERNEL(condition)                                              \
  do {                                                                       \
    if (!(condition)) [[unlikely]]                                           \
      ::tandem::tensor::check_kernel_failed(__FILE__, __LINE__, #condition); \
  } while (0)
