#pragma once
// Sizes that bound every queue of a control transport. One struct for all implementations.

#include <cstddef>
#include <string>

#include "comm/runtime/result.h"

namespace tandem::transport {

struct TransportLimits {
  size_t max_message_bytes = 8u << 20;   // larger messages are refused at the sender
  size_t max_outbound_messages = 8192;   // accepted by send(), not yet given to the network
  size_t max_outbound_bytes = 64u << 20;
  size_t max_inbound_messages = 8192;    // read from the network, not yet handled by the loop
};

// kInvalidArgument when `bytes` is over the limit; the message names both numbers.
Status check_message_size(const TransportLimits& limits, const std::string& bytes);

}  // namespace tandem::transport
