#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/tensor/check.h"
#include "kernels/tensor/device_error.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kCacheLine = 64;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

[[noreturn]] void fail(int64_t size_bytes) {
  throw tensor::DeviceError("cpu: can't allocate " + std::to_string(size_bytes) +
                            " bytes of memory; use a smaller model or kv_memory");
}

void release_small(void* data, int64_t) { std::free(data); }
void release_large(void* data, int64_t size_bytes) {
  munmap(data, static_cast<size_t>(round_up(size_bytes, kHugePage)));
}

// Reserves one huge page more than needed and gives the ends back, so that the rest is aligned.
void* map_aligned(int64_t length) {
  const int64_t reserved = length + kHugePage;
  void* base = mmap(nullptr, static_cast<size_t>(reserved), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  char* start = static_cast<char*>(base);
  const int64_t address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(base));
  const int64_t head = round_up(address, kHugePage) - address;
  if (head > 0) munmap(start, static_cast<size_t>(head));
  munmap(start + head + length, static_cast<size_t>(kHugePage - head));
  return start + head;
}

}  // namespace

tensor::Buffer allocate_host(int64_t size_bytes) {
  CHECK_KERNEL(size_bytes >= 0);
  if (size_bytes == 0) return {};
  const tensor::Device device;
  if (size_bytes < kHugePage) {
    const size_t length = static_cast<size_t>(round_up(size_bytes, kCacheLine));
    void* data = std::aligned_alloc(kCacheLine, length);
    if (data == nullptr) fail(size_bytes);
    std::memset(data, 0, length);
    return {device, data, size_bytes, release_small};
  }
  const int64_t length = round_up(size_bytes, kHugePage);
  void* data = length > INT64_MAX / 2 ? nullptr : map_aligned(length);
  if (data == nullptr) fail(size_bytes);
  madvise(data, static_cast<size_t>(length), MADV_HUGEPAGE);  // a wish; small pages do as well
  // Fault every page in now, so that no step pays for it.
  for (int64_t at = 0; at < length; at += 4096) static_cast<volatile char*>(data)[at] = 0;
  return {device, data, size_bytes, release_large};
}

}  // namespace tandem::cpu
