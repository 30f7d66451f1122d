#include "comm/transport/limits.h"

namespace tandem::transport {

Status check_message_size(const TransportLimits& limits, const std::string& bytes) {
  if (bytes.size() <= limits.max_message_bytes) return {};
  return Error{ErrorCode::kInvalidArgument,
               "control message of " + std::to_string(bytes.size()) + " bytes; the limit is " +
                   std::to_string(limits.max_message_bytes),
               {}};
}

}  // namespace tandem::transport
