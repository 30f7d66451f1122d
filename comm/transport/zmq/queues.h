#pragma once
// The two bounded queues between the loop thread and the I/O thread of one transport end.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "comm/runtime/event_loop.h"
#include "comm/transport/limits.h"

namespace tandem::transport {

// An eventfd as a value: wakes a poll. Thread-safe.
class WakeFd {
 public:
  WakeFd();
  ~WakeFd();
  WakeFd(const WakeFd&) = delete;
  WakeFd& operator=(const WakeFd&) = delete;
  int fd() const { return fd_; }
  void wake();
  void clear();   // I/O thread

 private:
  int fd_;
};

struct OutMessage {
  uint64_t connection = 0;   // hub: the peer; node: the number of the connection it is meant for
  std::string bytes;
};

// Loop → I/O thread. What is bounded is everything between send() and the network library.
class Outbox {
 public:
  Outbox(const TransportLimits& limits, WakeFd& wake) : limits_(limits), wake_(wake) {}

  // kInvalidArgument or kExhausted, as the transports promise. Thread-safe.
  Status push(OutMessage message);
  // Everything pushed so far. I/O thread.
  std::deque<OutMessage> take();
  // A taken message has been sent or dropped: its room is free again. I/O thread.
  void done(const OutMessage& message);

 private:
  const TransportLimits limits_;
  WakeFd& wake_;
  std::mutex mutex_;
  std::deque<OutMessage> messages_;   // guarded by mutex_
  size_t num_held_ = 0;               // guarded by mutex_; pushed and not done
  size_t held_bytes_ = 0;             // guarded by mutex_
};

struct InEvent {
  enum class Kind { kMessage, kConnected, kGone };
  Kind kind = Kind::kMessage;
  uint64_t connection = 0;
  std::string bytes;
};

// I/O thread → loop. Events run on the loop in order, in small batches so that timers get their
// turn. Always held by shared_ptr: a batch that is posted already may outlive the transport.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  Inbox(EventLoop& loop, size_t capacity, WakeFd& wake)
      : loop_(loop), capacity_(capacity), wake_(wake) {}

  // Requires: called before the I/O thread starts.
  void set_handler(std::function<void(InEvent)> handler) { handler_ = std::move(handler); }
  // Never refuses: the I/O thread stops reading while full(). I/O thread.
  void push(InEvent event);
  // True until the loop has caught up; the loop then wakes the I/O thread. I/O thread.
  bool full();
  // No handler runs any more. Loop thread.
  void stop();

 private:
  void run_batch();

  EventLoop& loop_;
  const size_t capacity_;
  WakeFd& wake_;                      // not touched once stopped_
  std::function<void(InEvent)> handler_;
  bool stopped_ = false;              // loop thread only
  std::mutex mutex_;
  std::deque<InEvent> events_;        // guarded by mutex_
  bool posted_ = false;               // guarded by mutex_; a run_batch is under way
  bool reader_waits_ = false;         // guarded by mutex_
};

}  // namespace tandem::transport
