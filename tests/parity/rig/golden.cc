#include "tests/parity/rig/golden.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tandem::parity {
namespace {

using nlohmann::json;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string source_dir() { return environment("TANDEM_SOURCE_DIR"); }

GoldenCase read_case(const json& in, const json& file) {
  GoldenCase out;
  out.ids = in.at("ids").get<std::vector<int32_t>>();
  out.name = in.value("name", std::to_string(out.ids.size()) + " tokens");
  out.argmax = in.value("argmax", std::vector<int32_t>{});
  out.greedy_ids = in.at("greedy_ids").get<std::vector<int32_t>>();
  out.greedy_gaps = in.at("greedy_gaps").get<std::vector<float>>();
  if (in.contains("last_logits")) {  // the whole vocabulary
    out.logits = in.at("last_logits").get<std::vector<float>>();
    out.logit_ids.resize(out.logits.size());
    std::iota(out.logit_ids.begin(), out.logit_ids.end(), 0);
    return out;
  }
  out.logit_ids = in.at("top_ids").get<std::vector<int32_t>>();
  out.logits = in.at("top_logits").get<std::vector<float>>();
  for (const json& id : file.at("sample_ids")) out.logit_ids.push_back(id.get<int32_t>());
  for (const json& x : in.at("sample_logits")) out.logits.push_back(x.get<float>());
  return out;
}

}  // namespace

std::vector<GoldenCase> read_golden(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("can't read " + path);
  const json file = json::parse(in);
  std::vector<GoldenCase> cases;
  for (const json& c : file.at("cases")) cases.push_back(read_case(c, file));
  return cases;
}

std::string tiny_model_path(const std::string& type) {
  return source_dir() + "/tests/golden/gguf/llama-" + type + ".gguf";
}

std::string tiny_golden_path(const std::string& type) {
  return source_dir() + "/tests/golden/gguf/llama-" + type + ".golden.json";
}

std::optional<SmolLm2Paths> find_smollm2(std::string& why) {
  SmolLm2Paths paths;
  paths.model =
      environment("HOME") + "/.cache/tandem/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  paths.golden = source_dir() + "/../shared/fixtures/smollm2/golden.json";
  for (const std::string& path : {paths.model, paths.golden}) {
    if (!std::filesystem::exists(path)) {
      why = path + " is absent";
      return std::nullopt;
    }
  }
  return paths;
}

bool full_run() { return environment("TANDEM_FULL") == "1"; }

}  // namespace tandem::parity
