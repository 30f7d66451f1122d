#include "kernels/tensor/buffer.h"

#include <utility>

namespace tandem::tensor {

Buffer::~Buffer() {
  if (release_ != nullptr) release_(data_, size_bytes_);
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(release_, other.release_);
}

}  // namespace tandem::tensor
