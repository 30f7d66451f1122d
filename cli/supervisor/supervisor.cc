#include "cli/supervisor/supervisor.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "cli/client/http_client.h"
#include "cli/supervisor/child.h"
#include "cli/supervisor/cluster_view.h"
#include "cli/supervisor/command_lines.h"
#include "cli/supervisor/fence_watch.h"
#include "cli/supervisor/process_end.h"
#include "cli/supervisor/restart.h"
#include "cli/supervisor/run_directory.h"
#include "comm/runtime/check.h"

namespace tandem::supervisor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kPollBeforeReady = milliseconds(100);
constexpr Duration kPollWhenReady = milliseconds(500);
constexpr Duration kBoundDeadline = seconds(30);      // start of the coordinator to its endpoints
constexpr Duration kFencePatience = seconds(3);       // fenced, but its process lives
constexpr Duration kLauncherGrace = milliseconds(500);  // a killed worker's mpirun ends itself
constexpr Duration kLauncherPatience = seconds(2);    // and so does that of one that just ended
constexpr Duration kJoinGrace = seconds(5);           // beyond deadlines.join
constexpr Duration kTermGrace = seconds(2);           // SIGTERM to SIGKILL
constexpr int kMaxEarlyDeaths = 5;                    // of one instance, before the first ready
constexpr int kExitStartFailed = 2;

[[gnu::format(printf, 1, 2)]] void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char text[1024];
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "tandem up: %s\n", text);
}

void forward(const std::string& name, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    std::fprintf(stderr, "[%s] %s\n", name.c_str(), line.c_str());
  }
}

// The signals the supervisor lives by, as a file to poll. Blocks them in this thread.
class SignalFile {
 public:
  SignalFile() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signal(SIGPIPE, SIG_IGN);
    // A shell starts background jobs with SIGINT ignored, and ignored signals never arrive.
    for (const int number : {SIGINT, SIGTERM, SIGCHLD}) signal(number, SIG_DFL);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    CHECK_GE(fd_, 0);
  }
  ~SignalFile() { close(fd_); }
  SignalFile(const SignalFile&) = delete;
  SignalFile& operator=(const SignalFile&) = delete;

  int fd() const { return fd_; }
  // Counts what arrived: how often the user asked to stop so far.
  int stop_requests() {
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) ++stop_requests_;
    }
    return stop_requests_;
  }

 private:
  int fd_;
  int stop_requests_ = 0;
};

struct Instance {
  std::string name;
  std::optional<Child> child;
  RestartDelay restart;
  TimePoint start_at{};                  // when there is no child
  TimePoint started_at{};
  std::optional<TimePoint> ready_at;     // of this child
  std::optional<TimePoint> kill_launcher_at;
  std::optional<ProcessEnd> worker;      // rank 0, from its joining to its end
  int64_t worker_pid = 0;                // of this child, 0 until it joined
};

class Supervisor {
 public:
  Supervisor(const UpCommand& command, const config::Config& config, RunDirectory run)
      : config_(config), run_(std::move(run)) {
    settings_ = {command.program_folder, command.config_file, command.overrides, run_.path(),
                 run_.marker(), geteuid() == 0};
    for (const std::string& name : config::instance_names(config)) {
      instances_.emplace_back().name = name;
    }
  }

  int run() {
    if (const auto status = start_coordinator()) return end_all(*status);
    for (;;) {
      if (signals_.stop_requests() > 0) return end_all(drain());
      if (const auto status = check_coordinator()) return end_all(*status);
      tell_ended_workers();
      for (Instance& instance : instances_) {
        if (const auto status = tend(instance)) return end_all(*status);
      }
      poll_cluster();
      wait(next_wake());
    }
  }

 private:
  std::optional<int> start_coordinator();
  std::optional<int> check_coordinator();
  std::optional<int> tend(Instance& instance);
  std::optional<int> note_exit(Instance& instance, int status);
  void poll_cluster();
  void note_views(const std::vector<InstanceView>& views);
  void end_worker(Instance& instance, int64_t worker_pid);
  void tell_ended_workers();
  int drain();
  int end_all(int status);

  void read_bound_line(const std::vector<std::string>& lines);
  void wait(TimePoint until);
  void pump_output();
  bool any_alive();
  TimePoint next_wake() const;
  Result<client::HttpReply> ask(const char* method, const char* target, Duration timeout,
                                std::string body = "");

