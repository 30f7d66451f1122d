#include "bench/kvlink/kvlink_bench.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/kvlink/tcp/tcp_kv_link.h"
#include "comm/runtime/rng.h"
#include "comm/runtime/thread_loop.h"
#include "comm/wire/token_hash.h"

namespace tandem::bench {
namespace {

constexpr uint64_t kSecret = 1;
constexpr Incarnation kSender(1);
constexpr Incarnation kReceiver(2);
constexpr auto kPatience = std::chrono::seconds(60);

// Counts what arrives.
class Arrivals final : public kvlink::KvLinkEvents {
 public:
  void on_part(GrantId, Epoch, uint32_t, uint64_t, uint64_t, kvlink::PartStatus status) override {
    note([&] {
      ++parts_;
      failed_ |= status != kvlink::PartStatus::kVerified;
    });
  }
  void on_commit(Incarnation, const wire::Commit&) override {
    note([&] { ++commits_; });
  }
  void on_part_sent(GrantId, Epoch, uint32_t) override {}
  void on_committed(GrantId, Epoch) override {}
  void on_link_lost(const kvlink::PeerAddress&, const std::string&) override {
    note([&] { failed_ = true; });
  }

  // Since start. Throws when they don't come, or come wrong.
  void wait(uint64_t parts, uint64_t commits) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] {
      return failed_ || (parts_ >= parts && commits_ >= commits);
    });
    if (failed_ || parts_ < parts || commits_ < commits) {
      throw std::runtime_error("kvlink: a part arrived wrong or not at all");
    }
  }

 private:
  template <typename Change>
  void note(Change change) {
    std::lock_guard lock(mutex_);
    change();
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t parts_ = 0;
  uint64_t commits_ = 0;
  bool failed_ = false;
};

// A link with a loop thread of its own.
class End {
 public:
  End(const char* name, Incarnation incarnation, size_t block_bytes)
      : thread_([this] { loop_.run(); }) {
    kvlink::TcpLinkOptions options;
    options.instance = name;
    options.incarnation = incarnation;
    options.max_block_bytes = block_bytes;
    call([&] {
      link_ = std::make_unique<kvlink::TcpKvLink>(loop_, options);
      link_->deliver_to(arrivals_);
    });
  }
  ~End() {
    call([&] { link_.reset(); });
    loop_.stop();
    thread_.join();
  }
  template <typename Function>
  void call(Function fn) {
    std::promise<void> done;
    loop_.post([&] {
      fn();
      done.set_value();
    });
    done.get_future().wait();
  }
  kvlink::TcpKvLink& link() { return *link_; }
  Arrivals& arrivals() { return arrivals_; }

 private:
  ThreadLoop loop_;
  Arrivals arrivals_;
  std::unique_ptr<kvlink::TcpKvLink> link_;
  std::thread thread_;
};

// All blocks of all grants, side by side in memory as in a pool.
struct Pool {
  Pool(const KvLinkBenchOptions& options, bool random)
      : bytes(options.block_bytes * options.blocks * options.grants) {
    SplitMix64 rng(1);
    if (!random) return;
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      const uint64_t word = rng.next();
      std::memcpy(bytes.data() + at, &word, 8);
    }
  }
  std::span<std::byte> block(const KvLinkBenchOptions& options, uint32_t grant, uint32_t index) {
    const size_t at = (size_t{grant} * options.blocks + index) * options.block_bytes;
    return std::span(bytes).subspan(at, options.block_bytes);
  }
  std::vector<std::byte> bytes;
};

class Bench {
 public:
  explicit Bench(const KvLinkBenchOptions& options)
      : options_(options), source_(options, true), target_(options, false),
        sender_("sender", kSender, options.block_bytes),
        receiver_("receiver", kReceiver, options.block_bytes) {
    receiver_.call([&] { receiver_.link().expect_peer(kSender, kSecret); });
    peer_ = {"receiver", kReceiver, receiver_.link().endpoint(), kSecret};
  }

  KvLinkBenchResult run() {
    transfer();
    if (source_.bytes != target_.bytes) throw std::runtime_error("kvlink: wrong bytes arrived");
    std::vector<double> link, copy, first;
    for (uint32_t i = 0; i < options_.repeat; ++i) {  // interleaved: the machine's state is shared
      copy.push_back(time([&] {
        std::memcpy(target_.bytes.data(), source_.bytes.data(), source_.bytes.size());
      }));
      link.push_back(transfer());
      first.push_back(one_part());
    }
    const double num_bytes = static_cast<double>(source_.bytes.size());
    return {num_bytes / median(link), num_bytes / median(copy), median(first)};
  }

 private:
  template <typename Function>
  static double time(Function fn) {
    const auto start = std::chrono::steady_clock::now();
    fn();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  }

  // Opens landings for `grants` grants of `blocks` blocks, and names them anew.
  void open(uint32_t grants, uint32_t blocks) {
    receiver_.call([&] {
      for (uint32_t g = 0; g < grants; ++g) {
        kvlink::Landing landing{GrantId(++last_grant_), Epoch(), kSender, 0, {}, {}};
        for (uint32_t i = 0; i < blocks; ++i) {
          landing.chain_hashes.push_back({last_grant_, i});
          landing.blocks.push_back(target_.block(options_, g, i));
        }
        receiver_.link().open_landing(std::move(landing));
      }
    });
  }
  void push(uint32_t grants, uint32_t blocks) {
    const uint64_t first_grant = last_grant_ + 1 - grants;
    sender_.call([&] {
      for (uint32_t i = 0; i < blocks; ++i) {
        for (uint32_t g = 0; g < grants; ++g) {
          const uint64_t grant = first_grant + g;
          sender_.link().push(peer_, {GrantId(grant), Epoch(), i, {grant, i},
                                      source_.block(options_, g, i)});
        }
      }
      for (uint32_t g = 0; g < grants; ++g) {
        wire::Commit commit;
        commit.set_grant(first_grant + g);
        sender_.link().commit(peer_, commit);
      }
    });
    num_parts_ += uint64_t{grants} * blocks;
    num_commits_ += grants;
    receiver_.arrivals().wait(num_parts_, num_commits_);
  }
  void close(uint32_t grants) {
    receiver_.call([&] {
      for (uint32_t g = 0; g < grants; ++g) {
        receiver_.link().close_landing(GrantId(last_grant_ - g));
      }
    });
  }
  double send(uint32_t grants, uint32_t blocks) {
    open(grants, blocks);
    const double seconds = time([&] { push(grants, blocks); });
    close(grants);
    return seconds;
  }
  double transfer() { return send(options_.grants, options_.blocks); }
  double one_part() { return send(1, 1); }

  const KvLinkBenchOptions options_;
  Pool source_;
  Pool target_;
  End sender_;
  End receiver_;
  kvlink::PeerAddress peer_;
  uint64_t last_grant_ = 0;
  uint64_t num_parts_ = 0;
  uint64_t num_commits_ = 0;
};

}  // namespace

KvLinkBenchResult run_kvlink_bench(const KvLinkBenchOptions& options) {
  return Bench(options).run();
}

}  // namespace tandem::bench
