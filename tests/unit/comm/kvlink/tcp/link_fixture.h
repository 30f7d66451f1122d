#pragma once
// Two or more TcpKvLinks in one process, each with a loop thread of its own, over real sockets.

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/kvlink/tcp/tcp_kv_link.h"
#include "comm/runtime/rng.h"
#include "comm/runtime/thread_loop.h"

namespace tandem::kvlink {

inline constexpr auto kPatience = std::chrono::seconds(20);

// Writes down every event; any thread may look.
class Recorder final : public KvLinkEvents {
 public:
  struct PartEvent {
    uint64_t grant = 0;
    uint32_t epoch = 0;
    uint32_t block = 0;
    uint64_t checksum = 0;
    uint64_t num_bytes = 0;
    PartStatus status = PartStatus::kVerified;
  };

  void on_part(GrantId grant, Epoch epoch, uint32_t block, uint64_t checksum, uint64_t num_bytes,
               PartStatus status) override {
    note("part " + std::to_string(grant.value) + "." + std::to_string(epoch.value) + "/" +
             std::to_string(block) + (status == PartStatus::kVerified ? " ok" : " corrupt"),
         [&] { parts_.push_back({grant.value, epoch.value, block, checksum, num_bytes, status}); });
  }
  void on_commit(Incarnation from, const wire::Commit& commit) override {
    note("commit " + std::to_string(commit.grant()) + " from " + std::to_string(from.value), [] {});
  }
  void on_part_sent(GrantId grant, Epoch, uint32_t block) override {
    note("sent " + std::to_string(grant.value) + "/" + std::to_string(block), [] {});
  }
  void on_committed(GrantId grant, Epoch) override {
    note("committed " + std::to_string(grant.value), [] {});
  }
  void on_link_lost(const PeerAddress& peer, const std::string& why) override {
    note("lost " + peer.instance + ": " + why, [] {});
  }

  std::vector<std::string> log() const {
    std::lock_guard lock(mutex_);
    return log_;
  }
  std::vector<PartEvent> parts() const {
    std::lock_guard lock(mutex_);
    return parts_;
  }
  // Lines that begin with `start`.
  size_t count(const std::string& start) const {
    std::lock_guard lock(mutex_);
    return count_locked(start);
  }
  // Waits until `number` lines begin with `start`.
  testing::AssertionResult wait(const std::string& start, size_t number = 1) const {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kPatience, [&] { return count_locked(start) >= number; })) {
      return testing::AssertionSuccess();
    }
    auto result = testing::AssertionFailure() << "only " << count_locked(start) << " of '" << start
                                              << "'; log:";
    for (const std::string& line : log_) result << "\n  " << line;
    return result;
  }

 private:
  template <typename More>
  void note(std::string line, More more) {
    std::lock_guard lock(mutex_);
    log_.push_back(std::move(line));
    more();
    changed_.notify_all();
  }
  size_t count_locked(const std::string& start) const {
    size_t found = 0;
    for (const std::string& line : log_) found += line.starts_with(start) ? 1 : 0;
    return found;
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::string> log_;
  std::vector<PartEvent> parts_;
};

// One process of the cluster: loop thread, recorder, link.
class Node {
 public:
  static TcpLinkOptions options(const std::string& name, uint64_t incarnation) {
    TcpLinkOptions options;
    options.instance = name;
    options.incarnation = Incarnation(incarnation);
    options.max_block_bytes = 1u << 20;
    return options;
  }

  explicit Node(const TcpLinkOptions& options)
      : options_(options), thread_([this] { loop_.run(); }) {
    call([&] {
      link_ = std::make_unique<TcpKvLink>(loop_, options);
      link_->deliver_to(events_);
    });
  }
  ~Node() {
    call([&] { link_.reset(); });
    loop_.stop();
    thread_.join();
  }

  // Runs fn on the loop thread and waits for it.
  template <typename Function>
  void call(Function fn) {
    std::promise<void> done;
    loop_.post([&] {
      fn();
      done.set_value();
    });
    done.get_future().wait();
  }
  PeerAddress address(uint64_t secret) const {
    return {options_.instance, options_.incarnation, link_->endpoint(), secret};
  }
  Incarnation incarnation() const { return options_.incarnation; }
  TcpKvLink& link() { return *link_; }
  Recorder& events() { return events_; }
  ThreadLoop& loop() { return loop_; }
  // The link dies as with its process; the loop goes on.
  void kill_link() {
    call([&] { link_.reset(); });
  }

 private:
  const TcpLinkOptions options_;
  ThreadLoop loop_;
  Recorder events_;
  std::unique_ptr<TcpKvLink> link_;
  std::thread thread_;
};

// The blocks of one granted sequence on both sides.
struct Blocks {
  Blocks(uint64_t grant_value, uint32_t count, size_t block_bytes, uint64_t seed = 1)
      : grant(grant_value) {
    SplitMix64 rng(seed + grant_value);
    for (uint32_t i = 0; i < count; ++i) {
      std::vector<std::byte> bytes(block_bytes);
      for (std::byte& byte : bytes) byte = std::byte(rng.next());
      source.push_back(std::move(bytes));
      target.emplace_back(block_bytes, std::byte{0xee});
      hashes.push_back({rng.next(), rng.next()});
    }
  }
  Part part(uint32_t i, uint32_t epoch = 0) const {
    return {grant, Epoch(epoch), i, hashes[i], source[i]};
  }
  Landing landing(Incarnation from, uint32_t epoch = 0, uint32_t first_block = 0) {
    Landing landing{grant, Epoch(epoch), from, first_block, hashes, {}};
    for (auto& block : target) landing.blocks.emplace_back(block);
    return landing;
  }
  wire::Commit commit(uint32_t epoch = 0) const {
    wire::Commit commit;
    commit.set_grant(grant.value);
    commit.set_epoch(epoch);
    commit.set_num_parts(static_cast<uint32_t>(source.size()));
    return commit;
  }
  bool untouched(uint32_t i) const {
    for (const std::byte byte : target[i]) {
      if (byte != std::byte{0xee}) return false;
    }
    return true;
  }

  GrantId grant;
  std::vector<std::vector<std::byte>> source;
  std::vector<std::vector<std::byte>> target;
  std::vector<wire::Hash128> hashes;
};

}  // namespace tandem::kvlink