  const config::Config& config_;
  RunDirectory run_;
  LaunchSettings settings_;
  SignalFile signals_;
  SystemClock clock_;
  std::optional<Child> coordinator_;
  std::vector<Instance> instances_;
  FenceWatch fences_{kFencePatience};
  std::optional<client::Url> http_;   // once the coordinator has bound
  std::string control_url_;
  bool was_ready_ = false;
  TimePoint next_poll_{};
};

std::optional<int> Supervisor::start_coordinator() {
  Result<Child> child = Child::start(coordinator_command(settings_));
  if (!child.ok()) {
    say("%s; build it first (ninja -C build/release)", child.error().message.c_str());
    return kExitStartFailed;
  }
  coordinator_ = std::move(child).value();
  const TimePoint deadline = clock_.now() + kBoundDeadline;
  while (!http_.has_value()) {
    wait(clock_.now() + milliseconds(50));
    if (signals_.stop_requests() > 0) return 0;
    if (http_.has_value()) break;
    if (const auto status = check_coordinator()) return status;
    if (clock_.now() > deadline) {
      say("the coordinator named no endpoint within 30 s; its log is above");
      return kExitStartFailed;
    }
  }
  say("coordinator at %s, control %s", http_->text().c_str(), control_url_.c_str());
  return std::nullopt;
}

// Protocol: one stdout line "bound http=HOST:PORT control=tcp://HOST:PORT".
void Supervisor::read_bound_line(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const size_t control = line.find(" control=");
    constexpr std::string_view kStart = "bound http=";
    if (http_.has_value() || !line.starts_with(kStart) || control == std::string::npos) {
      forward("coordinator", {line});
      continue;
    }
    const std::string http = line.substr(kStart.size(), control - kStart.size());
    Result<client::Url> url = client::parse_url("http://" + http);
    if (!url.ok()) {
      forward("coordinator", {line});
      continue;
    }
    http_ = std::move(url).value();
    control_url_ = line.substr(control + std::string_view(" control=").size());
  }
}

std::optional<int> Supervisor::check_coordinator() {
  const std::optional<int> status = coordinator_->poll_exit();
  if (!status.has_value()) return std::nullopt;
  pump_output();
  if (was_ready_) {
    say("the coordinator ended (status %d), and with it the cluster; start it again", *status);
    return 1;
  }
  say("the coordinator did not start (status %d); its message is above", *status);
  return kExitStartFailed;
}

// Starts the instance when it is due, notes its end, kills it when it must go.
std::optional<int> Supervisor::tend(Instance& instance) {
  const TimePoint now = clock_.now();
  if (instance.child.has_value()) {
    if (const auto status = instance.child->poll_exit()) return note_exit(instance, *status);
    if (instance.kill_launcher_at && now >= *instance.kill_launcher_at) {
      instance.child->signal(SIGKILL);
      instance.kill_launcher_at.reset();
    }
    const Duration join_limit = config_.deadlines.join + kJoinGrace;
    if (!instance.ready_at && !instance.kill_launcher_at &&
        now - instance.started_at > join_limit) {
      say("%s did not join within %.0f s: killed", instance.name.c_str(), to_seconds(join_limit));
      instance.started_at = now;
      instance.child->signal(SIGKILL);
    }
    return std::nullopt;
  }
  if (now < instance.start_at) return std::nullopt;
  Result<Child> child = Child::start(worker_command(settings_, instance.name, control_url_));
  if (!child.ok()) {
    say("%s: %s; install openmpi-bin", instance.name.c_str(), child.error().message.c_str());
    if (!was_ready_) return kExitStartFailed;
    instance.start_at = now + instance.restart.after_exit(std::nullopt, now);
    return std::nullopt;
  }
  say("%s starting", instance.name.c_str());
  instance.child = std::move(child).value();
  instance.started_at = now;
  instance.worker_pid = 0;
  return std::nullopt;
}

