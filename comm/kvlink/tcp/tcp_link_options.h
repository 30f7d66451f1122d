#pragma once
// What a TcpKvLink is told at start. Plain values; sizes and deadlines bound everything it does.

#include <chrono>
#include <cstdint>
#include <string>

#include "comm/runtime/clock.h"
#include "comm/runtime/ids.h"

namespace tandem::kvlink {

// Faults on demand; never set outside tests.
struct TcpLinkTesting {
  uint64_t flip_bit_in_part = 0;  // the Nth received part (from 1) gets a wrong bit; 0 = none
  bool verify_blocks = true;      // false: wrong parts are copied and reported as verified
  uint64_t slow_link_bytes_per_s = 0;  // payload rate of each outgoing connection; 0 = unlimited
};

struct TcpLinkOptions {
  std::string host = "127.0.0.1";  // to listen on
  uint16_t port = 0;               // 0 = any free one; see endpoint()
  std::string instance;            // of this process
  uint32_t rank = 0;
  Incarnation incarnation;         // of this process, the first one
  size_t max_block_bytes = 0;      // the longest part; each peer costs a few times this
  uint32_t max_connections = 64;   // incoming, those still greeting included
  Duration open_deadline = std::chrono::seconds(5);     // connect and greet
  Duration progress_timeout = std::chrono::seconds(3);  // bytes wait, none moves: link lost
  TcpLinkTesting testing;
};

// Since start. Payload bytes of parts: not headers, not commits.
struct TcpLinkCounters {
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t verified_parts = 0;
  uint64_t corrupt_parts = 0;
  uint64_t discarded_parts = 0;    // unknown grant, old epoch, wrong source, written before
  uint64_t refused_connections = 0;
};

}  // namespace tandem::kvlink
