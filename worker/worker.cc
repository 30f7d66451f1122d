#include "worker/worker.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "comm/collective/factory/make_communicator.h"
#include "comm/http/asio_loop.h"
#include "comm/http/server.h"
#include "comm/kvlink/tcp/tcp_kv_link.h"
#include "comm/launch/process.h"
#include "comm/runtime/rng.h"
#include "comm/telemetry/log.h"
#include "comm/telemetry/metrics.h"
#include "comm/telemetry/worker_metrics.h"
#include "comm/topology/heartbeat_source.h"
#include "comm/transport/zmq/zmq_transport.h"
#include "configs/schema/values.h"
#include "kernels/backends/cpu_backend.h"
#include "kernels/tensor/device_error.h"
#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"
#include "worker/engine/compute/compute_executor.h"
#include "worker/engine/compute/warm_up.h"
#include "worker/operator_routes.h"
#include "worker/worker_options.h"

namespace tandem::worker {
namespace {

template <typename T>
T value_of(Result<T> result) {
  if (!result) throw StartupError(result.error().message);
  return std::move(result).value();
}

// What lives on the loop thread while the worker serves.
struct Member {
  explicit Member(uint64_t seed) : rng(seed) {}

  SplitMix64 rng;
  SystemClock clock;
  telemetry::MetricsRegistry registry;
  telemetry::WorkerMetrics metrics{registry};
  topology::HeartbeatSource heartbeats{clock};
  std::unique_ptr<transport::NodeTransport> control;
  std::unique_ptr<kvlink::TcpKvLink> link;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<http::HttpServer> http;
};

class Worker {
 public:
  Worker(const config::Config& config, const std::string& instance, const launch::Rank& rank)
      : config_(config), instance_(instance), rank_(rank), log_({.instance = instance}) {}

  int run();

 private:
  // main thread
  void load();
  void compute();

  // loop thread
  void serve();
  void make_engine(Member& member);
  void make_http(Member& member);
  void watch_join();
  void on_signal(int number);
  void finish(std::string error);

  const config::Config& config_;
  const std::string instance_;
  const launch::Rank rank_;
  telemetry::Logger log_;
  const TimePoint started_ = SystemClock().now();
  http::AsioLoop loop_;
  launch::SignalWatcher signals_{loop_, {SIGTERM, SIGINT}, [this](int n) { on_signal(n); }};

  // Set by load(), before the loop thread looks at them.
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<collective::Communicator> comm_;
  std::unique_ptr<forward::Model> model_;
  std::string model_digest_;
  std::vector<uint32_t> eos_ids_;
  Duration seconds_per_token_{};
  std::unique_ptr<engine::ComputeExecutor> executor_;