std::optional<int> Supervisor::note_exit(Instance& instance, int status) {
  pump_output();
  if (was_ready_ && instance.worker_pid == 0) {   // perhaps it joined since the last poll
    next_poll_ = clock_.now();
    poll_cluster();
  }
  tell_ended_workers();
  const TimePoint now = clock_.now();
  const Duration delay = instance.restart.after_exit(instance.ready_at, now);
  instance.child.reset();
  instance.ready_at.reset();
  instance.kill_launcher_at.reset();
  instance.start_at = now + delay;
  const bool gives_up =
      status == kExitStartFailed || instance.restart.early_deaths() >= kMaxEarlyDeaths;
  if (!was_ready_ && gives_up) {
    say("%s did not start (status %d); its message is above", instance.name.c_str(), status);
    return kExitStartFailed;
  }
  say("%s ended (status %d); starting it again in %.2f s", instance.name.c_str(), status,
      to_seconds(delay));
  return std::nullopt;
}

Result<client::HttpReply> Supervisor::ask(const char* method, const char* target,
                                          Duration timeout, std::string body) {
  client::HttpRequest request;
  request.method = method;
  request.target = target;
  request.body = std::move(body);
  request.connect_timeout = timeout;
  request.idle_timeout = timeout;
  request.is_cancelled = [this, before = signals_.stop_requests()] {
    return signals_.stop_requests() != before;
  };
  return client::exchange(*http_, request);
}

void Supervisor::poll_cluster() {
  const TimePoint now = clock_.now();
  if (now < next_poll_) return;
  const bool all_ready = std::all_of(instances_.begin(), instances_.end(),
                                     [](const Instance& i) { return i.ready_at.has_value(); });
  next_poll_ = now + (all_ready ? kPollWhenReady : kPollBeforeReady);
  const Result<client::HttpReply> reply = ask("GET", "/admin/cluster", seconds(1));
  if (!reply.ok() || reply->status != 200) return;  // seen again at the next poll
  const Result<std::vector<InstanceView>> views = parse_cluster(reply->body);
  if (!views.ok()) {
    say("%s", views.error().message.c_str());
    return;
  }
  note_views(*views);
}

void Supervisor::note_views(const std::vector<InstanceView>& views) {
  const TimePoint now = clock_.now();
  std::map<std::string, int64_t> launchers;
  size_t num_ready = 0;
  for (Instance& instance : instances_) {
    if (!instance.child.has_value()) continue;
    launchers[instance.name] = instance.child->pid();
    for (const InstanceView& view : views) {
      const bool is_current =
          view.name == instance.name && view.launcher_pid == instance.child->pid();
      if (!is_current) continue;
      if (instance.worker_pid == 0) {
        instance.worker_pid = view.pid;
        instance.worker.emplace(static_cast<pid_t>(view.pid));
      }
      if (view.state != "ready") continue;
      ++num_ready;
      if (!instance.ready_at) instance.ready_at = now;
    }
  }
  for (const InstanceView& view : fences_.observe(views, launchers, now)) {
    for (Instance& instance : instances_) {
      if (instance.name == view.name) end_worker(instance, view.pid);
    }
  }
  if (was_ready_ || num_ready < instances_.size()) return;
  was_ready_ = true;
  std::printf("ready %s\n", http_->text().c_str());
  std::fflush(stdout);
}

// A stopped process answers to nothing but SIGKILL.
void Supervisor::end_worker(Instance& instance, int64_t worker_pid) {
  if (instance.kill_launcher_at.has_value()) return;
  say("%s is fenced but its process lives: killed", instance.name.c_str());
  const std::vector<pid_t> ours = find_marked_processes(run_.marker());
  if (std::find(ours.begin(), ours.end(), worker_pid) != ours.end()) {
    kill(static_cast<pid_t>(worker_pid), SIGKILL);
  }
  instance.kill_launcher_at = clock_.now() + kLauncherGrace;
}

// The coordinator needn't wait for silence: what an ended worker held is recovered at once.
void Supervisor::tell_ended_workers() {
  for (Instance& instance : instances_) {
    if (!instance.worker.has_value() || !instance.worker->ended()) continue;
    instance.worker.reset();
    const Result<client::HttpReply> reply =
        ask("POST", "/admin/instance_exited", seconds(1),
            "{\"name\":\"" + instance.name + "\",\"pid\":" +
                std::to_string(instance.worker_pid) + "}");
    if (!reply.ok() || reply->status != 202) {
      say("%s ended, and the coordinator could not be told", instance.name.c_str());
    }
    if (!instance.kill_launcher_at) instance.kill_launcher_at = clock_.now() + kLauncherPatience;
  }
}

