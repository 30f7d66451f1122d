#include "tests/support/gguf_writer.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "comm/runtime/check.h"

namespace tandem::support {
namespace {

uint32_t id(format::ValueType type) { return static_cast<uint32_t>(type); }

}  // namespace

ByteWriter& ByteWriter::put_bytes(std::span<const std::byte> raw) {
  bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  return *this;
}

ByteWriter& ByteWriter::put_string(std::string_view text) {
  put(uint64_t{text.size()});
  return put_bytes(std::as_bytes(std::span(text)));
}

void ByteWriter::pad_to(size_t alignment) {
  bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
}

void GgufWriter::add_uint(const std::string& key, uint32_t value) {
  add_raw(key, ByteWriter().put(id(format::ValueType::kUint32)).put(value));
}

void GgufWriter::add_float(const std::string& key, float value) {
  add_raw(key, ByteWriter().put(id(format::ValueType::kFloat32)).put(value));
}

void GgufWriter::add_bool(const std::string& key, bool value) {
  add_raw(key, ByteWriter().put(id(format::ValueType::kBool)).put(uint8_t{value}));
}

void GgufWriter::add_string(const std::string& key, std::string_view value) {
  add_raw(key, ByteWriter().put(id(format::ValueType::kString)).put_string(value));
}

void GgufWriter::add_strings(const std::string& key, std::span<const std::string> values) {
  ByteWriter out;
  out.put(id(format::ValueType::kArray)).put(id(format::ValueType::kString));
  out.put(uint64_t{values.size()});
  for (const std::string& value : values) out.put_string(value);
  add_raw(key, out);
}

void GgufWriter::add_raw(const std::string& key, const ByteWriter& type_and_value) {
  ByteWriter entry;
  entry.put_string(key).put_bytes(type_and_value.bytes());
  keys_.push_back({key, std::move(entry)});
}

void GgufWriter::add_copy(const format::MetadataValue& value) {
  ByteWriter out;
  out.put(id(value.type()));
  if (value.type() == format::ValueType::kString) {
    out.put_string(value.as_string().value());
  } else if (value.type() == format::ValueType::kArray) {
    out.put(id(value.element_type())).put(value.num_elements());
    if (value.element_type() == format::ValueType::kString) {
      const std::span<const std::string_view> texts = value.as_strings().value();
      for (const std::string_view text : texts) out.put_string(text);
    } else {
      out.put_bytes(value.raw());
    }
  } else {
    out.put_bytes(value.raw());
  }
  add_raw(std::string(value.key()), out);
}

void GgufWriter::add_tensor(WrittenTensor tensor) { tensors_.push_back(std::move(tensor)); }

bool GgufWriter::has_key(const std::string& key) const {
  return std::any_of(keys_.begin(), keys_.end(),
                     [&](const Entry& entry) { return entry.key == key; });
}

void GgufWriter::drop_key(const std::string& key) {
  CHECK(std::erase_if(keys_, [&](const Entry& entry) { return entry.key == key; }) > 0);
}

void GgufWriter::drop_tensor(const std::string& name) {
  CHECK(std::erase_if(tensors_, [&](const WrittenTensor& t) { return t.name == name; }) > 0);
}

WrittenTensor& GgufWriter::tensor(const std::string& name) {
  for (WrittenTensor& tensor : tensors_) {
    if (tensor.name == name) return tensor;
  }
  check_failed(__FILE__, __LINE__, "no tensor of that name");
}

std::vector<std::byte> GgufWriter::bytes() {
  ByteWriter out;
  out.put_bytes(std::as_bytes(std::span(magic))).put(version);
  out.put(num_tensors.value_or(tensors_.size())).put(num_keys.value_or(keys_.size()));
  for (const Entry& entry : keys_) out.put_bytes(entry.bytes.bytes());
  uint64_t next = 0;
  for (WrittenTensor& tensor : tensors_) {
    tensor.begin = next;
    out.put_string(tensor.name);
    out.put(tensor.num_dims.value_or(static_cast<uint32_t>(tensor.dims.size())));
    for (const uint64_t dim : tensor.dims) out.put(dim);
    out.put(tensor.type_id).put(tensor.offset.value_or(next));
    next = (next + tensor.data.size() + alignment - 1) / alignment * alignment;
  }
  out.pad_to(alignment);
  const uint64_t data_begin = out.bytes().size();
  for (WrittenTensor& tensor : tensors_) {
    tensor.begin += data_begin;
    out.put_bytes(tensor.data);
    out.pad_to(alignment);
  }
  return out.bytes();
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  CHECK(out.good());
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  CHECK(in.good());
  std::vector<std::byte> bytes(static_cast<size_t>(in.tellg()));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  CHECK(in.good());
  return bytes;
}

void patch_file(const std::string& path, uint64_t offset, std::span<const std::byte> bytes) {
  std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
  out.seekp(static_cast<std::streamoff>(offset));
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  CHECK(out.good());
}

void resize_file(const std::string& path, uint64_t num_bytes) {
  std::error_code failed;
  std::filesystem::resize_file(path, num_bytes, failed);
  CHECK(!failed);
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
  CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tandem::support