  // Loop thread, until it ended.
  std::unique_ptr<Member> member_;
  bool finished_ = false;
  std::string error_;
};

int Worker::run() {
  for (const std::string& warning : config_.warnings) {
    log_.warning("configuration", {{"message", warning}});
  }
  // Ends the loop thread on every way out; what it owned is gone by then.
  struct LoopThread {
    http::AsioLoop& loop;
    std::thread thread;
    explicit LoopThread(http::AsioLoop& l) : loop(l), thread([&l] { l.run(); }) {}
    ~LoopThread() {
      loop.stop();
      thread.join();
    }
  };
  {
    const LoopThread thread(loop_);
    load();
    loop_.post([this] { serve(); });
    compute();
  }
  if (!error_.empty()) throw StartupError(error_);
  log_.info("stopped");
  return 0;
}

void Worker::load() {
  const format::GgufFile file = value_of(format::GgufFile::open(config_.model.path));
  const spec::ModelSpec spec = value_of(spec::read_spec(file));
  const forward::ModelOptions options = model_options(config_, instance_, spec);
  eos_ids_ = eos_ids(file);
  const config::PoolConfig& pool = config::pool_of(config_, instance_);
  const std::string pool_name =
      std::string("pools.") + config::role_name(config::find_instance(config_, instance_)->role);
  try {
    backend_ = backends::make_cpu_backend(config::ops_name(pool.ops), pool.threads);
  } catch (const tensor::UnsupportedError& error) {
    throw StartupError(pool_name + ".ops: " + error.what());
  }
  comm_ = value_of(collective::make_communicator(pool.tp, *backend_));
  TimePoint next_report = loop_.now() + std::chrono::seconds(1);
  const auto progress = [&](const weights::LoadProgress& at) {
    if (loop_.now() < next_report) return;
    next_report = loop_.now() + std::chrono::seconds(1);
    log_.info("loading_weights", {{"done_bytes", at.done_bytes},
                                  {"total_bytes", at.total_bytes}});
  };
  try {
    model_ = value_of(forward::Model::load(file, spec, {*backend_, *comm_}, options, progress));
    const auto measured = engine::warm_up(*model_, SystemClock(), pool.prefill_chunk);
    if (!measured) {
      throw StartupError(config_.model.path + ": " + measured.error().message +
                         "; is the file damaged?");
    }
    seconds_per_token_ = *measured;
  } catch (const tensor::DeviceError& error) {
    throw StartupError(pool_name + ": " + error.what() + "; a smaller " + pool_name +
                       ".kv_memory needs less memory");
  }
  model_digest_ = file.digest();
  executor_ = std::make_unique<engine::ComputeExecutor>(
      *model_, loop_, engine::ComputeOptions{.logits_digest = config_.testing.logits_digest});
  log_.info("model_loaded",
            {{"seconds", to_seconds(loop_.now() - started_)},
             {"ops", backend_->name()},
             {"matrix_bytes", model_->matrix_bytes()},
             {"kv_blocks", options.num_blocks},
             {"ms_per_token", 1e3 * to_seconds(seconds_per_token_)},
             {"numerics_class", model_->numerics().hash}});
}

void Worker::compute() {
  try {
    executor_->run();
  } catch (const tensor::DeviceError& error) {
    // Nothing may touch the device again: no destructor runs, the coordinator recovers the work.
    log_.error("device_failed", {{"why", error.what()}});
    _exit(kExitDeviceFailed);
  }
}

void Worker::serve() {
  if (finished_) return;
  member_ = std::make_unique<Member>(random_seed());
  try {
    make_http(*member_);    // first: the Hello names its address
    make_engine(*member_);
    member_->engine->start(config_.coordinator.control_url());
  } catch (const StartupError& error) {
    finish(error.what());
    return;
  }
  watch_join();
}

void Worker::make_engine(Member& member) {
  const wire::Descriptor descriptor =
      make_descriptor(*model_, model_digest_, config_, instance_);
  member.control = transport::make_zmq_node(loop_);
  member.link = std::make_unique<kvlink::TcpKvLink>(
      loop_, link_options(config_, instance_, descriptor, Incarnation{member.rng.next() | 1}));
  engine::Options options = engine_options(config_, instance_, descriptor);
  options.eos_ids = eos_ids_;
  options.pid = static_cast<uint32_t>(getpid());
  options.launcher_pid = rank_.under_mpirun ? static_cast<uint32_t>(getppid()) : 0;
  options.metrics_url = member.http->url() + "/metrics";
  options.seconds_per_token = seconds_per_token_;
  const engine::Seams seams{loop_,       member.rng,        *member.control, *member.link,
                            *executor_,  member.heartbeats, member.metrics,  log_};
  member.engine = std::make_unique<engine::Engine>(
      std::move(options), seams, [this](const std::string& why) {
        // The engine is still inside one of its handlers.
        loop_.post([this, why] { finish(why); });
      });
  member.link->deliver_to(*member.engine);
}

void Worker::make_http(Member& member) {
  http::HttpServerOptions http_options;
  http_options.limits.max_connections = 64;
  http_options.limits.max_body_bytes = 1024;
  member.http = std::make_unique<http::HttpServer>(
      loop_, http_options, [this](const http::HttpRequest& request, http::ResponseWriterPtr out) {
        engine::Engine& engine = *member_->engine;
        const config::Deadlines& deadlines = config_.deadlines;
        const OperatorView view{
            .registry = member_->registry,
            .refresh_gauges = [&] { engine.refresh_gauges(); },
            .joined = [&] { return engine.joined(); },
            .stalled = [&] {
              return member_->heartbeats.stalled(deadlines.stalled_min, deadlines.stalled_factor);
            }};
        out->respond(answer(view, request));
      });
}

// A worker that nobody lets in is of no use, and whoever started it should know.
void Worker::watch_join() {
  const Duration left = config_.deadlines.join - (loop_.now() - started_);
  loop_.after(std::max(left, Duration{}), [this] {
    if (finished_ || member_->engine->ever_joined()) return;
    finish("no coordinator at " + config_.coordinator.control_url() +
           " admitted this instance within deadlines.join (" +
           config::format_duration(config_.deadlines.join) +
           "); is it running, and is coordinator.control right?");
  });
}

void Worker::on_signal(int number) {
  if (!member_) _exit(0);  // still loading: nothing to give back
  log_.info("signal", {{"number", number}});
  finish("");
}

// Takes the instance apart and lets both threads end. error: a StartupError's message, or empty.
void Worker::finish(std::string error) {
  if (finished_) return;
  finished_ = true;
  error_ = std::move(error);
  executor_->stop();
  member_->http.reset();
  member_->engine.reset();
  member_->link.reset();
  member_.reset();
}

}  // namespace

int run_worker(const config::Config& config, const std::string& instance,
               const launch::Rank& rank) {
  return Worker(config, instance, rank).run();
}

}  // namespace tandem::worker
