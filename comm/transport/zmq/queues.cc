#include "comm/transport/zmq/queues.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "comm/runtime/check.h"

namespace tandem::transport {

WakeFd::WakeFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { CHECK_GE(fd_, 0); }

WakeFd::~WakeFd() { close(fd_); }

void WakeFd::wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the poll wakes anyway.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

void WakeFd::clear() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof count);
}

Status Outbox::push(OutMessage message) {
  if (Status size = check_message_size(limits_, message.bytes); !size.ok()) return size;
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    if (num_held_ >= limits_.max_outbound_messages ||
        held_bytes_ + message.bytes.size() > limits_.max_outbound_bytes) {
      return Error{ErrorCode::kExhausted, "the outbound control queue is full", {}};
    }
    ++num_held_;
    held_bytes_ += message.bytes.size();
    was_empty = messages_.empty();
    messages_.push_back(std::move(message));
  }
  if (was_empty) wake_.wake();
  return {};
}

std::deque<OutMessage> Outbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

void Outbox::done(const OutMessage& message) {
  const std::lock_guard lock(mutex_);
  CHECK_GT(num_held_, 0u);
  CHECK_GE(held_bytes_, message.bytes.size());
  --num_held_;
  held_bytes_ -= message.bytes.size();
}

void Inbox::push(InEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    if (posted_) return;
    posted_ = true;
  }
  loop_.post([self = shared_from_this()] { self->run_batch(); });
}

bool Inbox::full() {
  const std::lock_guard lock(mutex_);
  // Once full, reading starts again at half.
  reader_waits_ = events_.size() >= (reader_waits_ ? capacity_ / 2 + 1 : capacity_);
  return reader_waits_;
}

void Inbox::stop() { stopped_ = true; }

void Inbox::run_batch() {
  constexpr int kBatch = 64;
  for (int i = 0; i < kBatch; ++i) {
    if (stopped_) return;
    InEvent event;
    {
      const std::lock_guard lock(mutex_);
      if (events_.empty()) {
        posted_ = false;
        return;
      }
      event = std::move(events_.front());
      events_.pop_front();
      if (reader_waits_ && events_.size() == capacity_ / 2) wake_.wake();
    }
    handler_(std::move(event));
  }
  loop_.post([self = shared_from_this()] { self->run_batch(); });
}

}  // namespace tandem::transport
