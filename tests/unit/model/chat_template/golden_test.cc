// Goldens of the reference renderer in the shared fixtures; each test says why when it is skipped.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/chat_template/chat_template.h"

namespace tandem::chat_template {
namespace {

using nlohmann::ordered_json;

std::string fixtures() {
  const char* source = std::getenv("TANDEM_SOURCE_DIR");
  return std::string(source == nullptr ? "" : source) + "/../shared/fixtures/";
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::tm golden_now() {  // 2025-02-03T04:05:06, a Monday
  std::tm now{};
  now.tm_year = 125;
  now.tm_mon = 1;
  now.tm_mday = 3;
  now.tm_hour = 4;
  now.tm_min = 5;
  now.tm_sec = 6;
  now.tm_wday = 1;
  now.tm_yday = 33;
  return now;
}

struct Outcome {
  bool rendered = false;
  std::string text;  // or the message
};

Outcome outcome_of(const Result<ChatTemplate>& parsed, const ordered_json& variables) {
  if (!parsed) return {.text = parsed.error().message};
  ordered_json request = variables, model = ordered_json::object();
  for (const char* name : {"bos_token", "eos_token"}) {
    if (!request.contains(name)) continue;
    model[name] = request[name];
    request.erase(name);
  }
  const auto prompt = parsed->render({.request = request, .model = model, .now = golden_now()});
  if (!prompt) return {.text = prompt.error().message};
  size_t covered = 0;
  for (const auto& span : prompt->spans) covered += span.size_bytes;
  EXPECT_EQ(covered, prompt->text.size());
  return {.rendered = true, .text = prompt->text};
}

// Empty when the outcome is what the golden case wants, else what differs.
std::string difference(const ordered_json& wanted, const Outcome& outcome) {
  if (wanted.contains("text")) {
    const std::string text = wanted["text"];
    if (outcome.rendered && outcome.text == text) return {};
    return "wanted: " + text + "\n   got: " + outcome.text;
  }
  const std::string error = wanted["error"];
  const bool raised = wanted.value("raised_by_template", false);
  if (!outcome.rendered && (!raised || outcome.text == error)) return {};
  return "wanted the error: " + error + "\n   got: " + outcome.text;
}

TEST(ChatTemplateGolden, SmolLm2) {
  const std::string text = read_text(fixtures() + "smollm2/template.json");
  if (text.empty()) GTEST_SKIP() << "needs shared/fixtures";
  const auto golden = ordered_json::parse(text);
  EXPECT_EQ(golden["cases"].size(), 16u);
  const auto parsed = ChatTemplate::parse(golden["template"].get<std::string>());
  for (const auto& test : golden["cases"]) {
    EXPECT_EQ(difference(test, outcome_of(parsed, test["variables"])), "")
        << test["name"];
  }
}

// Single features that are refused when the template is parsed (chat_template.h names them).
constexpr const char* kNotSupported[] = {"100000000000000000000", "striptags",     "urlencode",
                                         "xmlattr",               "filesizeformat", "lipsum",
                                         "autoescape"};

bool is_supported(const std::string& source) {
  for (const char* feature : kNotSupported) {
    if (source.find(feature) != std::string::npos) return false;
  }
  return true;
}

TEST(ChatTemplateGolden, Features) {
  const std::string text = read_text(fixtures() + "templates/features.json");
  if (text.empty()) GTEST_SKIP() << "needs shared/fixtures";
  const auto golden = ordered_json::parse(text);
  for (const auto& test : golden["cases"]) {
    if (!is_supported(test["template"])) continue;
    const auto parsed = ChatTemplate::parse(test["template"].get<std::string>());
    EXPECT_EQ(difference(test, outcome_of(parsed, golden["variables"])), "")
        << test["template"];
  }
}

TEST(ChatTemplateGolden, PublishedTemplates) {
  const std::string folder = fixtures() + "templates/golden";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs shared/fixtures";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const auto golden = ordered_json::parse(read_text(entry.path()));
    const std::string name = golden["template"];
    const auto parsed = ChatTemplate::parse(read_text(fixtures() + "templates/" + name));
    for (const auto& test : golden["cases"]) {
      // The reference fails on a lazy list here, ours are plain lists: a rendering is right too.
      if (test.value("error", "").find("generator is not JSON") != std::string::npos) continue;
      EXPECT_EQ(difference(test, outcome_of(parsed, test["variables"])), "")
          << name << " " << test["name"];
    }
  }
}

}  // namespace
}  // namespace tandem::chat_template
