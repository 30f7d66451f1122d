#pragma once
// Reactor: the link thread's wait. epoll over sockets, closures from other threads, and the
// earliest deadline of the sockets' owners. Sleeps when nothing is due: an idle link costs nothing.

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/kvlink/tcp/socket.h"
#include "comm/runtime/clock.h"

namespace tandem::kvlink {

// Something with a socket. Link thread only.
class Pollable {
 public:
  virtual ~Pollable() = default;
  // May close and unregister itself, but not destroy itself.
  virtual void on_ready(uint32_t epoll_events) = 0;
  // When on_deadline is due; nothing when it waits for no time.
  virtual std::optional<TimePoint> deadline() const = 0;
  virtual void on_deadline() = 0;
};

class Reactor {
 public:
  using Closure = std::function<void()>;

  Reactor();  // throws StartupError

  // Runs closure on the link thread soon. Thread-safe.
  void post(Closure closure);
  // Ends run() soon; what was posted before still runs. Thread-safe.
  void stop();
  // Dispatches until stop(). The calling thread is the link thread.
  void run();

  // Link thread, or before run(). Events are level-triggered.
  void add(int fd, uint32_t epoll_events, Pollable& pollable);
  void modify(int fd, uint32_t epoll_events);
  void remove(int fd);  // before the fd is closed

  TimePoint now() const { return clock_.now(); }

 private:
  void wake();
  void run_posted();
  void run_deadlines();
  int timeout_ms() const;

  SystemClock clock_;
  FileDescriptor epoll_;
  FileDescriptor wake_;  // eventfd
  std::map<int, Pollable*> pollables_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<Closure> posted_;  // guarded by mutex_
};

}  // namespace tandem::kvlink
