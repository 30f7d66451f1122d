#include "cli/supervisor/cluster_view.h"

#include <nlohmann/json.hpp>

namespace tandem::supervisor {
namespace {

Error corrupt(const char* what) {
  return Error{ErrorCode::kCorrupt, std::string("/admin/cluster: ") + what, ""};
}

}  // namespace

Result<std::vector<InstanceView>> parse_cluster(std::string_view json) {
  const nlohmann::json root = nlohmann::json::parse(json, nullptr, false);
  if (!root.is_object() || !root.contains("instances") || !root["instances"].is_array()) {
    return corrupt("no list of instances");
  }
  std::vector<InstanceView> views;
  for (const nlohmann::json& entry : root["instances"]) {
    try {
      views.push_back({entry.at("name").get<std::string>(), entry.at("state").get<std::string>(),
                       entry.at("pid").get<int64_t>(), entry.at("launcher_pid").get<int64_t>()});
    } catch (const nlohmann::json::exception&) {
      return corrupt("an instance without name, state, pid or launcher_pid");
    }
  }
  return views;
}

}  // namespace tandem::supervisor
