#include "model/format/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace tandem::format {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8;  // the format wants a multiple of 8
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr std::string_view kAlignmentKey = "general.alignment";

// The smallest possible records: a count that needs more bytes than the file has is refused
// before anything is allocated.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;            // length, type, one byte
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // length, num_dims, one dim, type, offset
constexpr uint64_t kMinStringBytes = 8;

// Far above any real model (about 1,100 tensors, 50 keys, 300k strings), small enough that the
// indexes of a hostile file stay below 50 MB.
constexpr uint64_t kMaxTensors = 1 << 16;
constexpr uint64_t kMaxKeys = 1 << 16;
constexpr uint64_t kMaxArrayStrings = 1 << 20;
constexpr uint64_t kMaxKeyLength = 65535;  // the format's own limit
constexpr uint64_t kMaxNameLength = 64;    // the format's own limit

Error corrupt(std::string message, std::string_view field = {}) {
  return {ErrorCode::kCorrupt, std::move(message), std::string(field)};
}

Error unsupported(std::string message, std::string_view field = {}) {
  return {ErrorCode::kUnsupported, std::move(message), std::string(field)};
}

std::string str(uint64_t number) { return std::to_string(number); }

// A count from the file against what its records need at least and against our limit.
Status check_count(const std::string& what, uint64_t count, uint64_t min_bytes_each,
                   uint64_t present_bytes, uint64_t limit) {
  if (count > present_bytes / min_bytes_each) {
    return corrupt(what + " is " + str(count) + ", which needs at least " +
                   str(min_bytes_each) + " bytes each, " + str(present_bytes) + " present");
  }
  if (count > limit) {
    return unsupported(what + " is " + str(count) + ", the limit is " + str(limit));
  }
  return {};
}

}  // namespace

Status GgufParser::parse() {
  const Result<Counts> counts = parse_header();
  if (!counts.ok()) return counts.error();
  for (uint64_t i = 0; i < counts->num_keys; ++i) {
    if (Status parsed = parse_key(i); !parsed.ok()) return parsed;
  }
  if (Status read = read_alignment(); !read.ok()) return read;
  for (uint64_t i = 0; i < counts->num_tensors; ++i) {
    if (Status parsed = parse_tensor(i); !parsed.ok()) return parsed;
  }
  if (Status placed = place_tensors(); !placed.ok()) return placed;
  return check_overlaps();
}

Result<GgufParser::Counts> GgufParser::parse_header() {
  const std::span<const std::byte> bytes = file_.map_.bytes();
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kMagic.size()));
  if (head != kMagic.substr(0, head.size())) {
    return Error{ErrorCode::kInvalidArgument,
                 "not a GGUF file: it begins with " + quoted(head) + ", not 'GGUF'", {}};
  }
  cursor_.take(kMagic.size());
  file_.version_ = cursor_.read<uint32_t>();
  Counts counts;
  counts.num_tensors = cursor_.read<uint64_t>();
  counts.num_keys = cursor_.read<uint64_t>();
  if (cursor_.failed()) return cursor_.status().error();
  if (const uint32_t swapped = __builtin_bswap32(file_.version_);
      file_.version_ > 0xffff && swapped <= 0xffff) {
    return unsupported("big-endian GGUF (version " + str(swapped) + "); convert it first");
  }
  if (file_.version_ != 2 && file_.version_ != 3) {
    return unsupported("GGUF version " + str(file_.version_) + "; versions 2 and 3 are supported");
  }
  // Both counts compete for the same bytes; each is bounded by all of them.
  if (Status ok = check_count("number of metadata keys", counts.num_keys, kMinKeyBytes,
                              cursor_.remaining(), kMaxKeys); !ok.ok()) {
    return ok.error();
  }
  if (Status ok = check_count("number of tensors", counts.num_tensors, kMinTensorBytes,
                              cursor_.remaining(), kMaxTensors); !ok.ok()) {
    return ok.error();
  }
  return counts;
}

Status GgufParser::parse_key(uint64_t index) {
  cursor_.set_subject("metadata key #" + str(index), {});
  MetadataValue::Parts parts;
  parts.key = cursor_.read_string();
  if (cursor_.failed()) return cursor_.status();
  if (parts.key.empty() || parts.key.size() > kMaxKeyLength) {
    return corrupt("metadata key #" + str(index) + " has a name of " + str(parts.key.size()) +
                   " bytes, 1 to " + str(kMaxKeyLength) + " are allowed");
  }
  cursor_.set_subject("metadata key " + quoted(parts.key), parts.key);
  parts.type = static_cast<ValueType>(cursor_.read<uint32_t>());
  if (Status parsed = parse_value(parts); !parsed.ok()) return parsed;
  if (!file_.key_index_.emplace(parts.key, file_.metadata_.size()).second) {
    return corrupt("metadata key " + quoted(parts.key) + " appears twice", parts.key);
  }
  file_.metadata_.emplace_back(std::move(parts));
  return {};
}

