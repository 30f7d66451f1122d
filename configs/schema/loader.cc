#include "configs/schema/loader.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "configs/schema/knobs.h"
#include "configs/schema/yaml_tree.h"

namespace tandem::config {
namespace {

struct Target {
  const Knob* knob = nullptr;
  Role role = Role::kMixed;
};

// Applies values to a Config and remembers where each key was set, for the checks at the end.
class Loader {
 public:
  Loader(std::string file, std::string base_folder)
      : file_(std::move(file)), base_folder_(std::move(base_folder)) {
    for (const Knob& knob : all_knobs()) {
      for (const Role role : kRoles) {
        targets_[knob.key_for(role)] = {&knob, role};
      }
    }
    for (const auto& [key, target] : targets_) {
      for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
        sections_.insert(key.substr(0, dot));
      }
    }
    config_.file = file_;
  }

  Status apply_file(const YamlNode& root) { return apply_mapping(root, ""); }
  Status apply_override(const std::string& text);
  Result<Config> finish() &&;

 private:
  Status apply_mapping(const YamlNode& mapping, const std::string& prefix);
  Status apply_scalar(const std::string& key, const Scalar& scalar, const std::string& where);
  Status check_pools();
  Status check_deadlines() const;
  Status check_addresses() const;
  void note_testing();

  Error unknown_key(const std::string& key, const std::string& where) const;
  std::vector<std::string> words_in(const std::string& section) const;
  std::string where(const std::string& key) const;
  static Error fail(const std::string& where, const std::string& key, const std::string& what,
                    ErrorCode code = ErrorCode::kInvalidArgument) {
    return Error{code, where + ": " + key + ": " + what, key};
  }

  std::string file_;
  std::string base_folder_;
  Config config_;
  std::map<std::string, Target> targets_;
  std::set<std::string> sections_;
  std::map<std::string, std::string> where_;   // key or section -> "file:line" or "--set …"
};

std::string Loader::where(const std::string& key) const {
  const auto found = where_.find(key);
  return found == where_.end() ? file_ : found->second;
}

// What may stand directly inside a section ("" = the top).
std::vector<std::string> Loader::words_in(const std::string& section) const {
  std::set<std::string> words;
  const std::string prefix = section.empty() ? "" : section + ".";
  for (const auto& [key, target] : targets_) {
    if (!key.starts_with(prefix)) continue;
    const std::string rest = key.substr(prefix.size());
    words.insert(rest.substr(0, rest.find('.')));
  }
  return {words.begin(), words.end()};
}

Error Loader::unknown_key(const std::string& key, const std::string& where) const {
  const size_t dot = key.rfind('.');
  const std::string section = dot == std::string::npos ? "" : key.substr(0, dot);
  const std::string word = key.substr(dot == std::string::npos ? 0 : dot + 1);
  // An override may name a section that does not exist: judge the outermost wrong word.
  if (!section.empty() && !sections_.contains(section)) {
    return targets_.contains(section) ? fail(where, section, "takes a value, not keys")
                                      : unknown_key(section, where);
  }
  const std::vector<std::string> words = words_in(section);
  const std::string nearest = nearest_word(word, words);
  return fail(where, key, nearest.empty() ? "unknown key; known here: " + join(words, ", ")
                                          : "unknown key; did you mean " + nearest + "?");
}

Status Loader::apply_mapping(const YamlNode& mapping, const std::string& prefix) {
  for (const auto& [word, node] : mapping.members) {
    const std::string key = prefix + word;
    const std::string here = file_ + ":" + std::to_string(node.line);
    if (word.find('.') != std::string::npos) {
      return fail(here, key, "a dot in a key; write section: {key: value} (dots are for --set)");
    }
    if (sections_.contains(key)) {
      if (node.kind != YamlNode::Kind::kMapping) {
        return fail(here, key, "takes keys, not a value; write {key: value}, or {} for none");
      }
      where_[key] = here;
      const Status status = apply_mapping(node, key + ".");
      if (!status.ok()) return status;
      continue;
    }
    if (!targets_.contains(key)) return unknown_key(key, here);
    if (node.kind == YamlNode::Kind::kMapping) {
      return fail(here, key, "takes a value, not keys");
    }
    if (node.kind == YamlNode::Kind::kNull) {
      return fail(here, key, "has no value; write one or remove the line");
    }
    const Status status = apply_scalar(key, {node.text, node.quoted, base_folder_}, here);
    if (!status.ok()) return status;
  }
  return {};
}

Status Loader::apply_scalar(const std::string& key, const Scalar& scalar,
                            const std::string& where) {
  const Target target = targets_.at(key);
  const Status status = target.knob->set(config_, target.role, scalar);
  if (!status.ok()) return fail(where, key, status.error().message, status.error().code);
  where_[key] = where;
  return {};
}

Status Loader::apply_override(const std::string& text) {
  const std::string here = "--set " + text;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{ErrorCode::kInvalidArgument, here + ": not key=value; write --set kv.dtype=f32",
                 ""};
  }
  const std::string key = text.substr(0, equals);
  if (sections_.contains(key)) {
    return fail(here, key, "is a section; set one of its keys: " + join(words_in(key), ", "));
  }
  if (!targets_.contains(key)) return unknown_key(key, here);
  std::error_code ignored;
  const std::string folder = std::filesystem::current_path(ignored).string();
  return apply_scalar(key, {text.substr(equals + 1), false, folder}, here);
}

