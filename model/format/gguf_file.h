#pragma once
// Reader of GGUF containers, versions 2 and 3, little-endian (layout: ggml's docs/gguf.md).
//
//   "GGUF" version(u32) num_tensors(u64) num_keys(u64)
//   num_keys    x { key, value type, value }
//   num_tensors x { name, num_dims(u32), dims(u64 each), type(u32), offset(u64) }
//   padding to general.alignment (default 32), then the data section; offsets count from there
//
// The file is mapped, nothing of the data is copied. open() checks every count, length and offset
// against the file's size before it allocates or reads; a GgufFile that exists is consistent:
// every tensor lies inside the file, aligned, overlaps no other, and has a type of TensorType.
// Immutable, read from any thread; owned by whoever loads the model. Views point into the map and
// must not outlive the GgufFile. Never changes the file.

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/runtime/result.h"
#include "model/format/mapped_file.h"
#include "model/format/metadata.h"
#include "model/format/tensor_type.h"

namespace tandem::format {

inline constexpr int kMaxTensorDims = 4;

struct TensorInfo {
  std::string_view name;
  TensorType type = TensorType::kF32;
  int num_dims = 0;                                        // 1 to 4
  std::array<uint64_t, kMaxTensorDims> dims = {1, 1, 1, 1};  // innermost first; unused ones are 1
  uint64_t offset = 0;                                     // from the start of the file, bytes
  uint64_t size_bytes = 0;

  uint64_t row_length() const { return dims[0]; }                     // values
  uint64_t num_rows() const { return dims[1] * dims[2] * dims[3]; }
  uint64_t num_elements() const { return row_length() * num_rows(); }
};

// "[576, 1536]", innermost first.
std::string shape_text(std::span<const uint64_t> dims);
inline std::string shape_text(const TensorInfo& tensor) {
  return shape_text(std::span(tensor.dims).first(static_cast<size_t>(tensor.num_dims)));
}

class GgufFile {
 public:
  // Failures (field names the key or tensor where there is one; the message begins with the path):
  //   kNotFound, kIo       the file can't be opened
  //   kInvalidArgument     not a GGUF file at all
  //   kCorrupt             truncated (with needed and present bytes), contradicting itself,
  //                        duplicate names, impossible counts
  //   kUnsupported         version, byte order, nested arrays, a tensor type we can't compute with
  static Result<GgufFile> open(const std::string& path);

  GgufFile(GgufFile&&) = default;
  GgufFile& operator=(GgufFile&&) = default;

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  uint64_t size_bytes() const { return map_.bytes().size(); }
  uint64_t alignment() const { return alignment_; }
  uint64_t data_offset() const { return data_offset_; }

  // In file order.
  std::span<const MetadataValue> metadata() const { return metadata_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }

  // Null when absent.
  const MetadataValue* find(std::string_view key) const;
  const TensorInfo* find_tensor(std::string_view name) const;

  // The value of a key that must be there: kNotFound naming it, kInvalidArgument for another type.
  Result<uint64_t> uint_at(std::string_view key) const;
  Result<double> float_at(std::string_view key) const;
  Result<bool> bool_at(std::string_view key) const;
  Result<std::string_view> string_at(std::string_view key) const;
  Result<std::span<const std::string_view>> strings_at(std::string_view key) const;

  // The bytes as they lie in the file. Requires: tensor belongs to this file.
  std::span<const std::byte> tensor_bytes(const TensorInfo& tensor) const;

  // 32 hexadecimal digits that identify the model in a handshake: XXH3-128 over the whole file up
  // to 1 GiB; above that over its header and evenly spaced windows of every tensor. Reads that
  // much on every call (10 ms for 100 MB in memory): call once, keep the result. Not
  // cryptographic: it finds mistakes, not attackers.
  std::string digest() const;

 private:
  friend class GgufParser;
  GgufFile(std::string path, MappedFile map);

  std::string path_;
  MappedFile map_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 0;
  uint64_t data_offset_ = 0;
  std::vector<MetadataValue> metadata_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, size_t> key_index_;
  std::map<std::string_view, size_t> tensor_index_;
};

}  // namespace tandem::format
