#include "model/spec/describe.h"

#include <iomanip>
#include <sstream>

#include <nlohmann/json.hpp>

#include "model/spec/formulas.h"

namespace tandem::spec {
namespace {

constexpr int32_t kMaxDescribedTp = 64;
constexpr int kLabelWidth = 22;

std::string grouped(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string megabytes(uint64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / 1e6 << " MB";
  return out.str();
}

class Lines {
 public:
  std::ostream& operator()(const char* label) {
    if (!out_.str().empty()) out_ << '\n';
    return out_ << std::left << std::setw(kLabelWidth) << label;
  }
  std::string text() { return out_.str() + "\n"; }

 private:
  std::ostringstream out_;
};

void add_tensor_parallel(Lines& line, const ModelSpec& spec) {
  std::string exact;
  std::string other;
  for (const int32_t tp : tensor_parallel_degrees(spec, kMaxDescribedTp)) {
    std::string& list = tensor_parallel_is_bit_exact(spec, tp) ? exact : other;
    list += (list.empty() ? "" : ", ") + std::to_string(tp);
  }
  line("tensor parallel") << exact << " with the same tokens"
                          << (other.empty() ? "" : "; " + other + " with other roundings");
}

}  // namespace

std::string describe(const format::GgufFile& file, const ModelSpec& spec) {
  Lines line;
  line("file") << file.path() << " (GGUF " << file.version() << ", "
               << megabytes(file.size_bytes()) << ")";
  line("digest") << file.digest();
  line("architecture") << spec.architecture;
  if (!spec.name.empty()) line("name") << format::quoted(spec.name);
  line("parameters") << grouped(parameter_count(spec));
  line("layers") << spec.num_layers;
  line("attention") << attention_kind_name(spec.attention_kind()) << ", " << spec.num_heads
                    << " query and " << spec.num_kv_heads << " KV heads of " << spec.head_dim;
  line("width") << spec.hidden << ", FFN " << spec.ffn;
  line("vocabulary") << grouped(static_cast<uint64_t>(spec.vocab))
                     << (spec.tied_head ? ", tied head" : ", own head");
  line("context") << grouped(static_cast<uint64_t>(spec.max_context)) << " tokens";
  line("rope") << "base " << spec.rope.base << ", scaling "
               << rope_scaling_name(spec.rope.scaling);
  if (spec.rope.scaling != RopeScaling::kNone) line("rope factor") << spec.rope.factor;
  for (const TypeTotal& total : totals_by_type(file)) {
    line("tensors") << total.num_tensors << " " << format::tensor_type_name(total.type) << ", "
                    << grouped(total.size_bytes) << " bytes";
  }
  line("weight bytes") << grouped(weight_bytes(file)) << " ("
                       << grouped(weight_bytes_per_token(file, spec)) << " read per token)";
  for (const KvDtype dtype : {KvDtype::kF32, KvDtype::kBf16}) {
    line("KV bytes per token") << grouped(kv_bytes_per_token(spec, dtype)) << " as "
                               << kv_dtype_name(dtype);
  }
  line("FLOP per token") << grouped(matmul_flops_per_token(spec)) << " + "
                         << grouped(attention_flops_per_token(spec, 1)) << " per context token";
  add_tensor_parallel(line, spec);
  return line.text();
}

std::string describe_json(const format::GgufFile& file, const ModelSpec& spec) {
  using Json = nlohmann::ordered_json;
  Json tensors = Json::array();
  for (const TypeTotal& total : totals_by_type(file)) {
    tensors.push_back({{"type", format::tensor_type_name(total.type)},
                       {"count", total.num_tensors},
                       {"bytes", total.size_bytes}});
  }
  Json degrees = Json::array();
  for (const int32_t tp : tensor_parallel_degrees(spec, kMaxDescribedTp)) {
    degrees.push_back({{"degree", tp}, {"bit_exact", tensor_parallel_is_bit_exact(spec, tp)}});
  }
  const Json object = {
      {"path", file.path()},
      {"model_digest", file.digest()},
      {"architecture", spec.architecture},
      {"name", spec.name},
      {"parameters", parameter_count(spec)},
      {"layers", spec.num_layers},
      {"hidden", spec.hidden},
      {"query_heads", spec.num_heads},
      {"kv_heads", spec.num_kv_heads},
      {"head_dim", spec.head_dim},
      {"attention", attention_kind_name(spec.attention_kind())},
      {"ffn", spec.ffn},
      {"vocab", spec.vocab},
      {"max_context", spec.max_context},
      {"rms_eps", spec.rms_eps},
      {"rope",
       {{"base", spec.rope.base},
        {"scaling", rope_scaling_name(spec.rope.scaling)},
        {"factor", spec.rope.factor}}},
      {"tied_head", spec.tied_head},
      {"tensors", std::move(tensors)},
      {"weight_bytes", weight_bytes(file)},
      {"weight_bytes_per_token", weight_bytes_per_token(file, spec)},
      {"kv_bytes_per_token",
       {{"f32", kv_bytes_per_token(spec, KvDtype::kF32)},
        {"bf16", kv_bytes_per_token(spec, KvDtype::kBf16)}}},
      {"flops_per_token", matmul_flops_per_token(spec)},
      {"attention_flops_per_context_token", attention_flops_per_token(spec, 1)},
      {"tp", std::move(degrees)},
  };
  // The name comes from the file: half a character must not throw.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tandem::spec
