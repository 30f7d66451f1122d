// Files that lie. Each must be refused by name, at once, with little memory.

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/format/gguf_file.h"
#include "tests/support/gguf_writer.h"

namespace tandem::format {
namespace {

using support::ByteWriter;
using support::GgufWriter;
using testing::HasSubstr;

constexpr uint64_t kHugeCounts[] = {uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}};
constexpr long kMaxGrowthKib = 64 << 10;
constexpr auto kMaxTime = std::chrono::seconds(3);  // 1 s promised

uint32_t id(ValueType type) { return static_cast<uint32_t>(type); }
uint32_t id(TensorType type) { return static_cast<uint32_t>(type); }

long peak_kib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// One key and one F32 tensor "w" of [8, 2].
GgufWriter small_file() {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_tensor({.name = "w", .dims = {8, 2}, .data = std::vector<std::byte>(64)});
  return writer;
}

class HostileFile : public testing::Test {
 protected:
  Result<GgufFile> open(std::span<const std::byte> bytes) {
    const std::string path = directory_.file("x.gguf");
    support::write_file(path, bytes);
    const long before = peak_kib();
    const auto start = std::chrono::steady_clock::now();
    Result<GgufFile> file = GgufFile::open(path);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kMaxTime);
    EXPECT_LT(peak_kib() - before, kMaxGrowthKib);
    return file;
  }
  Result<GgufFile> open(GgufWriter writer) { return open(writer.bytes()); }

  void expect_refused(GgufWriter writer, ErrorCode code, const std::string& part,
                      const std::string& field = {}) {
    const Result<GgufFile> file = open(std::move(writer));
    ASSERT_FALSE(file.ok()) << "loaded, expected: " << part;
    EXPECT_EQ(file.error().code, code) << file.error().message;
    EXPECT_THAT(file.error().message, HasSubstr(part));
    EXPECT_THAT(file.error().message, HasSubstr("x.gguf"));
    EXPECT_EQ(file.error().field, field) << file.error().message;
  }

  support::TemporaryDirectory directory_;
};

TEST_F(HostileFile, TheSmallFileItselfLoads) {
  const Result<GgufFile> file = open(small_file());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->find_tensor("w")->size_bytes, 64u);
  GgufWriter version_2 = small_file();
  version_2.version = 2;
  EXPECT_TRUE(open(version_2).ok());
}

TEST_F(HostileFile, Counts) {
  for (const uint64_t count : kHugeCounts) {
    GgufWriter keys = small_file();
    keys.num_keys = count;
    expect_refused(keys, ErrorCode::kCorrupt, "number of metadata keys is");
    GgufWriter tensors = small_file();
    tensors.num_tensors = count;
    expect_refused(tensors, ErrorCode::kCorrupt, "number of tensors is");
  }
}

TEST_F(HostileFile, OneKeyOrTensorTooMany) {
  GgufWriter keys = small_file();
  keys.num_keys = 2;
  EXPECT_FALSE(open(keys).ok());
  GgufWriter tensors = small_file();
  tensors.num_tensors = 2;
  EXPECT_FALSE(open(tensors).ok());
}

TEST_F(HostileFile, StringAndArrayLengths) {
  for (const uint64_t length : kHugeCounts) {
    GgufWriter text = small_file();
    text.add_raw("k.text", ByteWriter().put(id(ValueType::kString)).put(length));
    expect_refused(text, ErrorCode::kCorrupt, "truncated: metadata key 'k.text' needs", "k.text");
    for (const ValueType element : {ValueType::kString, ValueType::kInt32, ValueType::kUint8}) {
      GgufWriter array = small_file();
      array.add_raw("k.array",
                    ByteWriter().put(id(ValueType::kArray)).put(id(element)).put(length));
      expect_refused(array, ErrorCode::kCorrupt, "number of elements of metadata key 'k.array' is",
                     "k.array");
    }
  }
}

TEST_F(HostileFile, KeyLength) {
  ByteWriter bytes;
  bytes.put_bytes(std::as_bytes(std::span("GGUF", 4))).put(uint32_t{3});
  bytes.put(uint64_t{0}).put(uint64_t{1}).put(~uint64_t{0});
  bytes.pad_to(128);
  const Result<GgufFile> file = open(bytes.bytes());
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message, HasSubstr("metadata key #0 needs 18446744073709551615 bytes"));
}

TEST_F(HostileFile, EmptyStringsByTheMillionStayUnderTheLimit) {
  GgufWriter writer = small_file();
  ByteWriter array;
  const uint64_t count = (1 << 20) + 1;
  array.put(id(ValueType::kArray)).put(id(ValueType::kString)).put(count);
  array.put_bytes(std::vector<std::byte>(count * 8));
  writer.add_raw("k.array", array);
  expect_refused(writer, ErrorCode::kUnsupported, "the limit is 1048576", "k.array");
}

