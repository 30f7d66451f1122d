#include "coordinator/daemon/instance_exited.h"

#include <nlohmann/json.hpp>

namespace tandem::coordinator {

Result<InstanceExited> parse_instance_exited(std::string_view body) {
  const auto refuse = [](const char* field) {
    return Error{ErrorCode::kInvalidArgument,
                 "the body must be {\"name\": text, \"pid\": positive integer}", field};
  };
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object() || json.size() != 2) return refuse("");
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string()) return refuse("name");
  const auto pid = json.find("pid");
  if (pid == json.end() || !pid->is_number_unsigned()) return refuse("pid");
  const auto number = pid->get<uint64_t>();
  if (number == 0 || number > INT32_MAX) return refuse("pid");
  return InstanceExited{name->get<std::string>(), static_cast<uint32_t>(number)};
}

}  // namespace tandem::coordinator
