#pragma once
// AsioLoop: an EventLoop on Boost.Asio, so that HTTP handlers and protocol state share one thread.

#include <memory>

#include "comm/runtime/event_loop.h"

namespace tandem::http {

// Owned by main. post() and stop() are thread-safe; all else belongs to the thread that runs it.
// Destroy what uses the loop (HttpServer, transports, timers) before the loop; handlers that never
// ran are destroyed with it.
class AsioLoop final : public EventLoop {
 public:
  AsioLoop();
  ~AsioLoop() override;
  AsioLoop(const AsioLoop&) = delete;
  AsioLoop& operator=(const AsioLoop&) = delete;

  TimePoint now() const override;
  void post(Handler handler) override;
  TimerId after(Duration delay, Handler handler) override;
  void cancel(TimerId timer) override;

  // Runs handlers on the calling thread until stop(). Handlers posted before stop() still run.
  void run();
  void stop();

  struct Impl;   // holds the io_context; complete only inside comm/http
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::http