TEST_F(HostileFile, NestedArraysAreNotSupported) {
  GgufWriter writer = small_file();
  ByteWriter array;
  for (int depth = 0; depth < 10000; ++depth) {
    array.put(id(ValueType::kArray)).put(uint64_t{1});
  }
  writer.add_raw("k.nested", ByteWriter().put(id(ValueType::kArray)).put_bytes(array.bytes()));
  expect_refused(writer, ErrorCode::kUnsupported, "'k.nested' is an array of arrays", "k.nested");
}

TEST_F(HostileFile, UnknownValueAndElementTypes) {
  GgufWriter value = small_file();
  value.add_raw("k.odd", ByteWriter().put(uint32_t{13}).put(uint64_t{0}));
  expect_refused(value, ErrorCode::kCorrupt, "unknown value type 13", "k.odd");
  GgufWriter element = small_file();
  element.add_raw("k.odd", ByteWriter().put(id(ValueType::kArray)).put(~uint32_t{0})
                               .put(uint64_t{1}).put(uint64_t{0}));
  expect_refused(element, ErrorCode::kCorrupt, "unknown element type 4294967295", "k.odd");
  GgufWriter flag = small_file();
  flag.add_raw("k.flag", ByteWriter().put(id(ValueType::kBool)).put(uint8_t{2}));
  expect_refused(flag, ErrorCode::kCorrupt, "'k.flag' is a bool with the value 2", "k.flag");
}

TEST_F(HostileFile, Dimensions) {
  struct Case { std::vector<uint64_t> dims; const char* part; };
  const uint64_t big = uint64_t{1} << 63;
  const Case cases[] = {
      {{(uint64_t{1} << 42) + 1}, "truncated: tensor 'w' needs 17592186044420 bytes at offset"},
      {{big, 2}, "[9223372036854775808, 2] of tensor 'w' have a product past 2^64"},
      {{~uint64_t{0}, 2}, "of tensor 'w' have a product past 2^64"},
      {{big}, "[9223372036854775808] of tensor 'w' give a size past 2^64"},
      {{uint64_t{1} << 32, uint64_t{1} << 32}, "of tensor 'w' have a product past 2^64"},
      {{65536, 65536, 65536, 65536}, "of tensor 'w' have a product past 2^64"},
      {{0}, "dimension 0 of tensor 'w' is 0"},
      {{8, 0}, "dimension 1 of tensor 'w' is 0"},
      {{0, ~uint64_t{0}}, "dimension 0 of tensor 'w' is 0"},
  };
  for (const Case& c : cases) {
    GgufWriter writer = small_file();
    writer.tensor("w").dims = c.dims;
    expect_refused(writer, ErrorCode::kCorrupt, c.part, "w");
  }
  for (const uint32_t num_dims : {0u, 5u, ~0u}) {
    GgufWriter writer = small_file();
    writer.tensor("w").num_dims = num_dims;
    expect_refused(writer, ErrorCode::kCorrupt, "1 to 4 are allowed", "w");
  }
}

TEST_F(HostileFile, Offsets) {
  struct Case { uint64_t offset; const char* part; };
  const Case cases[] = {
      {1, "offset 1 of tensor 'w' is not a multiple of the alignment 32"},
      {~uint64_t{31}, "of tensor 'w' add up past 2^64"},
      {~uint64_t{31} - 128, "of tensor 'w' add up past 2^64"},
      {uint64_t{1} << 62, "truncated: tensor 'w' needs 64 bytes at offset"},
      {32, "truncated: tensor 'w' needs 64 bytes at offset"},
  };
  for (const Case& c : cases) {
    GgufWriter writer = small_file();
    writer.tensor("w").offset = c.offset;
    expect_refused(writer, ErrorCode::kCorrupt, c.part, "w");
  }
}

TEST_F(HostileFile, OverlappingTensors) {
  GgufWriter writer = small_file();
  writer.add_tensor({.name = "v", .dims = {8}, .data = std::vector<std::byte>(32), .offset = 32});
  expect_refused(writer, ErrorCode::kCorrupt, "tensor 'v' at offset", "v");
  GgufWriter same = small_file();
  same.add_tensor({.name = "v", .dims = {8}, .data = std::vector<std::byte>(32), .offset = 0});
  const Result<GgufFile> file = open(same);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message, HasSubstr("overlaps tensor"));
}

