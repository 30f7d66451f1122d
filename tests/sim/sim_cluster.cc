#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/sim/sim_client.h"
#include "tests/sim/sim_process.h"

namespace tandem::sim {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMaxEvents = 60000;   // more is a livelock
constexpr Duration kQuietLimit = 25s;    // after the last request: leases have ended long before
constexpr uint32_t kCheckEvery = 64;     // events between full scans of the pools

struct Broken {};  // unwinds run_seed at the first broken promise

class Cluster {
 public:
  explicit Cluster(const SeedOptions& options)
      : options_(options), rng_(options.seed * 0x9e3779b97f4a7c15ull + 1), net_(loop_, rng_),
        links_(loop_, rng_),
        world_{loop_, rng_, net_, links_,
               [this](const std::string& process, const std::string& message, bool sending,
                      bool before) { return at_message(process, message, sending, before); },
               {}} {
    if (options.seed % 5 == 4) world_.local_prefill_tokens = 12;
    if (options.trace) {
      world_.trace = [this](const std::string& line) { timeline_ << line << "\n"; };
    }
  }

  SeedReport run() {
    try {
      build();
      schedule_requests();
      schedule_faults();
      drive();
      check_accounts();
    } catch (const Broken&) {
    }
    report_.timeline = timeline_.str();
    report_.num_events = loop_.num_events();
    report_.num_requests = static_cast<uint32_t>(clients_.size());
    for (const auto& client : clients_) {
      if (client->state() == SimClient::State::kOk) ++report_.num_ok;
    }
    return report_;
  }

 private:
  bool chance(uint32_t percent) { return rng_.below(100) < percent; }
  uint64_t between(uint64_t low, uint64_t high) { return low + rng_.below(high - low + 1); }
  Duration ms(uint64_t n) { return std::chrono::milliseconds(n); }

  void note(const std::string& what) {
    if (!world_.trace) return;
    std::ostringstream line;
    line << "ts=" << to_seconds(loop_.now().time_since_epoch()) << " --- " << what;
    world_.trace(line.str());
  }

  // Safe to call from inside a handler: the run ends at the next event.
  void broken(const std::string& what) {
    if (!report_.ok) return;
    report_.ok = false;
    report_.failure = what;
    note("BROKEN: " + what);
  }

  void build() {
    faulty_ = !chance(12);
    heavy_ = faulty_ && chance(60);
    slow_ = chance(heavy_ ? 60 : 40);
    struct Kind {
      int prefill, decode, mixed;
    };
    static constexpr Kind kKinds[] = {{1, 1, 0}, {2, 2, 0}, {1, 2, 0}, {2, 1, 0},
                                      {0, 0, 1}, {0, 0, 2}, {1, 1, 1}, {0, 0, 3}};
    Kind kind = kKinds[rng_.below(std::size(kKinds))];
    if (targets("retarget") || targets("no_source")) kind = {1, 2, 0};
    report_.shape = std::to_string(kind.prefill) + " prefill, " + std::to_string(kind.decode) +
                    " decode, " + std::to_string(kind.mixed) + " mixed";
    note(report_.shape);
    const auto block_size = static_cast<uint32_t>(between(3, 8));
    const auto add = [&](config::Role role, int count) {
      for (int i = 0; i < count; ++i) {
        InstanceShape shape;
        shape.name = std::string(config::role_name(role)) + "-" + std::to_string(i);
        shape.role = role;
        shape.block_size = block_size;
        shape.num_blocks = static_cast<uint32_t>(between(30, heavy_ ? 45 : 90)) * 8 / block_size;
        shape.scheduler.token_budget = static_cast<uint32_t>(between(8, 40));
        shape.scheduler.prefill_chunk = static_cast<uint32_t>(between(3, 24));
        shape.scheduler.max_sequences = static_cast<uint32_t>(between(1, 8));
        shape.scheduler.max_prefill_sequences = static_cast<uint32_t>(between(1, 4));
        shape.step_cost = slow_ ? ms(between(5, 60)) : ms(0);
        shapes_[shape.name] = shape;
        shape_list_.push_back(shape);
      }
    };
    add(config::Role::kPrefill, kind.prefill);
    add(config::Role::kDecode, kind.decode);
    add(config::Role::kMixed, kind.mixed);
    coordinator_ = std::make_unique<CoordinatorProcess>(world_, shape_list_);
    for (const InstanceShape& shape : shape_list_) start(shape.name);
    if (faulty_ && chance(20)) links_.set_corruption(0.05);
    if (heavy_ || chance(30)) net_.set_extra_delay(any_name(), ms(between(20, 500)));
    if (heavy_ || chance(40)) links_.set_slowness(between(5000, 60000));
    if (heavy_ && chance(60)) links_.set_cut_after_commit(static_cast<uint32_t>(between(5, 40)));
    if (faulty_ && chance(15)) lossy_percent_ = static_cast<uint32_t>(between(1, 8));
  }

