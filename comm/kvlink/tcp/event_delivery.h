#pragma once
// EventDelivery: events from the link thread to the owner's loop, none after the link is gone.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "comm/kvlink/kv_link.h"
#include "comm/runtime/event_loop.h"

namespace tandem::kvlink {

class EventDelivery {
 public:
  using Event = std::function<void(KvLinkEvents&)>;

  // on_drained runs on the loop thread when the backlog has fallen to half the limit.
  EventDelivery(EventLoop& loop, std::function<void()> on_drained);
  // Loop thread, or any once the loop has ended.
  ~EventDelivery();

  // Loop thread.
  void deliver_to(KvLinkEvents& events);
  // Thread-safe.
  void post(Event event);
  // Too many events wait for the loop: read no more from peers. Thread-safe.
  bool backlogged() const;

 private:
  // Shared, because handlers that wait in the loop may outlive the link.
  struct State {
    KvLinkEvents* events = nullptr;    // loop thread only
    std::function<void()> on_drained;  // loop thread only
    std::atomic<uint32_t> waiting{0};
  };

  EventLoop& loop_;
  std::shared_ptr<State> state_;
};

}  // namespace tandem::kvlink
