#include "comm/http/asio_loop.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "comm/http/asio_loop_impl.h"

namespace tandem::http {

AsioLoop::AsioLoop() : impl_(std::make_unique<Impl>()) {}

AsioLoop::~AsioLoop() { impl_->timers.clear(); }

void AsioLoop::Impl::run_posted() {
  std::deque<Handler> batch;
  {
    const std::lock_guard lock(mutex);
    batch.swap(posted);
  }
  for (Handler& handler : batch) std::exchange(handler, nullptr)();
  const std::lock_guard lock(mutex);
  scheduled = !posted.empty();
  // Posted, not looped: sockets and timers get their turn between two batches.
  if (scheduled) boost::asio::post(io, [this] { run_posted(); });
}

TimePoint AsioLoop::now() const { return SystemClock().now(); }

void AsioLoop::post(Handler handler) {
  const std::lock_guard lock(impl_->mutex);
  impl_->posted.push_back(std::move(handler));
  if (std::exchange(impl_->scheduled, true)) return;
  boost::asio::post(impl_->io, [impl = impl_.get()] { impl->run_posted(); });
}

EventLoop::TimerId AsioLoop::after(Duration delay, Handler handler) {
  const TimerId id = impl_->next_timer++;
  const auto [entry, added] = impl_->timers.try_emplace(
      id, Impl::Timer{boost::asio::steady_timer(impl_->io, delay), std::move(handler)});
  entry->second.timer.async_wait([impl = impl_.get(), id](const boost::system::error_code&) {
    // Cancelled timers are gone from the map, even if this wait had ended before.
    const auto found = impl->timers.find(id);
    if (found == impl->timers.end()) return;
    const Handler due = std::move(found->second.handler);
    impl->timers.erase(found);
    due();
  });
  return id;
}

void AsioLoop::cancel(TimerId timer) { impl_->timers.erase(timer); }

void AsioLoop::run() {
  impl_->io.restart();
  impl_->io.run();
}

void AsioLoop::stop() {
  post([impl = impl_.get()] { impl->io.stop(); });
}

}  // namespace tandem::http
