#pragma once
// The KV links of a simulated cluster: seeded delay, lost suffixes, corrupt payloads. Payloads are
// read from the sender's pool when they "leave", and copied into the receiver's when they "arrive",
// so a block that is reused too early is noticed.

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "comm/kvlink/kv_link.h"
#include "comm/runtime/rng.h"
#include "tests/sim/virtual_loop.h"

namespace tandem::sim {

class SimLinkNetwork;

// Return true to go on, false when the process dies at this point.
struct LinkHooks {
  std::function<bool(const char* message, bool sending, bool before)> at =
      [](const char*, bool, bool) { return true; };
};

class SimLink final : public kvlink::KvLink {
 public:
  SimLink(SimLinkNetwork& network, NodeLoop& loop, std::string name, LinkHooks hooks);
  ~SimLink() override;

  void set_events(kvlink::KvLinkEvents* events) { events_ = events; }
  // The process is dead: nothing leaves or arrives any more.
  void kill() { dead_ = true; }

  std::string endpoint() const override { return "sim://" + name_; }
  void reincarnate(Incarnation self) override;
  void push(const kvlink::PeerAddress& peer, const kvlink::Part& part) override;
  void commit(const kvlink::PeerAddress& peer, const wire::Commit& commit) override;
  void drop(GrantId grant, Epoch epoch) override;
  void expect_peer(Incarnation source, uint64_t secret) override { secrets_[source] = secret; }
  void forget_peer(Incarnation source) override { secrets_.erase(source); }
  void open_landing(kvlink::Landing landing) override;
  void close_landing(GrantId grant) override { landings_.erase(grant); }
  void committed(Incarnation to, GrantId grant, Epoch epoch) override;

 private:
  friend class SimLinkNetwork;
  struct Frame {
    bool is_commit = false;
    kvlink::Part part;
    wire::Commit commit;
    std::vector<std::byte> payload;
  };
  struct Outgoing {
    std::deque<Frame> frames;
    bool busy = false;
    uint64_t generation = 0;   // of the connection; a cut starts the next one
  };

  Frame take_next(Outgoing& outgoing);
  void pump(const kvlink::PeerAddress& peer);
  void lose(const kvlink::PeerAddress& peer, const std::string& why);
  void arrive(Incarnation from, uint64_t secret, Incarnation to, Frame frame);
  void land(const Frame& frame, Incarnation from);

  SimLinkNetwork& network_;
  NodeLoop& loop_;
  std::string name_;
  LinkHooks hooks_;
  kvlink::KvLinkEvents* events_ = nullptr;
  bool dead_ = false;
  Incarnation self_;
  std::map<kvlink::PeerAddress, Outgoing> outgoing_;
  std::map<Incarnation, uint64_t> secrets_;
  std::map<GrantId, kvlink::Landing> landings_;
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);
};

class SimLinkNetwork {
 public:
  SimLinkNetwork(VirtualLoop& loop, Rng& rng) : loop_(loop), rng_(rng) {}

  // Breaks all connections between two nodes now; what was under way is lost.
  void cut(const std::string& a, const std::string& b);
  // No connection between the two until `until`.
  void block(const std::string& a, const std::string& b, TimePoint until);
  void set_corruption(double share) { corruption_ = share; }
  // The most that one frame takes, in microseconds.
  void set_slowness(uint64_t max_us) { max_delay_us_ = max_us; }
  // The connection breaks right after a commit arrived, before it is answered.
  void set_cut_after_commit(uint32_t percent) { cut_after_commit_percent_ = percent; }
  void maybe_cut_after_commit(const std::string& receiver, Incarnation from);
  uint64_t num_corrupted() const { return num_corrupted_; }

 private:
  friend class SimLink;
  SimLink* find(const std::string& endpoint);
  bool blocked(const std::string& a, const std::string& b) const;
  Duration delay() { return std::chrono::microseconds(100 + rng_.below(max_delay_us_)); }

  VirtualLoop& loop_;
  Rng& rng_;
  std::map<std::string, SimLink*> links_;   // by endpoint
  std::map<std::pair<std::string, std::string>, TimePoint> blocked_;
  double corruption_ = 0;
  uint64_t max_delay_us_ = 3000;
  uint64_t num_cuts_ = 0;
  uint32_t cut_after_commit_percent_ = 0;
  uint64_t num_corrupted_ = 0;
};

}  // namespace tandem::sim
