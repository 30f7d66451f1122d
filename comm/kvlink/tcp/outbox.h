#pragma once
// Outbox: what waits to be sent to one peer, as flows of (grant, epoch), oldest flow first. Frames
// are taken from the flows in turn, so a long part delays nobody by more than one piece; inside a
// flow the order is that of the calls. At most kMaxOpenParts parts are under way at once.
//
//   flow A:  [part 3 (half sent)] [part 4] [commit]      frames: A3b B0a A4a B0b A4b A-commit ...
//   flow B:  [part 0]
//
// No locks, no sockets, no clock: the owner serialises. A part's bytes are read only inside
// next_frame().

#include <cstdint>
#include <deque>
#include <optional>
#include <variant>
#include <vector>

#include "comm/kvlink/kv_link.h"
#include "comm/runtime/clock.h"

namespace tandem::kvlink {

class Outbox {
 public:
  // push_id comes back when the part has been framed completely.
  void push(const Part& part, uint64_t push_id);
  // Queued at `now`: its times grow by the wait until it is framed.
  void commit(const wire::Commit& commit, TimePoint now);
  // Everything of (grant, epoch), started or not.
  void drop(GrantId grant, Epoch epoch);
  bool empty() const { return flows_.empty() && withdrawals_.empty(); }

  struct FrameInfo {
    size_t payload_bytes = 0;
    std::optional<uint64_t> finished_push;  // its last piece is in this frame
  };
  // Appends the next frame to out, its piece at most max_piece_bytes long. Nothing when empty.
  // Requires: max_piece_bytes > 0.
  std::optional<FrameInfo> next_frame(std::vector<std::byte>& out, size_t max_piece_bytes,
                                      TimePoint now);

 private:
  struct QueuedPart {
    Part part;
    uint64_t push_id = 0;
    uint64_t checksum = 0;  // known once begun
    size_t sent = 0;        // bytes; > 0: under way
  };
  struct QueuedCommit {
    wire::Commit commit;
    TimePoint queued_at;
  };
  using Item = std::variant<QueuedPart, QueuedCommit>;
  struct Flow {
    GrantId grant;
    Epoch epoch;
    std::deque<Item> items;  // never empty
  };

  Flow& flow_of(GrantId grant, Epoch epoch);
  bool may_send(const Flow& flow) const;
  FrameInfo frame_piece(QueuedPart& queued, std::vector<std::byte>& out, size_t max_piece_bytes);
  void pop_item(size_t flow);

  std::vector<Flow> flows_;            // oldest first
  size_t turn_ = 0;                    // index of the flow that is asked next
  uint32_t num_open_ = 0;              // parts under way
  std::deque<wire::Push> withdrawals_; // of parts under way that were dropped
};

}  // namespace tandem::kvlink
