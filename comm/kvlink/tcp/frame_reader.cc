#include "comm/kvlink/tcp/frame_reader.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace tandem::kvlink {
namespace {

// Holds any header whole.
constexpr size_t kStagingBytes = wire::kMaxLinkHeaderBytes + kFramePrefixBytes;
// After this much one connection lets the others have their turn.
constexpr size_t kMaxBytesPerTurn = 4u << 20;

}  // namespace

FrameReader::FrameReader() : staging_(std::make_unique_for_overwrite<std::byte[]>(kStagingBytes)) {}

Status FrameReader::read_from(int fd, FrameSink& sink) {
  size_t turn_bytes = 0;
  while (turn_bytes < kMaxBytesPerTurn) {
    // The rest of the payload first, then whatever follows it.
    iovec parts[2] = {{payload_.data(), payload_.size()},
                      {staging_.get() + staged_, kStagingBytes - staged_}};
    const bool in_payload = !payload_.empty();
    const ssize_t count = ::readv(fd, in_payload ? parts : parts + 1, in_payload ? 2 : 1);
    if (count == 0) return Error{ErrorCode::kUnavailable, "closed by the peer", ""};
    if (count < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      if (errno == EINTR) continue;
      return Error{ErrorCode::kIo, std::string("read: ") + std::strerror(errno), ""};
    }
    turn_bytes += static_cast<size_t>(count);
    num_bytes_ += static_cast<uint64_t>(count);
    const size_t direct = std::min(payload_.size(), static_cast<size_t>(count));
    staged_ += static_cast<size_t>(count) - direct;
    if (direct > 0) {
      if (Status status = fill_payload(direct, sink); !status.ok()) return status;
    }
    if (Status status = take_staged(sink); !status.ok()) return status;
  }
  return {};
}

Status FrameReader::fill_payload(size_t count, FrameSink& sink) {
  payload_ = payload_.subspan(count);
  return payload_.empty() ? sink.on_payload() : Status{};
}

Status FrameReader::take_staged(FrameSink& sink) {
  size_t used = 0;
  while (used < staged_) {
    const std::byte* at = staging_.get() + used;
    const size_t have = staged_ - used;
    if (!payload_.empty()) {
      const size_t count = std::min(payload_.size(), have);
      std::memcpy(payload_.data(), at, count);
      used += count;
      if (Status status = fill_payload(count, sink); !status.ok()) return status;
      continue;
    }
    if (have < kFramePrefixBytes) break;
    const FramePrefix prefix = parse_prefix(at);
    if (prefix.header_bytes > wire::kMaxLinkHeaderBytes) {
      return Error{ErrorCode::kCorrupt, "a header is too long", ""};
    }
    if (have < kFramePrefixBytes + prefix.header_bytes) break;
    const std::string_view header(reinterpret_cast<const char*>(at + kFramePrefixBytes),
                                  prefix.header_bytes);
    auto payload = sink.on_header(static_cast<FrameKind>(prefix.kind), header);
    if (!payload.ok()) return payload.error();
    payload_ = *payload;
    used += kFramePrefixBytes + prefix.header_bytes;
  }
  std::memmove(staging_.get(), staging_.get() + used, staged_ - used);
  staged_ -= used;
  return {};
}

}  // namespace tandem::kvlink
