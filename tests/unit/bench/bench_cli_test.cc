// The tandem-bench program as a user calls it: its exit status and its JSON.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Outcome {
  int status = -1;
  std::string output;  // stdout and stderr
};

Outcome run_bench(const std::string& arguments) {
  const std::string command =
      environment("TANDEM_BINARY_DIR") + "/bin/tandem-bench " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome;
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

std::string tiny_model() {
  return environment("TANDEM_SOURCE_DIR") + "/tests/golden/gguf/llama-Q4_1.gguf";
}

void expect_refused(const std::string& arguments, const std::string& text) {
  const Outcome outcome = run_bench(arguments);
  EXPECT_EQ(outcome.status, 2) << arguments;
  EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
}

TEST(BenchCli, PrintsOneJsonObject) {
  const Outcome outcome = run_bench("model --model " + tiny_model() +
                                    " --prompt 40 --generate 8 --threads 2 --repeat 1 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto json = nlohmann::json::parse(outcome.output);
  for (const char* key : {"prefill_tokens_per_s", "decode_tokens_per_s", "weight_bytes_per_token",
                          "memory_read_bytes_per_s", "decode_percent_of_bandwidth"}) {
    EXPECT_GT(json.at(key).get<double>(), 0) << key;
  }
  EXPECT_EQ(json.at("threads"), 2);
  EXPECT_EQ(json.at("prompt"), 40);
}

TEST(BenchCli, RefusesBadInput) {
  expect_refused("", "subcommand");
  expect_refused("model", "--model");
  expect_refused("model --model /no/such/file", "/no/such/file");
  expect_refused("model --model /dev/null", "/dev/null");
  expect_refused("model --model " + tiny_model() + " --threads 0", "--threads");
  expect_refused("model --model " + tiny_model() + " --prompt x", "--prompt");
  expect_refused("model --model " + tiny_model() + " --ops fast", "--ops");
  expect_refused("model --model " + tiny_model() + " --prompt 100000", "context");
  expect_refused("model --model " + tiny_model() + " --unknown", "--unknown");
}

}  // namespace