  void start(const std::string& name) {
    if (processes_.contains(name)) return;
    note("start " + name);
    processes_[name] = std::make_unique<InstanceProcess>(world_, shapes_.at(name));
  }

  // ---- faults ----

  // kill -9, from outside any of the process's handlers; a supervisor restarts it.
  void crash(const std::string& name) {
    const auto found = processes_.find(name);
    if (found == processes_.end()) return;
    note("kill -9 " + name);
    ++num_faults_;
    found->second->kill();
    net_.crash(name);
    processes_.erase(found);
    loop_.after(ms(between(200, 1500)), [this, name] { start(name); });
  }

  void crash_coordinator() {
    if (coordinator_ == nullptr) return;
    note("kill -9 coordinator");
    ++num_faults_;
    coordinator_died_ = true;
    coordinator_->kill();
    net_.crash_hub(kControlEndpoint);
    for (auto& client : clients_) client->lose_coordinator();
    coordinator_.reset();
    loop_.after(ms(between(200, 4000)), [this] {
      note("start coordinator");
      coordinator_ = std::make_unique<CoordinatorProcess>(world_, shape_list_);
    });
  }

  // True: go on. False: the process dies at this very point (its stack unwinds without effect).
  bool at_message(const std::string& process, const std::string& message, bool sending,
                  bool before) {
    if (world_.trace && before && message != "heartbeat" && message != "renew") {
      note(process + (sending ? " sends " : " handles ") + message);
    }
    if (dying_.contains(process)) return false;
    // A full queue: the message is gone although the connection holds.
    const bool droppable = sending && before && !message.starts_with("link");
    if (droppable && lossy_percent_ > 0 && chance(lossy_percent_)) {
      note("lost on the way: " + message);
      ++num_faults_;
      return false;
    }
    if (sending && before && message == "prefill" && lost_prefills_ > 0) {
      // The prefill side never hears of it, and the decode side dies before Renew can tell.
      --lost_prefills_;
      note("lost on the way: prefill");
      loop_.after(ms(between(20, 200)), [this] { crash(chance(50) ? "decode-0" : "decode-1"); });
      return false;
    }
    if (!options_.target || target_done_ || options_.target->message != message) return true;
    const Point point = sending ? (before ? Point::kBeforeSend : Point::kAfterSend)
                                : (before ? Point::kBeforeHandle : Point::kAfterHandle);
    if (options_.target->point != point) return true;
    if (occurrences_++ < skip_occurrences_) return true;
    target_done_ = true;
    report_.hit.insert(*options_.target);
    note(process + " dies at " + message + ": " + point_name(point));
    die_at_point(process);
    return false;
  }

  void die_at_point(const std::string& process) {
    dying_.insert(process);
    if (process == "coordinator") {
      coordinator_->hub.kill();
      loop_.post([this] {
        dying_.erase("coordinator");
        crash_coordinator();
      });
    } else {
      const auto found = processes_.find(process);
      if (found != processes_.end()) found->second->kill();
      loop_.post([this, process] {
        dying_.erase(process);
        crash(process);
      });
    }
  }

