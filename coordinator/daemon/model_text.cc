#include "coordinator/daemon/model_text.h"

#include <utility>

#include "comm/runtime/result.h"
#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"
#include "model/tokenizer/gguf_vocabulary.h"

namespace tandem::coordinator {
namespace {

constexpr const char* kTemplateKey = "tokenizer.chat_template";

template <typename T>
T value_of(Result<T> result, const std::string& where = "") {
  if (!result) throw StartupError(where + result.error().message);
  return std::move(result).value();
}

void read_chat_template(const format::GgufFile& file, ModelFiles& files) {
  if (file.find(kTemplateKey) == nullptr) {
    files.no_chat_reason = "the model file has no chat template (" + std::string(kTemplateKey) +
                           "); use /v1/completions";
    return;
  }
  const auto source = value_of(file.string_at(kTemplateKey));
  auto parsed = chat_template::ChatTemplate::parse(source);
  if (parsed) {
    files.chat_template = std::move(parsed).value();
  } else {
    files.no_chat_reason = "the model's chat template can't be used: " + parsed.error().message;
  }
}

}  // namespace

gateway::ModelText ModelFiles::text() const {
  return {.tokenizer = tokenizer,
          .chat_template = chat_template ? &*chat_template : nullptr,
          .no_chat_reason = no_chat_reason,
          .max_context = max_context};
}

ModelFiles load_model_files(const config::Config& config) {
  const auto file = value_of(format::GgufFile::open(config.model.path));
  const spec::ModelSpec spec = value_of(spec::read_spec(file));
  const std::string where = config.model.path + ": ";
  ModelFiles files{
      .tokenizer = value_of(
          tokenizer::Tokenizer::create(value_of(tokenizer::vocabulary_from_gguf(file), where)),
          where)};
  files.max_context = static_cast<uint32_t>(
      value_of(spec::context_length(spec, config.model.max_context)));
  read_chat_template(file, files);
  files.expected.model_digest = file.digest();
  files.expected.kv_dtype = config::kv_dtype_name(config.kv.dtype);
  files.expected.block_size = static_cast<uint32_t>(config.kv.block_size);
  return files;
}

}  // namespace tandem::coordinator