TEST_F(HostileFile, DuplicateNames) {
  GgufWriter keys = small_file();
  keys.add_string("general.architecture", "other");
  expect_refused(keys, ErrorCode::kCorrupt, "'general.architecture' appears twice",
                 "general.architecture");
  GgufWriter tensors = small_file();
  tensors.add_tensor({.name = "w", .dims = {8}, .data = std::vector<std::byte>(32)});
  expect_refused(tensors, ErrorCode::kCorrupt, "tensor 'w' appears twice", "w");
}

TEST_F(HostileFile, Names) {
  GgufWriter empty = small_file();
  empty.tensor("w").name = "";
  expect_refused(empty, ErrorCode::kCorrupt, "tensor #0 has a name of 0 bytes");
  GgufWriter long_name = small_file();
  long_name.tensor("w").name = std::string(65, 'n');
  expect_refused(long_name, ErrorCode::kCorrupt, "tensor #0 has a name of 65 bytes");
  // Bytes of a name never reach a terminal as they are.
  GgufWriter binary = small_file();
  binary.tensor("w").name = "\x1b[2J";
  binary.tensor("\x1b[2J").type_id = 11;
  binary.tensor("\x1b[2J").dims = {256};
  expect_refused(binary, ErrorCode::kUnsupported, "tensor '\\x1b[2J'", "\x1b[2J");
}

TEST_F(HostileFile, Alignment) {
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 1u << 21, 1u << 31}) {
    GgufWriter writer = small_file();
    writer.add_uint("general.alignment", alignment);
    expect_refused(writer, ErrorCode::kCorrupt, "it must be a power of two", "general.alignment");
  }
  GgufWriter text = small_file();
  text.add_string("general.alignment", "32");
  expect_refused(text, ErrorCode::kInvalidArgument, "must be an integer", "general.alignment");
}

TEST_F(HostileFile, TypesThatCantBeComputedWithAreNotCalledCorrupt) {
  GgufWriter k_type = small_file();
  k_type.tensor("w").type_id = 11;
  k_type.tensor("w").dims = {256, 2};
  expect_refused(k_type, ErrorCode::kUnsupported, "unsupported type Q3_K of tensor 'w'", "w");
  GgufWriter unknown = small_file();
  unknown.tensor("w").type_id = 4711;
  expect_refused(unknown, ErrorCode::kUnsupported, "unsupported type #4711 of tensor 'w'", "w");
}

TEST_F(HostileFile, RowsThatHoldNoWholeBlocks) {
  GgufWriter q8 = small_file();
  q8.tensor("w").type_id = id(TensorType::kQ8_0);
  q8.tensor("w").dims = {48, 2};
  expect_refused(q8, ErrorCode::kCorrupt,
                 "row length 48 of tensor 'w' is not a multiple of the Q8_0 block of 32", "w");
  GgufWriter q4_k = small_file();
  q4_k.tensor("w").type_id = 12;
  q4_k.tensor("w").dims = {896, 2};
  expect_refused(q4_k, ErrorCode::kCorrupt,
                 "row length 896 of tensor 'w' is not a multiple of the Q4_K block of 256", "w");
}

TEST_F(HostileFile, OtherContainers) {
  GgufWriter magic = small_file();
  magic.magic = "PK\x03\x04";
  expect_refused(magic, ErrorCode::kInvalidArgument, "not a GGUF file");
  GgufWriter version = small_file();
  version.version = 1;
  expect_refused(version, ErrorCode::kUnsupported, "GGUF version 1; versions 2 and 3");
  version.version = 4;
  expect_refused(version, ErrorCode::kUnsupported, "GGUF version 4; versions 2 and 3");
  version.version = 0x03000000;
  expect_refused(version, ErrorCode::kUnsupported, "big-endian GGUF");
}

TEST_F(HostileFile, EmptyFileIsTruncated) {
  const Result<GgufFile> file = open(std::vector<std::byte>());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(file.error().message, HasSubstr("header needs 4 bytes at offset 0, 0 present"));
}

TEST_F(HostileFile, FifoDoesNotBlock) {
  const std::string path = directory_.file("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Result<GgufFile> file = GgufFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message, HasSubstr("not a regular file"));
}

// A valid file may be large: offsets past 4 GiB (sparse on disk).
TEST_F(HostileFile, OffsetsPast4GibAreFine) {
  const uint64_t far = (uint64_t{1} << 32) + 4096;
  GgufWriter writer = small_file();
  writer.tensor("w").offset = far;
  const std::string path = directory_.file("sparse.gguf");
  support::write_file(path, writer.bytes());
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(far + 4096)), 0);
  const Result<GgufFile> file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->find_tensor("w")->offset, file->data_offset() + far);
  EXPECT_EQ(file->tensor_bytes(*file->find_tensor("w")).size(), 64u);
  EXPECT_EQ(file->digest().size(), 32u);
}

}  // namespace
}  // namespace tandem::format
