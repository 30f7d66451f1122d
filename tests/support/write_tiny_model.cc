// write_tiny_model OUT.gguf [key=value …]: a llama model with seeded random weights.
// Keys: layers hidden heads kv_heads head_dim ffn vocab context seed tied (0 or 1), type (F32 …),
// tokenizer (a GGUF file whose tokenizer is copied; vocab must be its size).

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "model/spec/model_spec.h"
#include "tests/support/tiny_model.h"

namespace {

using tandem::support::TinyModel;

// False when the key is unknown or the value is no number it can have.
bool set_key(TinyModel& model, const std::string& key, const std::string& value) {
  if (key == "tokenizer") {
    model.tokenizer_from = value;
    return true;
  }
  if (key == "type") {
    for (uint32_t id = 0; id < 64; ++id) {
      const tandem::format::TensorTypeInfo* info = tandem::format::find_tensor_type(id);
      if (info == nullptr || !info->supported || value != info->name) continue;
      model.type = static_cast<tandem::format::TensorType>(id);
      return true;
    }
    return false;
  }
  char* end = nullptr;
  const long number = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || number < 0 || number > (1 << 24)) return false;
  if (key == "seed") {
    model.seed = static_cast<uint64_t>(number);
    return true;
  }
  if (key == "tied") {
    model.spec.tied_head = number != 0;
    return number <= 1;
  }
  const std::map<std::string, int32_t*> fields = {
      {"layers", &model.spec.num_layers},    {"hidden", &model.spec.hidden},
      {"heads", &model.spec.num_heads},      {"kv_heads", &model.spec.num_kv_heads},
      {"head_dim", &model.spec.head_dim},    {"ffn", &model.spec.ffn},
      {"vocab", &model.spec.vocab},          {"context", &model.spec.max_context},
  };
  const auto field = fields.find(key);
  if (field == fields.end() || number < 1) return false;
  *field->second = static_cast<int32_t>(number);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: write_tiny_model OUT.gguf [key=value ...]\n");
    return 2;
  }
  TinyModel model;
  model.spec = tandem::support::tiny_spec();
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t split = argument.find('=');
    if (split == std::string::npos ||
        !set_key(model, argument.substr(0, split), argument.substr(split + 1))) {
      std::fprintf(stderr, "write_tiny_model: can't take '%s'\n", argv[i]);
      return 2;
    }
  }
  tandem::support::write_tiny_model(argv[1], model);
  // What was written must be what a loader accepts.
  const auto file = tandem::format::GgufFile::open(argv[1]);
  if (!file.ok()) {
    std::fprintf(stderr, "write_tiny_model: %s\n", file.error().message.c_str());
    return 2;
  }
  const auto spec = tandem::spec::read_spec(*file);
  if (!spec.ok()) {
    std::fprintf(stderr, "write_tiny_model: %s\n", spec.error().message.c_str());
    return 2;
  }
  return 0;
}
