#pragma once
// A regular file mapped for reading: owns the mapping, not the descriptor. Move-only; the address
// of the bytes stays the same over moves. Read from any thread. Never writes, never copies.
// A file that is cut short by somebody else while it is mapped kills the reader (SIGBUS): replace
// model files by rename.

#include <cstddef>
#include <span>
#include <string>

#include "comm/runtime/result.h"

namespace tandem::format {

class MappedFile {
 public:
  // kNotFound or kIo with the system's reason; kInvalidArgument when it is no regular file.
  // An empty file maps to an empty span.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  void unmap();

  std::span<const std::byte> bytes_;
};

}  // namespace tandem::format
