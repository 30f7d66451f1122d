#pragma once
// FrameReader: bytes of a connection -> frames. Headers are gathered in a small staging buffer;
// payload bytes go straight from the socket into the memory the sink names.
// Owned by one connection; link thread only; never allocates after construction.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "comm/kvlink/tcp/frame.h"
#include "comm/runtime/result.h"

namespace tandem::kvlink {

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // One header. The span is where the payload bytes that follow belong; empty when none follow.
  // It stays valid until on_payload. An error ends the connection.
  virtual Result<std::span<std::byte>> on_header(FrameKind kind, std::string_view header) = 0;
  // The span of the last on_header is full.
  virtual Status on_payload() = 0;
};

class FrameReader {
 public:
  FrameReader();

  // Reads what has arrived, up to a bounded amount, and hands it to the sink. Ok also when nothing
  // was there; kUnavailable when the peer closed; kIo, kCorrupt, or the sink's own error otherwise.
  Status read_from(int fd, FrameSink& sink);

  // True inside a frame: the peer owes bytes.
  bool mid_frame() const { return staged_ > 0 || !payload_.empty(); }
  uint64_t num_bytes() const { return num_bytes_; }

 private:
  Status take_staged(FrameSink& sink);
  Status fill_payload(size_t count, FrameSink& sink);

  std::unique_ptr<std::byte[]> staging_;
  size_t staged_ = 0;              // bytes in staging_
  std::span<std::byte> payload_;   // what is still to be filled
  uint64_t num_bytes_ = 0;
};

}  // namespace tandem::kvlink
