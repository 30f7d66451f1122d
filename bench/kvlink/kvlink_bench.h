#pragma once
// How fast KV blocks go from one TcpKvLink to another over the loopback interface, beside a memcpy
// of the same blocks measured in the same run. One byte moved counts once, on both sides.
// What arrived is compared with what was sent before anything is timed.

#include <cstddef>
#include <cstdint>

namespace tandem::bench {

struct KvLinkBenchOptions {
  size_t block_bytes = 737'280;  // 32 tokens of a 135M model in bf16
  uint32_t blocks = 64;          // of each grant
  uint32_t grants = 4;           // pushed at once
  uint32_t repeat = 5;           // the median counts
};

struct KvLinkBenchResult {
  double link_bytes_per_s = 0;    // push of the first part .. commit of the last grant received
  double memcpy_bytes_per_s = 0;  // one thread
  double first_part_s = 0;        // push .. on_part of one block on an open, idle connection
};

// Throws std::runtime_error when a part arrives wrong or not at all.
KvLinkBenchResult run_kvlink_bench(const KvLinkBenchOptions& options);

}  // namespace tandem::bench