// Decides which pools exist and fills values that follow from others.
Status Loader::check_pools() {
  int total = 0;
  for (const Role role : kRoles) {
    const std::string section = std::string("pools.") + role_name(role);
    PoolConfig& pool = config_.pools.of(role);
    if (!where_.contains(section + ".instances")) {
      const auto set_alone = std::find_if(where_.begin(), where_.end(), [&](const auto& entry) {
        return entry.first.starts_with(section + ".");
      });
      if (!where_.contains(section) && set_alone != where_.end()) {
        return fail(set_alone->second, set_alone->first,
                    "the pool is not in " + file_ + "; also give --set " + section +
                        ".instances=1");
      }
      pool.instances = where_.contains(section) ? 1 : 0;
    }
    total += pool.instances;
    if (pool.step_token_budget == 0) {
      pool.step_token_budget = pool.max_sequences + pool.prefill_chunk;
    } else if (pool.step_token_budget <= pool.max_sequences) {
      const std::string key = section + ".step_token_budget";
      return fail(where(key), key,
                  std::to_string(pool.step_token_budget) + " leaves no room for a prompt beside " +
                      std::to_string(pool.max_sequences) +
                      " decoding sequences; write more than max_sequences");
    }
  }
  if (total == 0) {
    return fail(where("pools"), "pools",
                "no pool has an instance; write pools: {mixed: {instances: 1}}");
  }
  const PoolsConfig& pools = config_.pools;
  if (pools.mixed.instances == 0 && pools.prefill.instances == 0) {
    return fail(where("pools"), "pools",
                "nothing computes prompts; add a prefill or mixed pool");
  }
  if (pools.mixed.instances == 0 && pools.decode.instances == 0) {
    return fail(where("pools"), "pools", "nothing decodes; add a decode or mixed pool");
  }
  return {};
}

Status Loader::check_deadlines() const {
  const Deadlines& d = config_.deadlines;
  const auto ordered = [&](const char* less, Duration low, const char* more,
                           Duration high) -> Status {
    if (low < high) return {};
    const std::string low_key = std::string("deadlines.") + less;
    const std::string high_key = std::string("deadlines.") + more;
    const std::string& key = where_.contains(low_key) ? low_key : high_key;
    return fail(where(key), key,
                std::string(less) + " (" + format_duration(low) + ") must be shorter than " +
                    more + " (" + format_duration(high) + "); change one of them");
  };
  for (const Status& status :
       {ordered("heartbeat", d.heartbeat, "suspect", d.suspect),
        ordered("suspect", d.suspect, "fenced", d.fenced),
        ordered("renew", d.renew, "grant_ttl", d.grant_ttl),
        ordered("renew", d.renew, "source_lease", d.source_lease),
        ordered("renew", d.renew, "coordinator_grace", d.coordinator_grace),
        ordered("resend", d.resend, "source_lease", d.source_lease)}) {
    if (!status.ok()) return status;
  }
  return {};
}

Status Loader::check_addresses() const {
  const Endpoint& http = config_.coordinator.http;
  const Endpoint& control = config_.coordinator.control;
  if (http.port != 0 && http.port == control.port) {
    const std::string key =
        where_.contains("coordinator.control") ? "coordinator.control" : "coordinator.http";
    return fail(where(key), key,
                "coordinator.http and coordinator.control both use port " +
                    std::to_string(http.port) + "; write two different ports");
  }
  return {};
}

// Addresses are loopback by now (the reader of addresses refuses all others).
void Loader::note_testing() {
  for (const auto& [key, place] : where_) {
    if (key.starts_with("testing.")) {
      config_.warnings.push_back(place + ": " + key + " is set: for tests only");
    }
  }
}

Result<Config> Loader::finish() && {
  if (config_.model.path.empty()) {
    return fail(where("model"), "model.path", "missing; write model: {path: FILE.gguf}");
  }
  if (config_.model.alias.empty()) {
    config_.model.alias = std::filesystem::path(config_.model.path).stem().string();
  }
  for (const Status& status : {check_pools(), check_deadlines(), check_addresses()}) {
    if (!status.ok()) return status.error();
  }
  note_testing();
  return std::move(config_);
}

}  // namespace

Result<Config> parse_config(const std::string& text, const std::string& file_name,
                            const std::vector<std::string>& overrides) {
  const Result<YamlNode> root = read_yaml(text, file_name);
  if (!root.ok()) return root.error();
  std::error_code ignored;
  const std::filesystem::path folder =
      std::filesystem::absolute(file_name, ignored).parent_path();
  Loader loader(file_name, folder.string());
  if (const Status status = loader.apply_file(*root); !status.ok()) return status.error();
  for (const std::string& text_override : overrides) {
    const Status status = loader.apply_override(text_override);
    if (!status.ok()) return status.error();
  }
  return std::move(loader).finish();
}

Result<Config> load_config(const std::string& file, const std::vector<std::string>& overrides) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return Error{ErrorCode::kNotFound,
                 file + ": no such file; give the cluster's YAML file, such as configs/local.yaml",
                 ""};
  }
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return Error{ErrorCode::kIo, file + ": can't be read; check its permissions", ""};
  return parse_config(text.str(), file, overrides);
}

}  // namespace tandem::config