  bool targets(const char* message) const {
    return options_.target && options_.target->message == message;
  }
  std::string any_name() { return shape_list_[rng_.below(shape_list_.size())].name; }

  void schedule_faults() {
    const bool rare = targets("regrant") || targets("regranted") || targets("retarget") ||
                      targets("no_source") || targets("part_failed") || targets("resend") ||
                      targets("nack");
    skip_occurrences_ = rare ? 0 : rng_.below(4);
    if (!faulty_ && !options_.target) return;
    const uint64_t num = between(options_.target ? 0 : 1, heavy_ ? 12 : 6);
    for (uint64_t i = 0; i < num; ++i) {
      loop_.after(ms(between(100, 5000)), [this] { one_fault(); });
    }
    if (options_.target) boost(options_.target->message);
  }

  // Rare messages need their cause.
  void boost(const std::string& message) {
    if (message == "drain") {
      loop_.after(ms(between(500, 3000)), [this] { drain_one(); });
    }
    if (message == "regrant" || message == "regranted" || message == "part_failed" ||
        message == "nack" || message == "retarget" || message == "no_source") {
      for (int i = 0; i < 6; ++i) {
        loop_.after(ms(between(300, 5000)), [this] { one_fault(); });
      }
    }
    if (message == "part_failed") {
      loop_.after(ms(between(100, 800)), [this] {
        for (const InstanceShape& a : shape_list_) {
          for (const InstanceShape& b : shape_list_) {
            if (a.name < b.name) links_.block(a.name, b.name, loop_.now() + 8s);
          }
        }
      });
    }
    if (message == "resend") lossy_percent_ = 15;
    if (message == "no_source") lost_prefills_ = 6;
    if (message == "resync") {
      for (int i = 0; i < 10; ++i) {
        loop_.after(ms(between(300, 5000)), [this] { net_.disconnect(any_name()); });
      }
    }
  }

  void drain_one() {
    const std::string name = any_name();
    if (coordinator_ == nullptr) return;
    note("drain " + name);
    ++num_faults_;
    coordinator_->coordinator->drain_instance(name);
    loop_.after(ms(between(500, 3000)), [this, name] { crash(name); });
  }

  void one_fault() {
    ++num_faults_;
    const std::string name = any_name();
    std::string other = any_name();
    for (int i = 0; i < 4 && other == name; ++i) other = any_name();
    switch (rng_.below(24)) {
      case 0: case 1: case 2: case 3: case 4: crash(name); break;
      case 5: case 6: case 7: stop(name); break;
      case 8: case 9: hang(name); break;
      case 10: case 11: case 12:
        note("disconnect " + name);
        net_.disconnect(name);
        break;
      case 13: case 14: partition(name); break;
      case 15: case 16:
        note("cut link " + name + " " + other);
        links_.cut(name, other);
        break;
      case 17:
        note("block link " + name + " " + other);
        links_.block(name, other, loop_.now() + ms(between(500, 7000)));
        break;
      case 18: case 19: case 20: case 21:
        note("cut link " + name + " " + other);
        links_.cut(name, other);
        break;
      case 22: drain_one(); break;
      default:
        if (chance(30)) crash_coordinator();
    }
  }

  // SIGSTOP; continued later, or killed by the supervisor.
  void stop(const std::string& name) {
    const auto found = processes_.find(name);
    if (found == processes_.end()) return;
    note("stop " + name);
    InstanceProcess* process = found->second.get();
    process->loop.stop();
    const bool killed = chance(40);
    const Duration pause = chance(50) ? ms(between(3000, 4500)) : ms(between(300, 6000));
    loop_.after(pause, [this, name, process, killed] {
      const auto again = processes_.find(name);
      if (again == processes_.end() || again->second.get() != process) return;
      if (killed) {
        crash(name);
      } else {
        note("continue " + name);
        process->loop.go_on();
      }
    });
  }