// Lets running requests finish. Returns the exit status of the whole command.
int Supervisor::drain() {
  const TimePoint deadline = clock_.now() + config_.deadlines.drain;
  const Result<client::HttpReply> reply = ask("POST", "/admin/drain", seconds(2));
  if (!reply.ok() || reply->status != 202) {
    say("draining was not accepted; stopping at once");
    return signals_.stop_requests() > 1 ? 1 : 0;
  }
  say("draining: running requests finish (at most %.0f s; a second signal stops at once)",
      to_seconds(config_.deadlines.drain));
  while (!coordinator_->poll_exit().has_value()) {
    if (signals_.stop_requests() > 1) return 1;
    tell_ended_workers();
    if (clock_.now() >= deadline) {
      say("not idle after %.0f s; stopping", to_seconds(config_.deadlines.drain));
      return 0;
    }
    wait(std::min(deadline, clock_.now() + seconds(1)));
  }
  return 0;
}

bool Supervisor::any_alive() {
  bool alive = coordinator_.has_value() && !coordinator_->poll_exit().has_value();
  for (Instance& instance : instances_) {
    alive = alive || (instance.child.has_value() && !instance.child->poll_exit().has_value());
  }
  return alive;
}

// SIGTERM, then SIGKILL; leaves no process and no file. Returns `status`.
int Supervisor::end_all(int status) {
  const bool in_a_hurry = signals_.stop_requests() > 1;
  for (Instance& instance : instances_) instance.worker.reset();
  for (const int number : {SIGTERM, SIGKILL}) {
    if (number == SIGTERM && in_a_hurry) continue;
    if (coordinator_.has_value()) coordinator_->signal(number);
    for (Instance& instance : instances_) {
      if (instance.child.has_value()) instance.child->signal(number);
    }
    const TimePoint deadline = clock_.now() + kTermGrace;
    while (any_alive() && clock_.now() < deadline && signals_.stop_requests() <= 1) {
      wait(clock_.now() + milliseconds(20));
    }
  }
  while (any_alive()) wait(clock_.now() + milliseconds(20));  // SIGKILL is on its way
  pump_output();
  run_.remove();
  return status;
}

void Supervisor::pump_output() {
  if (coordinator_.has_value()) {
    read_bound_line(coordinator_->read_stdout());
    forward("coordinator", coordinator_->read_stderr());
  }
  for (Instance& instance : instances_) {
    if (!instance.child.has_value()) continue;
    forward(instance.name, instance.child->read_stdout());
    forward(instance.name, instance.child->read_stderr());
  }
}

// Sleeps until something happens: a signal, output, the end of a child, or the time.
void Supervisor::wait(TimePoint until) {
  std::vector<pollfd> files{{signals_.fd(), POLLIN, 0}};
  const auto watch = [&](const std::optional<Child>& child) {
    if (!child.has_value()) return;
    for (const int fd : {child->stdout_fd(), child->stderr_fd()}) {
      if (fd >= 0) files.push_back({fd, POLLIN, 0});
    }
  };
  watch(coordinator_);
  for (const Instance& instance : instances_) {
    watch(instance.child);
    if (instance.worker) files.push_back({instance.worker->fd(), POLLIN, 0});
  }
  const auto left = std::chrono::ceil<milliseconds>(until - clock_.now());
  poll(files.data(), files.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
  (void)signals_.stop_requests();
  pump_output();
}

TimePoint Supervisor::next_wake() const {
  TimePoint wake = next_poll_;
  for (const Instance& instance : instances_) {
    if (!instance.child.has_value()) wake = std::min(wake, instance.start_at);
    if (instance.kill_launcher_at) wake = std::min(wake, *instance.kill_launcher_at);
  }
  return wake;
}

}  // namespace

int run_up(const UpCommand& command, const config::Config& config) {
  for (const std::string& warning : config.warnings) say("%s", warning.c_str());
  const std::string parent = RunDirectory::default_parent();
  for (const std::string& path : sweep_stale_runs(parent)) {
    say("swept %s, left by an earlier run", path.c_str());
  }
  for (const char* program : {"tandem-coordinator", "tandem-worker"}) {
    const std::string path = command.program_folder + "/" + program;
    if (access(path.c_str(), X_OK) == 0) continue;
    throw StartupError(path + ": no such program; build it (ninja -C build/release)");
  }
  Supervisor supervisor(command, config, RunDirectory::create(parent));
  return supervisor.run();
}

}  // namespace tandem::supervisor
