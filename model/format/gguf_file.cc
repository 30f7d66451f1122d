#include "model/format/gguf_file.h"

#include <utility>

#include <xxhash.h>

#include "model/format/gguf_parser.h"

namespace tandem::format {
namespace {

constexpr uint64_t kWholeDigestBytes = uint64_t{1} << 30;
constexpr uint64_t kWindowBytes = uint64_t{1} << 16;
constexpr uint64_t kWindowsPerTensor = 16;

class Digest {
 public:
  Digest() : state_(XXH3_createState()) {
    CHECK(state_ != nullptr);
    XXH3_128bits_reset(state_);
  }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  ~Digest() { XXH3_freeState(state_); }

  void add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_, bytes.data(), bytes.size());
  }
  void add(uint64_t number) { XXH3_128bits_update(state_, &number, sizeof number); }

  std::string hex() const {
    constexpr char kHex[] = "0123456789abcdef";
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_));
    std::string text;
    for (const unsigned char byte : canonical.digest) {
      text += kHex[byte >> 4];
      text += kHex[byte & 15];
    }
    return text;
  }

 private:
  XXH3_state_t* state_;
};

// First and last window always, the others evenly between them.
void add_windows(Digest& digest, std::span<const std::byte> bytes) {
  if (bytes.size() <= kWindowsPerTensor * kWindowBytes) return digest.add(bytes);
  const uint64_t stride = (bytes.size() - kWindowBytes) / (kWindowsPerTensor - 1);
  for (uint64_t i = 0; i + 1 < kWindowsPerTensor; ++i) {
    digest.add(bytes.subspan(i * stride, kWindowBytes));
  }
  digest.add(bytes.last(kWindowBytes));
}

Error missing_key(std::string_view key) {
  return {ErrorCode::kNotFound, "metadata key " + quoted(key) + " is missing", std::string(key)};
}

}  // namespace

std::string shape_text(std::span<const uint64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

GgufFile::GgufFile(std::string path, MappedFile map)
    : path_(std::move(path)), map_(std::move(map)) {}

Result<GgufFile> GgufFile::open(const std::string& path) {
  Result<MappedFile> map = MappedFile::open(path);
  if (!map.ok()) return std::move(map).error();
  GgufFile file(path, std::move(map).value());
  GgufParser parser(file);
  if (Status parsed = parser.parse(); !parsed.ok()) {
    Error error = parsed.error();
    error.message = path + ": " + error.message;
    return error;
  }
  return file;
}

const MetadataValue* GgufFile::find(std::string_view key) const {
  const auto found = key_index_.find(key);
  return found == key_index_.end() ? nullptr : &metadata_[found->second];
}

const TensorInfo* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<uint64_t> GgufFile::uint_at(std::string_view key) const {
  const MetadataValue* value = find(key);
  return value != nullptr ? value->as_uint() : missing_key(key);
}

Result<double> GgufFile::float_at(std::string_view key) const {
  const MetadataValue* value = find(key);
  return value != nullptr ? value->as_float() : missing_key(key);
}

Result<bool> GgufFile::bool_at(std::string_view key) const {
  const MetadataValue* value = find(key);
  return value != nullptr ? value->as_bool() : missing_key(key);
}

Result<std::string_view> GgufFile::string_at(std::string_view key) const {
  const MetadataValue* value = find(key);
  return value != nullptr ? value->as_string() : missing_key(key);
}

Result<std::span<const std::string_view>> GgufFile::strings_at(std::string_view key) const {
  const MetadataValue* value = find(key);
  return value != nullptr ? value->as_strings() : missing_key(key);
}

std::span<const std::byte> GgufFile::tensor_bytes(const TensorInfo& tensor) const {
  CHECK(tensor.offset <= size_bytes() && tensor.size_bytes <= size_bytes() - tensor.offset);
  return map_.bytes().subspan(tensor.offset, tensor.size_bytes);
}

std::string GgufFile::digest() const {
  Digest digest;
  digest.add(size_bytes());
  if (size_bytes() <= kWholeDigestBytes) {
    digest.add(map_.bytes());
    return digest.hex();
  }
  digest.add(map_.bytes().first(data_offset_));
  for (const TensorInfo& tensor : tensors_) add_windows(digest, tensor_bytes(tensor));
  return digest.hex();
}

}  // namespace tandem::format