  void hang(const std::string& name) {
    const auto found = processes_.find(name);
    if (found == processes_.end()) return;
    note("hang the next step of " + name);
    found->second->executor.hang_next(ms(between(500, 5000)));
  }

  void partition(const std::string& name) {
    note("partition " + name);
    net_.partition(name, true);
    loop_.after(ms(between(200, 5000)), [this, name] {
      note("heal " + name);
      net_.partition(name, false);
    });
  }

  // ---- requests ----

  void schedule_requests() {
    const uint64_t num = between(heavy_ ? 12 : 3, 20);
    std::vector<std::vector<uint32_t>> families;
    for (int i = 0; i < 3; ++i) {
      std::vector<uint32_t> prefix(between(4, 40));
      for (uint32_t& token : prefix) token = static_cast<uint32_t>(rng_.below(kToyVocabulary - 1));
      families.push_back(std::move(prefix));
    }
    for (uint64_t i = 0; i < num; ++i) {
      request::Request request;
      if (chance(60)) request.prompt = families[rng_.below(families.size())];
      const uint64_t extra = between(1, 30);
      for (uint64_t k = 0; k < extra; ++k) {
        request.prompt.push_back(static_cast<uint32_t>(rng_.below(kToyVocabulary - 1)));
      }
      request.max_tokens = static_cast<uint32_t>(chance(20) ? between(60, 120) : between(1, 30));
      request.sampling.seed = rng_.next();
      request.ignore_eos = chance(70);
      auto expected = oracle(request.prompt, request.max_tokens, request.sampling.seed,
                             request.ignore_eos);
      auto client = std::make_unique<SimClient>(
          static_cast<uint32_t>(i), std::move(request), std::move(expected),
          [this](const std::string& what) { broken(what); });
      if (chance(heavy_ ? 35 : 20)) client->leave_after = chance(50) ? 0 : static_cast<int>(rng_.below(20));
      if (chance(10)) client->stop_after = static_cast<int>(between(1, 20));
      SimClient* raw = client.get();
      clients_.push_back(std::move(client));
      loop_.after(ms(between(50, slow_ ? 4000 : 2500)), [this, raw] { submit(raw); });
    }
  }

  void submit(SimClient* client) {
    if (client->over()) return;
    if (coordinator_ != nullptr && !dying_.contains("coordinator")) {
      client->submit(*coordinator_->coordinator);
    }
    if (client->state() == SimClient::State::kWaiting) {
      loop_.after(ms(300), [this, client] { submit(client); });
    } else if (client->leave_after == 0) {
      loop_.after(ms(rng_.below(chance(50) ? 50 : 600)), [client] { client->leave(); });
    }
  }

  // ---- running and checking ----

  void drive() {
    TimePoint over_at = TimePoint::max();
    for (uint64_t n = 0;; ++n) {
      if (!loop_.step()) fail("nothing happens any more");
      if (!report_.ok) throw Broken{};
      check_now(n % kCheckEvery == 0);
      const bool over = std::all_of(clients_.begin(), clients_.end(),
                                    [](const auto& client) { return client->over(); });
      if (over && over_at == TimePoint::max()) over_at = loop_.now();
      if (over && n % 16 == 0 && loop_.now() > TimePoint(1h) + 6s && quiet()) return;
      if (over && loop_.now() - over_at > kQuietLimit) fail("a leak: " + describe_unquiet());
      if (loop_.num_events() > kMaxEvents || loop_.now() > TimePoint(1h) + 120s) {
        fail("a request hangs: " + describe_unquiet());
      }
    }
  }

  [[noreturn]] void fail(const std::string& what) {
    broken(what);
    throw Broken{};
  }

  void check_now(bool full) {
    for (const auto& [name, process] : processes_) {
      const kv::BlockPool& pool = process->engine->pool();
      const kv::BlockCounts c = pool.counts();
      if (c.free + c.cached + c.leased != c.total) fail(name + ": free + cached + leased != total");
      if (!process->fatal.empty()) fail(name + ": " + process->fatal);
      if (!full) continue;
      if (const Status audit = pool.audit(); !audit.ok()) fail(name + ": " + audit.error().message);
    }
    if (coordinator_ != nullptr && coordinator_->coordinator->num_divergences() > 0) {
      fail("a replayed token differed");
    }
  }