Status GgufParser::parse_value(MetadataValue::Parts& parts) {
  if (parts.type == ValueType::kArray) return parse_array(parts);
  if (parts.type == ValueType::kString) {
    const std::string_view text = cursor_.read_string();
    parts.raw = std::as_bytes(std::span(text));
    return cursor_.status();
  }
  const size_t size = value_type_bytes(parts.type);
  if (!cursor_.failed() && size == 0) {
    return corrupt("metadata key " + quoted(parts.key) + " has the unknown value type " +
                       str(static_cast<uint32_t>(parts.type)), parts.key);
  }
  parts.raw = cursor_.take(size);
  if (cursor_.failed()) return cursor_.status();
  if (parts.type == ValueType::kBool && parts.raw[0] > std::byte{1}) {
    return corrupt("metadata key " + quoted(parts.key) + " is a bool with the value " +
                       str(std::to_integer<uint64_t>(parts.raw[0])), parts.key);
  }
  return {};
}

Status GgufParser::parse_array(MetadataValue::Parts& parts) {
  parts.element_type = static_cast<ValueType>(cursor_.read<uint32_t>());
  parts.num_elements = cursor_.read<uint64_t>();
  if (cursor_.failed()) return cursor_.status();
  const std::string what = "number of elements of metadata key " + quoted(parts.key);
  if (parts.element_type == ValueType::kArray) {
    return unsupported("metadata key " + quoted(parts.key) + " is an array of arrays", parts.key);
  }
  const bool strings = parts.element_type == ValueType::kString;
  const uint64_t each = strings ? kMinStringBytes : value_type_bytes(parts.element_type);
  if (each == 0) {
    return corrupt("metadata key " + quoted(parts.key) + " has the unknown element type " +
                       str(static_cast<uint32_t>(parts.element_type)), parts.key);
  }
  const uint64_t limit = strings ? kMaxArrayStrings : UINT64_MAX;
  if (Status ok = check_count(what, parts.num_elements, each, cursor_.remaining(), limit);
      !ok.ok()) {
    Error error = ok.error();
    error.field = parts.key;
    return error;
  }
  if (!strings) {
    parts.raw = cursor_.take(parts.num_elements * each);
    return cursor_.status();
  }
  parts.strings.reserve(parts.num_elements);
  for (uint64_t i = 0; i < parts.num_elements && !cursor_.failed(); ++i) {
    parts.strings.push_back(cursor_.read_string());
  }
  return cursor_.status();
}

Status GgufParser::read_alignment() {
  file_.alignment_ = kDefaultAlignment;
  const MetadataValue* value = file_.find(kAlignmentKey);
  if (value == nullptr) return {};
  const Result<uint64_t> alignment = value->as_uint();
  if (!alignment.ok()) return alignment.error();
  if (!std::has_single_bit(*alignment) || *alignment < kMinAlignment ||
      *alignment > kMaxAlignment) {
    return corrupt("general.alignment is " + str(*alignment) + ", it must be a power of two from " +
                       str(kMinAlignment) + " to " + str(kMaxAlignment), kAlignmentKey);
  }
  file_.alignment_ = *alignment;
  return {};
}

Status GgufParser::parse_tensor(uint64_t index) {
  cursor_.set_subject("tensor #" + str(index), {});
  TensorInfo tensor;
  tensor.name = cursor_.read_string();
  if (cursor_.failed()) return cursor_.status();
  if (tensor.name.empty() || tensor.name.size() > kMaxNameLength) {
    return corrupt("tensor #" + str(index) + " has a name of " + str(tensor.name.size()) +
                   " bytes, 1 to " + str(kMaxNameLength) + " are allowed");
  }
  cursor_.set_subject("description of tensor " + quoted(tensor.name), tensor.name);
  if (Status parsed = parse_dims(tensor); !parsed.ok()) return parsed;
  const uint32_t type_id = cursor_.read<uint32_t>();
  tensor.offset = cursor_.read<uint64_t>();
  if (cursor_.failed()) return cursor_.status();
  if (Status sized = size_tensor(tensor, type_id); !sized.ok()) return sized;
  if (!file_.tensor_index_.emplace(tensor.name, file_.tensors_.size()).second) {
    return corrupt("tensor " + quoted(tensor.name) + " appears twice", tensor.name);
  }
  file_.tensors_.push_back(tensor);
  return {};
}

