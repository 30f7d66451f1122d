#pragma once
// KvLink: the seam over which KV blocks travel from a prefill to a decode instance.
//
//   prefill leader                            decode leader
//   push(part) ... push(part) commit   --->   on_part, on_part, on_commit
//                              on_committed  <---
//
// Order holds per peer and grant: a commit arrives after every part of its grant that was pushed
// before it, or not at all. Other grants' parts may overtake it or be overtaken.
// A lost connection loses a suffix and is reported to the sender by on_link_lost; what to send
// again is the sender's decision. No peer ever writes into pool memory: an implementation lands a
// payload in memory of its own, looks the grant up, verifies it and copies.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/runtime/ids.h"
#include "comm/runtime/result.h"
#include "comm/wire/link.pb.h"
#include "comm/wire/token_hash.h"

namespace tandem::kvlink {

// The decode end of a pair of incarnations, as a grant names it.
struct PeerAddress {
  std::string instance;
  Incarnation incarnation;
  std::string endpoint;  // "tcp://host:port"
  uint64_t secret = 0;   // minted by the decode end for this pair

  auto operator<=>(const PeerAddress&) const = default;
};

// One block of a granted sequence. The bytes stay valid and unchanged until on_part_sent or
// on_link_lost of that peer, or until drop() of its (grant, epoch) has returned.
struct Part {
  GrantId grant;
  Epoch epoch;
  uint32_t block_index = 0;
  wire::Hash128 chain_hash;
  std::span<const std::byte> bytes;
};

// Where the parts of one grant may land. A block is written at most once per (grant, epoch).
struct Landing {
  GrantId grant;
  Epoch epoch;
  Incarnation source;                      // the only incarnation that may push
  uint32_t first_block = 0;                // blocks before it are cached: never written
  std::vector<wire::Hash128> chain_hashes; // by block index
  std::vector<std::span<std::byte>> blocks;// by block index
};

// What happened to a received part.
enum class PartStatus {
  kVerified,   // copied into its block
  kCorrupt,    // checksum or chain hash differs; nothing was written
};

// Called on the loop thread of the owner.
class KvLinkEvents {
 public:
  virtual ~KvLinkEvents() = default;
  // Decode side. Once per received part that belongs to an open landing.
  virtual void on_part(GrantId grant, Epoch epoch, uint32_t block_index, uint64_t checksum,
                       uint64_t num_bytes, PartStatus status) = 0;
  virtual void on_commit(Incarnation from, const wire::Commit& commit) = 0;
  // Prefill side.
  virtual void on_part_sent(GrantId grant, Epoch epoch, uint32_t block_index) = 0;
  virtual void on_committed(GrantId grant, Epoch epoch) = 0;
  // Connection refused, broken or not open in time. Everything queued for the peer is dropped.
  virtual void on_link_lost(const PeerAddress& peer, const std::string& why) = 0;
};

class KvLink {
 public:
  virtual ~KvLink() = default;

  // The endpoint that others push to. Fixed after construction.
  virtual std::string endpoint() const = 0;

  // This process goes on under another incarnation (it was fenced): every connection, landing and
  // expected peer of the old one is gone, nothing queued is sent any more. The first incarnation
  // is given at construction.
  virtual void reincarnate(Incarnation self) = 0;

  // Sender. Opens the connection when there is none. Never blocks; loop thread only.
  virtual void push(const PeerAddress& peer, const Part& part) = 0;
  virtual void commit(const PeerAddress& peer, const wire::Commit& commit) = 0;
  // Forgets what is queued of (grant, epoch). After it returns the parts' bytes aren't read and
  // no on_part_sent comes for them.
  virtual void drop(GrantId grant, Epoch epoch) = 0;

  // Receiver. Registers a secret for pushes from one incarnation (kept until forget_peer).
  virtual void expect_peer(Incarnation source, uint64_t secret) = 0;
  // Closes connections of that incarnation and destroys their memory: fencing. After it returns
  // nothing of that incarnation is written anywhere and no on_commit comes from it.
  virtual void forget_peer(Incarnation source) = 0;
  // Opens a landing; replaces the one of the same grant.
  virtual void open_landing(Landing landing) = 0;
  // After it returns nothing writes into the landing's blocks and no on_part comes for it.
  // Unknown grants are ignored.
  virtual void close_landing(GrantId grant) = 0;
  // Answers a commit over the connection it came from, if that still exists.
  virtual void committed(Incarnation to, GrantId grant, Epoch epoch) = 0;
};

}  // namespace tandem::kvlink
