#pragma once
// Owned device memory.

#include <cstdint>
#include <span>

#include "kernels/tensor/device.h"

namespace tandem::tensor {

// A move-only owner of one allocation, made by Backend::allocate(). Memory is 64-byte aligned and
// zeroed. May be destroyed on any thread, after the work that uses it has finished.
class Buffer {
 public:
  using Release = void (*)(void* data, int64_t size_bytes);

  Buffer() = default;
  // Takes over `data`; `release` is called once.
  Buffer(Device device, void* data, int64_t size_bytes, Release release)
      : device_(device), data_(data), size_bytes_(size_bytes), release_(release) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(static_cast<Buffer&&>(other)).swap(*this);
    return *this;
  }
  ~Buffer();

  Device device() const { return device_; }
  void* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }

  // The memory as elements of T, from the start.
  template <class T>
  std::span<T> as() const {
    return {static_cast<T*>(data_), static_cast<size_t>(size_bytes_) / sizeof(T)};
  }

 private:
  void swap(Buffer& other) noexcept;

  Device device_;
  void* data_ = nullptr;
  int64_t size_bytes_ = 0;
  Release release_ = nullptr;
};

}  // namespace tandem::tensor
