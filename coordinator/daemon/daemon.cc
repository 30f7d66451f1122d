#include "coordinator/daemon/daemon.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/http/asio_loop.h"
#include "comm/http/server.h"
#include "comm/launch/process.h"
#include "comm/runtime/rng.h"
#include "comm/telemetry/coordinator_metrics.h"
#include "comm/telemetry/log.h"
#include "comm/telemetry/metrics.h"
#include "comm/transport/zmq/zmq_transport.h"
#include "coordinator/coordinator.h"
#include "coordinator/daemon/instance_exited.h"
#include "coordinator/daemon/model_text.h"
#include "coordinator/gateway/gateway.h"
#include "coordinator/router/policy.h"

namespace tandem::coordinator {
namespace {

constexpr Duration kIdlePoll = std::chrono::milliseconds(20);
constexpr Duration kFlushPatience = std::chrono::seconds(1);  // last bytes to slow clients

http::HttpServerOptions http_options(const config::Config& config) {
  http::HttpServerOptions options;
  options.address = config.coordinator.http.host;
  options.port = config.coordinator.http.port;
  http::HttpLimits& limits = options.limits;
  limits.max_header_bytes = static_cast<size_t>(config.coordinator.limits.max_header_bytes);
  limits.max_body_bytes = static_cast<size_t>(config.coordinator.limits.max_body_bytes);
  limits.max_connections = static_cast<size_t>(config.coordinator.limits.max_connections);
  limits.header_timeout = config.deadlines.http_header;
  limits.body_timeout = config.deadlines.http_header;
  limits.idle_timeout = config.deadlines.http_idle;
  limits.client_stall = config.deadlines.client_stall;
  return options;
}

Options coordinator_options(const config::Config& config, const topology::Expected& expected) {
  Options options;
  options.incarnation = Incarnation{random_seed() | 1};
  options.deadlines = config.deadlines;
  options.expected = expected;
  for (const std::string& name : config::instance_names(config)) {
    options.instances.emplace_back(name, config::find_instance(config, name)->role);
  }
  options.local_prefill_tokens = static_cast<uint32_t>(config.router.local_prefill_tokens);
  options.max_waiting = static_cast<uint32_t>(config.queue.max_waiting);
  const auto policy = router::policy_by_name(config.router.policy);
  if (!policy) throw StartupError("router.policy: " + policy.error().message);
  options.policy = *policy;
  return options;
}

class Daemon {
 public:
  explicit Daemon(const config::Config& config)
      : config_(config),
        files_(load_model_files(config)),
        rng_(config.testing.seed != 0 ? config.testing.seed : random_seed()),
        metrics_(registry_, config::instance_names(config)),
        hub_(transport::make_zmq_hub(loop_)),
        coordinator_(coordinator_options(config, files_.expected), loop_, *hub_, metrics_, log_),
        gateway_({loop_, coordinator_, files_.text(), registry_, metrics_, log_, rng_},
                 gateway_options()) {}

  void run();

 private:
  gateway::GatewayOptions gateway_options();
  void handle(const http::HttpRequest& request, http::ResponseWriterPtr writer);
  http::HttpResponse note_exit(const http::HttpRequest& request);
  void before_scrape();
  void on_signal(int number);
  void begin_drain();
  void watch_drain();
  void stop_when_flushed(TimePoint deadline);

  // Destroyed from the bottom up: first the listener, then what it calls, then the loop.
  const config::Config& config_;
  telemetry::Logger log_{{.instance = "coordinator"}};
  http::AsioLoop loop_;
  launch::SignalWatcher signals_{loop_, {SIGTERM, SIGINT}, [this](int n) { on_signal(n); }};
  const ModelFiles files_;
  SplitMix64 rng_;
  telemetry::MetricsRegistry registry_;
  telemetry::CoordinatorMetrics metrics_;
  std::unique_ptr<transport::HubTransport> hub_;
  Coordinator coordinator_;
  gateway::Gateway gateway_;
  std::optional<http::HttpServer> server_;

  uint64_t num_stalled_seen_ = 0;
  std::optional<TimePoint> drain_until_;
};

gateway::GatewayOptions Daemon::gateway_options() {
  gateway::GatewayOptions options;
  options.model_alias = config_.model.alias;
  options.before_scrape = [this] { before_scrape(); };
  return options;
}

void Daemon::run() {
  for (const std::string& warning : config_.warnings) {
    log_.warning("configuration", {{"message", warning}});
  }
  if (!files_.no_chat_reason.empty()) log_.warning("no_chat", {{"why", files_.no_chat_reason}});
  server_.emplace(loop_, http_options(config_),
                  [this](const http::HttpRequest& request, http::ResponseWriterPtr writer) {
                    handle(request, std::move(writer));
                  });
  const std::string control = coordinator_.start(config_.coordinator.control_url());
  const config::Endpoint http{config_.coordinator.http.host, server_->port()};
  std::printf("bound http=%s control=%s\n", http.text().c_str(), control.c_str());
  std::fflush(stdout);
  log_.info("serving", {{"http", http.text()}, {"control", control},
                        {"model", config_.model.alias}});
  loop_.run();
  log_.info("stopped");
}

void Daemon::handle(const http::HttpRequest& request, http::ResponseWriterPtr writer) {
  if (request.path == "/admin/instance_exited") {
    http::HttpResponse response = note_exit(request);
    metrics_.count_http(telemetry::HttpRoute::kAdmin, response.status);
    writer->respond(std::move(response));
    return;
  }
  gateway_.handle(request, std::move(writer));
  if (request.path == "/admin/drain" && coordinator_.readiness().draining) begin_drain();
}

http::HttpResponse Daemon::note_exit(const http::HttpRequest& request) {
  if (request.method != "POST") return http::make_method_not_allowed("POST");
  const auto exited = parse_instance_exited(request.body);
  if (!exited) return http::make_error(400, exited.error().message);
  coordinator_.instance_exited(exited->name, exited->pid);
  return http::make_response(202, "application/json", "{\"noted\":true}");
}

void Daemon::before_scrape() {
  coordinator_.refresh_gauges();
  if (!server_) return;
  const http::HttpStats stats = server_->stats();
  metrics_.http_connections.set(static_cast<double>(stats.open));
  metrics_.http_stalled_clients.add(static_cast<double>(stats.stalled - num_stalled_seen_));
  num_stalled_seen_ = stats.stalled;
}

void Daemon::on_signal(int number) {
  log_.info("signal", {{"number", number}});
  if (drain_until_) _exit(1);  // asked twice, or while draining already
  begin_drain();
}

void Daemon::begin_drain() {
  if (drain_until_) return;
  coordinator_.drain();
  drain_until_ = loop_.now() + config_.deadlines.drain;
  watch_drain();
}

void Daemon::watch_drain() {
  const bool idle = coordinator_.idle() && gateway_.num_calls() == 0;
  if (!idle && loop_.now() < *drain_until_) {
    loop_.after(kIdlePoll, [this] { watch_drain(); });
    return;
  }
  if (!idle) log_.warning("drain_deadline", {{"calls", gateway_.num_calls()}});
  server_->drain();
  stop_when_flushed(loop_.now() + kFlushPatience);
}

void Daemon::stop_when_flushed(TimePoint deadline) {
  if (server_->stats().open == 0 || loop_.now() >= deadline) {
    loop_.stop();
    return;
  }
  loop_.after(kIdlePoll, [this, deadline] { stop_when_flushed(deadline); });
}

}  // namespace

void run_daemon(const config::Config& config) { Daemon(config).run(); }

}  // namespace tandem::coordinator
