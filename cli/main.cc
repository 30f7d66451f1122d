// The `tandem` command. Errors are one line on stderr (what, where, how to fix) and status 2.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/chat/chat.h"
#include "cli/supervisor/supervisor.h"
#include "comm/runtime/result.h"
#include "configs/schema/loader.h"
#include "configs/schema/reference.h"
#include "model/format/gguf_file.h"
#include "model/spec/describe.h"
#include "model/spec/model_spec.h"

namespace {

using tandem::Result;
using tandem::StartupError;

// The folder of this executable: its sisters are there.
std::string program_folder() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw StartupError("/proc/self/exe: can't be read; is /proc mounted?");
  return path.parent_path().string();
}

tandem::config::Config load(const std::string& file, const std::vector<std::string>& overrides) {
  Result<tandem::config::Config> config = tandem::config::load_config(file, overrides);
  if (!config.ok()) throw StartupError(config.error().message);
  return std::move(config).value();
}

struct FileArguments {
  std::string file;
  std::vector<std::string> overrides;
};

void add_overrides(CLI::App& command, FileArguments& arguments) {
  command.add_option("--set", arguments.overrides, "KEY=VALUE over the file; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
}

int run_up(const FileArguments& arguments) {
  const tandem::config::Config config = load(arguments.file, arguments.overrides);
  return tandem::supervisor::run_up({arguments.file, arguments.overrides, program_folder()},
                                    config);
}

int run_config(const FileArguments& arguments) {
  const std::string text = arguments.file.empty()
                               ? tandem::config::reference_text()
                               : tandem::config::resolved_text(
                                     load(arguments.file, arguments.overrides));
  std::fputs(text.c_str(), stdout);
  return 0;
}

int run_inspect(const std::string& path, bool as_json) {
  const auto file = tandem::format::GgufFile::open(path);
  if (!file.ok()) throw StartupError(file.error().message);
  const auto spec = tandem::spec::read_spec(*file);
  if (!spec.ok()) throw StartupError(spec.error().message);
  const std::string text = as_json ? tandem::spec::describe_json(*file, *spec) + "\n"
                                   : tandem::spec::describe(*file, *spec);
  std::fputs(text.c_str(), stdout);
  return 0;
}

// Becomes tandem-bench, which links the engine; this program stays host-only and small.
int run_bench(std::vector<std::string> arguments) {
  std::string program = program_folder() + "/tandem-bench";
  std::vector<char*> list{program.data()};
  for (std::string& argument : arguments) list.push_back(argument.data());
  list.push_back(nullptr);
  execv(program.c_str(), list.data());
  throw StartupError(program + ": " + std::strerror(errno) +
                     "; build it (ninja -C build/release tandem-bench)");
}

void add_chat(CLI::App& app, tandem::chat::ChatCommand& command) {
  CLI::App* chat = app.add_subcommand("chat", "Talk to a running cluster");
  chat->add_option("--url", command.url, "Address of the coordinator")->capture_default_str();
  chat->add_option("-m,--message", command.message, "One message instead of a conversation");
  chat->add_option("--system", command.system, "System message");
  chat->add_option("--model", command.options.model, "Model name; default: the first one served");
  chat->add_option("--max-tokens", command.options.max_tokens, "Longest answer, in tokens")
      ->check(CLI::Range(1, 1 << 20));
  chat->add_option("--temperature", command.options.temperature, "0 = greedy")
      ->check(CLI::Range(0.0, 2.0));
  chat->add_option("--seed", command.options.seed, "Same seed, same answer");
  chat->add_flag("--stats", command.show_figures, "Print figures of each answer on stderr");
}

int run(int argc, char** argv) {
  CLI::App app("Tandem serves language models with separate prefill and decode instances.");
  app.name("tandem");
  app.require_subcommand(1);

  FileArguments up_arguments;
  CLI::App* up = app.add_subcommand("up", "Run the cluster of one YAML file in the foreground");
  up->add_option("FILE", up_arguments.file, "The cluster's YAML file")->required();
  add_overrides(*up, up_arguments);

  tandem::chat::ChatCommand chat_command;
  add_chat(app, chat_command);

  FileArguments config_arguments;
  CLI::App* config = app.add_subcommand(
      "config", "Print the reference of all keys, or FILE with every key resolved");
  config->add_option("FILE", config_arguments.file, "The cluster's YAML file");
  add_overrides(*config, config_arguments);

  std::string model_path;
  bool as_json = false;
  CLI::App* inspect = app.add_subcommand("inspect", "Describe a model file");
  inspect->add_option("MODEL", model_path, "A GGUF file")->required();
  inspect->add_flag("--json", as_json, "One JSON object");

  CLI::App* bench = app.add_subcommand("bench", "Measure (runs tandem-bench)");
  bench->prefix_command();
  bench->set_help_flag();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "tandem: %s; see tandem --help\n", error.what());
    return 2;
  }
  if (up->parsed()) return run_up(up_arguments);
  if (config->parsed()) return run_config(config_arguments);
  if (inspect->parsed()) return run_inspect(model_path, as_json);
  if (bench->parsed()) return run_bench(bench->remaining());
  return tandem::chat::run_chat(chat_command);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const StartupError& error) {
    std::fprintf(stderr, "tandem: %s\n", error.what());
    return 2;
  }
}
