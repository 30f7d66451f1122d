#pragma once
// Writes small GGUF files for tests: valid ones, and hostile ones, by overriding what the writer
// would have counted. Collects everything in memory; single-threaded. Never validates.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/format/gguf_file.h"

namespace tandem::support {

// Appends little-endian values and strings as the format packs them.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& put(T value) {
    return put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  ByteWriter& put_bytes(std::span<const std::byte> raw);
  ByteWriter& put_string(std::string_view text);
  void pad_to(size_t alignment);

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

struct WrittenTensor {
  std::string name;
  std::vector<uint64_t> dims;              // innermost first
  uint32_t type_id = 0;                    // 0 is F32
  std::vector<std::byte> data = {};
  std::optional<uint64_t> offset = {};     // instead of the next aligned one
  std::optional<uint32_t> num_dims = {};   // instead of dims.size()
  uint64_t begin = 0;                      // in the file; set by GgufWriter::bytes()
};

class GgufWriter {
 public:
  void add_uint(const std::string& key, uint32_t value);
  void add_float(const std::string& key, float value);
  void add_bool(const std::string& key, bool value);
  void add_string(const std::string& key, std::string_view value);
  void add_strings(const std::string& key, std::span<const std::string> values);
  // Anything: the bytes that follow the key, beginning with the value's type id when they are
  // those of a well-formed entry.
  void add_raw(const std::string& key, const ByteWriter& type_and_value);
  // An entry of another file, unchanged.
  void add_copy(const format::MetadataValue& value);
  void add_tensor(WrittenTensor tensor);

  bool has_key(const std::string& key) const;
  // Every entry of that name. CHECKs that there is one.
  void drop_key(const std::string& key);
  void drop_tensor(const std::string& name);
  // Requires: it exists.
  WrittenTensor& tensor(const std::string& name);

  // Overrides for hostile files.
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> num_keys;
  std::optional<uint64_t> num_tensors;
  uint64_t alignment = 32;  // used for the layout; general.alignment is the caller's to add

  // The whole file.
  std::vector<std::byte> bytes();
  const std::vector<WrittenTensor>& tensors() const { return tensors_; }

 private:
  struct Entry {
    std::string key;
    ByteWriter bytes;
  };
  std::vector<Entry> keys_;
  std::vector<WrittenTensor> tensors_;
};

// Creates or replaces. CHECKs success.
void write_file(const std::string& path, std::span<const std::byte> bytes);
std::vector<std::byte> read_file(const std::string& path);
// Overwrites in place, the size stays. CHECKs success.
void patch_file(const std::string& path, uint64_t offset, std::span<const std::byte> bytes);
// CHECKs success.
void resize_file(const std::string& path, uint64_t num_bytes);

// A private directory, removed with everything in it at the end of its life.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tandem::support
