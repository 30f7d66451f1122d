#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/format/gguf_file.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

namespace tandem::format {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Truncation : public testing::Test {
 protected:
  void SetUp() override {
    path_ = directory_.file("cut.gguf");
    const std::vector<std::byte> bytes =
        support::read_file(support::golden_model_path("Q4_1"));
    size_bytes_ = bytes.size();
    support::write_file(path_, bytes);
  }

  // Requires: not more than the cut before.
  Result<GgufFile> open_first(uint64_t num_bytes) {
    CHECK_LE(num_bytes, size_bytes_);
    size_bytes_ = num_bytes;
    support::resize_file(path_, num_bytes);
    return GgufFile::open(path_);
  }

  support::TemporaryDirectory directory_;
  std::string path_;
  uint64_t size_bytes_ = 0;  // of the file now
};

TEST_F(Truncation, AtEvery64thOfTheFileIsRefusedWithNeededAndPresentBytes) {
  const uint64_t whole = size_bytes_;
  for (uint64_t i = 64; i-- > 0;) {
    SCOPED_TRACE(i);
    const Result<GgufFile> file = open_first(whole * i / 64);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
    // In the first bytes a count may be what can't be right any more.
    EXPECT_THAT(file.error().message,
                testing::AnyOf(AllOf(HasSubstr("truncated: "), HasSubstr(" present")),
                               AllOf(HasSubstr("number of "), HasSubstr(" present"))));
  }
}

TEST_F(Truncation, OneByteBeforeTheEndOfEachTensorNamesIt) {
  const Result<GgufFile> whole = GgufFile::open(support::golden_model_path("Q4_1"));
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  // The golden file's tensors lie in file order.
  for (size_t i = whole->tensors().size(); i-- > 0;) {
    const TensorInfo& tensor = whole->tensors()[i];
    SCOPED_TRACE(tensor.name);
    const Result<GgufFile> file = open_first(tensor.offset + tensor.size_bytes - 1);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().field, tensor.name);
    EXPECT_THAT(file.error().message,
                HasSubstr("truncated: tensor '" + std::string(tensor.name) + "' needs " +
                          std::to_string(tensor.size_bytes) + " bytes at offset " +
                          std::to_string(tensor.offset) + ", " +
                          std::to_string(tensor.size_bytes - 1) + " present"));
  }
}

// Steps through most of it, then every byte of the header and of the first keys.
TEST_F(Truncation, AnywhereInTheHeaderIsRefused) {
  const Result<GgufFile> whole = GgufFile::open(support::golden_model_path("Q4_1"));
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  for (uint64_t cut = whole->data_offset(); cut > 0;) {
    cut -= cut > 600 ? 61 : 1;
    const Result<GgufFile> file = open_first(cut);
    ASSERT_FALSE(file.ok()) << cut;
    EXPECT_EQ(file.error().code, ErrorCode::kCorrupt) << file.error().message;
  }
}

TEST_F(Truncation, TheWholeFileLoads) { EXPECT_TRUE(open_first(size_bytes_).ok()); }

}  // namespace
}  // namespace tandem::format