Status GgufParser::parse_dims(TensorInfo& tensor) {
  const uint32_t num_dims = cursor_.read<uint32_t>();
  if (cursor_.failed()) return cursor_.status();
  if (num_dims < 1 || num_dims > kMaxTensorDims) {
    return corrupt("tensor " + quoted(tensor.name) + " has " + str(num_dims) +
                       " dimensions, 1 to " + str(kMaxTensorDims) + " are allowed", tensor.name);
  }
  tensor.num_dims = static_cast<int>(num_dims);
  uint64_t product = 1;
  for (size_t i = 0; i < num_dims; ++i) {
    tensor.dims[i] = cursor_.read<uint64_t>();
    if (cursor_.failed()) return cursor_.status();
    if (tensor.dims[i] == 0) {
      return corrupt("dimension " + str(i) + " of tensor " + quoted(tensor.name) + " is 0",
                     tensor.name);
    }
    if (__builtin_mul_overflow(product, tensor.dims[i], &product)) {
      const std::string shape = shape_text(std::span(tensor.dims).first(i + 1));
      return corrupt("the dimensions " + shape + " of tensor " + quoted(tensor.name) +
                         " have a product past 2^64", tensor.name);
    }
  }
  return {};
}

// Row length before support: a wrong row is named as such for every type whose block we know.
Status GgufParser::size_tensor(TensorInfo& tensor, uint32_t type_id) {
  const TensorTypeInfo* type = find_tensor_type(type_id);
  const std::string of_tensor = " of tensor " + quoted(tensor.name);
  if (type == nullptr) {
    return unsupported("unsupported type #" + str(type_id) + of_tensor + " (supported: " +
                           supported_tensor_types() + ")", tensor.name);
  }
  if (tensor.row_length() % type->block_elements != 0) {
    return corrupt("row length " + str(tensor.row_length()) + of_tensor +
                       " is not a multiple of the " + type->name + " block of " +
                       str(type->block_elements), tensor.name);
  }
  if (!type->supported) {
    return unsupported(std::string("unsupported type ") + type->name + of_tensor +
                           " (supported: " + supported_tensor_types() + ")", tensor.name);
  }
  tensor.type = static_cast<TensorType>(type_id);
  const std::optional<uint64_t> size =
      tensor_size_bytes(*type, tensor.row_length(), tensor.num_rows());
  if (!size) {
    return corrupt("the dimensions " + shape_text(tensor) + of_tensor + " give a size past 2^64",
                   tensor.name);
  }
  tensor.size_bytes = *size;
  return {};
}

Status GgufParser::place_tensors() {
  const uint64_t file_size = file_.size_bytes();
  const uint64_t mask = file_.alignment_ - 1;
  file_.data_offset_ = (cursor_.offset() + mask) & ~mask;
  for (TensorInfo& tensor : file_.tensors_) {
    if ((tensor.offset & mask) != 0) {
      return corrupt("offset " + str(tensor.offset) + " of tensor " + quoted(tensor.name) +
                         " is not a multiple of the alignment " + str(file_.alignment_),
                     tensor.name);
    }
    uint64_t begin = 0;
    uint64_t end = 0;
    if (__builtin_add_overflow(file_.data_offset_, tensor.offset, &begin) ||
        __builtin_add_overflow(begin, tensor.size_bytes, &end)) {
      return corrupt("offset " + str(tensor.offset) + " and size " + str(tensor.size_bytes) +
                         " of tensor " + quoted(tensor.name) + " add up past 2^64", tensor.name);
    }
    if (end > file_size) {
      const uint64_t present = begin < file_size ? file_size - begin : 0;
      return corrupt("truncated: tensor " + quoted(tensor.name) + " needs " +
                         str(tensor.size_bytes) + " bytes at offset " + str(begin) + ", " +
                         str(present) + " present (file size " + str(file_size) + ")",
                     tensor.name);
    }
    tensor.offset = begin;
  }
  return {};
}

Status GgufParser::check_overlaps() const {
  std::vector<size_t> order(file_.tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return file_.tensors_[a].offset < file_.tensors_[b].offset;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = file_.tensors_[order[i - 1]];
    const TensorInfo& after = file_.tensors_[order[i]];
    if (before.offset + before.size_bytes > after.offset) {
      return corrupt("tensor " + quoted(after.name) + " at offset " + str(after.offset) +
                         " overlaps tensor " + quoted(before.name) + ", which ends at " +
                         str(before.offset + before.size_bytes), after.name);
    }
  }
  return {};
}

}  // namespace tandem::format
