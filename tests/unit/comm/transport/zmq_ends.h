#pragma once
// Hub and node ends over real sockets, each on a loop thread of its own, for the tests here.

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/runtime/thread_loop.h"
#include "comm/transport/zmq/zmq_transport.h"

namespace tandem::transport {

// A ThreadLoop on its own thread; call() runs something on it and waits.
class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }
  ThreadLoop& loop() { return loop_; }
  void call(std::function<void()> action) {
    std::promise<void> done;
    loop_.post([&] {
      action();
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  ThreadLoop loop_;
  std::thread thread_;
};

// What happened to an end, in order. Thread-safe.
class Log {
 public:
  void add(std::string what) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(what));
  }
  std::vector<std::string> entries() {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }
  // Waits until there are `count` entries; false after ten seconds.
  bool wait_for(size_t count) {
    for (int i = 0; i < 2000 && size() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return size() >= count;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> entries_;   // guarded by mutex_
};

struct HubEnd {
  explicit HubEnd(ZmqOptions given = {}) : options(given) {}
  ~HubEnd() { stop(); }

  void start(const std::string& at = "tcp://127.0.0.1:0") {
    thread.call([&] {
      hub = make_zmq_hub(thread.loop(), options);
      endpoint = hub->bind(at, {.on_message =
                                    [this](PeerId peer, std::string bytes) {
                                      last_peer = peer.value;
                                      log.add(std::move(bytes));
                                    },
                                .on_peer_gone = [this](PeerId) { log.add("-gone"); }});
    });
  }
  void stop() { thread.call([&] { hub.reset(); }); }
  Status send(std::string bytes) {
    Status status;
    thread.call([&] { status = hub->send(PeerId(last_peer), std::move(bytes)); });
    return status;
  }

  const ZmqOptions options;
  Log log;
  std::atomic<uint64_t> last_peer{0};
  std::string endpoint;
  std::unique_ptr<HubTransport> hub;
  LoopThread thread;   // joined before what its handlers use goes away
};

struct NodeEnd {
  explicit NodeEnd(ZmqOptions given = {}) : options(given) {}
  ~NodeEnd() { stop(); }

  void start(const std::string& endpoint) {
    thread.call([&] {
      node = make_zmq_node(thread.loop(), options);
      if (make_beacon) node->set_beacon(std::chrono::milliseconds(20), make_beacon);
      node->connect(endpoint, {.on_connected = [this] { log.add("+up"); },
                               .on_disconnected = [this] { log.add("-down"); },
                               .on_message = [this](std::string bytes) {
                                 log.add(std::move(bytes));
                               }});
    });
  }
  void stop() { thread.call([&] { node.reset(); }); }
  Status send(std::string bytes) {
    Status status;
    thread.call([&] { status = node->send(std::move(bytes)); });
    return status;
  }

  const ZmqOptions options;
  std::function<std::string()> make_beacon;
  Log log;
  std::unique_ptr<NodeTransport> node;
  LoopThread thread;
};

}  // namespace tandem::transport
