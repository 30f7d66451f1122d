#pragma once
// A bounded multi-producer queue. When full, push() refuses: the caller decides what to drop.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem {

template <typename T>
class BoundedQueue {
 public:
  // Requires: capacity > 0.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) { CHECK_GT(capacity, 0u); }

  // False when full or closed; the item is then untouched. Thread-safe.
  [[nodiscard]] bool push(T& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }
  [[nodiscard]] bool push(T&& item) { return push(item); }

  // The oldest item, or nothing when empty. Never blocks. Thread-safe.
  std::optional<T> try_pop() {
    std::lock_guard lock(mutex_);
    return take();
  }

  // Waits for an item; nothing once closed and empty. Thread-safe.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take();
  }

  // Wakes every waiter; later pushes are refused. Thread-safe.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

 private:
  std::optional<T> take() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;   // guarded by mutex_
  bool closed_ = false;   // guarded by mutex_
};

}  // namespace tandem
