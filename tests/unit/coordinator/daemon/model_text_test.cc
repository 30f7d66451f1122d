#include "coordinator/daemon/model_text.h"

#include <gmock/gmock.h>

#include "comm/runtime/result.h"
#include "tests/support/tiny_model.h"

namespace tandem::coordinator {
namespace {

using testing::HasSubstr;

class ModelFilesTest : public testing::Test {
 protected:
  // A tiny model with a vocabulary of single bytes.
  support::GgufWriter writer() {
    support::TinyModel model{.spec = support::tiny_spec(), .tokenizer_from = {}};
    model.spec.vocab = 256 + 2;
    support::GgufWriter out = support::tiny_model_writer(model);
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte_spelling(byte));
    tokens.insert(tokens.end(), {"<eos>", "<x>"});
    out.add_string("tokenizer.ggml.model", "gpt2");
    out.add_string("tokenizer.ggml.pre", "smollm");
    out.add_strings("tokenizer.ggml.tokens", tokens);
    out.add_strings("tokenizer.ggml.merges", {});
    out.add_uint("tokenizer.ggml.eos_token_id", 256);
    return out;
  }

  ModelFiles load(support::GgufWriter out, int max_context = 0) {
    support::write_file(folder_.file("m.gguf"), out.bytes());
    config::Config config;
    config.model.path = folder_.file("m.gguf");
    config.model.max_context = max_context;
    return load_model_files(config);
  }

  static std::string utf8(int code) {
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
  }
  // The byte-level alphabet of GPT-2: printable bytes stand for themselves, the others are
  // U+0100, U+0101, … in order.
  static std::string byte_spelling(int byte) {
    const auto printable = [](int b) {
      return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    };
    if (printable(byte)) return utf8(byte);
    int shifted = 0x100;
    for (int b = 0; b < byte; ++b) shifted += printable(b) ? 0 : 1;
    return utf8(shifted);
  }

  support::TemporaryDirectory folder_;
};

TEST_F(ModelFilesTest, ExpectsWhatFileAndConfigurationSay) {
  const ModelFiles files = load(writer());
  EXPECT_EQ(files.max_context, 512u);
  EXPECT_EQ(files.expected.model_digest.size(), 32u);
  EXPECT_EQ(files.expected.kv_dtype, "bf16");
  EXPECT_EQ(files.expected.block_size, 32u);
  EXPECT_EQ(files.expected.numerics_class, "");  // the first instance's
  EXPECT_EQ(load(writer(), 100).max_context, 100u);
  EXPECT_THROW(load(writer(), 513), StartupError);
}

TEST_F(ModelFilesTest, WithoutChatTemplateOnlyChatIsOff) {
  const ModelFiles files = load(writer());
  EXPECT_EQ(files.text().chat_template, nullptr);
  EXPECT_THAT(files.text().no_chat_reason, HasSubstr("no chat template"));
}

TEST_F(ModelFilesTest, AChatTemplateThatCantBeUsedOnlyTurnsChatOff) {
  support::GgufWriter out = writer();
  out.add_string("tokenizer.chat_template", "{% include 'x' %}");
  const ModelFiles files = load(std::move(out));
  EXPECT_EQ(files.text().chat_template, nullptr);
  EXPECT_THAT(files.text().no_chat_reason, HasSubstr("can't be used"));
}

TEST_F(ModelFilesTest, AChatTemplateThatCanBeUsedIsThere) {
  support::GgufWriter out = writer();
  out.add_string("tokenizer.chat_template", "{{ messages[0]['content'] }}");
  const ModelFiles files = load(std::move(out));
  EXPECT_NE(files.text().chat_template, nullptr);
  EXPECT_EQ(files.text().no_chat_reason, "");
}

TEST_F(ModelFilesTest, AMissingOrIncompleteFileIsAStartupError) {
  config::Config config;
  config.model.path = folder_.file("absent.gguf");
  EXPECT_THROW(load_model_files(config), StartupError);
  support::GgufWriter out = writer();
  out.drop_key("tokenizer.ggml.pre");
  EXPECT_THROW(load(std::move(out)), StartupError);
}

}  // namespace
}  // namespace tandem::coordinator
