#include "comm/kvlink/tcp/frame.h"

namespace tandem::kvlink {

FramePrefix parse_prefix(const std::byte* bytes) {
  FramePrefix prefix;
  for (int i = 0; i < 4; ++i) {
    prefix.header_bytes |= std::to_integer<uint32_t>(bytes[i]) << (8 * i);
  }
  prefix.kind = std::to_integer<uint8_t>(bytes[4]);
  return prefix;
}

}  // namespace tandem::kvlink