  // Everything is back: all members ready, nothing held anywhere.
  bool quiet() const {
    if (coordinator_ == nullptr || !coordinator_->coordinator->idle()) return false;
    for (const InstanceShape& shape : shape_list_) {
      const auto found = processes_.find(shape.name);
      if (found == processes_.end()) return false;
      const engine::Snapshot s = found->second->engine->snapshot();
      if (s.running + s.waiting + s.holding + s.blocks.leased != 0) return false;
      const topology::Instance* member = coordinator_->coordinator->members().find(shape.name);
      if (member->state != topology::InstanceState::kReady) return false;
      if (member->incarnation != found->second->engine->incarnation()) return false;
    }
    return true;
  }

  std::string describe_unquiet() const {
    std::ostringstream text;
    if (coordinator_ != nullptr) {
      text << "coordinator: " << coordinator_->coordinator->num_requests() << " requests, "
           << coordinator_->coordinator->num_closing() << " closing";
      for (const auto& [name, member] : coordinator_->coordinator->members().instances()) {
        text << "; " << name << " " << topology::state_name(member.state);
      }
    }
    for (const auto& [name, process] : processes_) {
      const engine::Snapshot s = process->engine->snapshot();
      text << "; " << name << ": running " << s.running << " waiting " << s.waiting
           << " holding " << s.holding << " leased " << s.blocks.leased;
      process->engine->visit([&](const engine::Sequence& sequence) {
        text << " [" << (sequence.id.request.value & 0xffff) << "."
             << sequence.id.attempt.value << " " << engine::phase_name(sequence.phase) << "]";
      });
    }
    return text.str();
  }

  void check_accounts() {
    for (const auto& client : clients_) {
      if (client->state() == SimClient::State::kFailed && client->attempts < 3) {
        fail(client->name() + "failed early: " + client->error);
      }
      if (client->attempts > 1) report_.num_failovers += client->attempts - 1;
      if (num_faults_ == 0 && client->attempts > 1) {
        fail(client->name() + "needed another attempt without any fault");
      }
    }
    if (num_faults_ > 0 || coordinator_died_) return;
    double generated = 0;
    for (const auto& [name, process] : processes_) {
      generated += process->metrics.tokens_generated.value();
    }
    telemetry::CoordinatorMetrics& m = coordinator_->metrics;
    double accounted = m.tokens_delivered.value();
    for (size_t r = 0; r < static_cast<size_t>(telemetry::DiscardReason::kCount); ++r) {
      accounted += m.tokens_discarded[static_cast<telemetry::DiscardReason>(r)].value();
    }
    if (generated != accounted) {
      fail("generated " + std::to_string(generated) + " != delivered + discarded " +
           std::to_string(accounted));
    }
  }

  const SeedOptions options_;
  VirtualLoop loop_;
  SplitMix64 rng_;
  transport::LoopbackNetwork net_;
  SimLinkNetwork links_;
  World world_;
  std::ostringstream timeline_;
  SeedReport report_;

  bool faulty_ = true;
  bool slow_ = false;
  bool heavy_ = false;   // many requests, small pools, slow links, many faults
  bool coordinator_died_ = false;
  uint32_t num_faults_ = 0;
  uint32_t lossy_percent_ = 0;
  uint32_t lost_prefills_ = 0;
  bool target_done_ = false;
  uint64_t occurrences_ = 0;
  uint64_t skip_occurrences_ = 0;
  std::set<std::string> dying_;
  std::vector<InstanceShape> shape_list_;
  std::map<std::string, InstanceShape> shapes_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
  std::map<std::string, std::unique_ptr<InstanceProcess>> processes_;
};

}  // namespace

SeedReport run_seed(const SeedOptions& options) { return Cluster(options).run(); }

}  // namespace tandem::sim
