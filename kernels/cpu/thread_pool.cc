#include "kernels/cpu/thread_pool.h"

#include <immintrin.h>

#include "kernels/tensor/check.h"

namespace tandem::cpu {
namespace {

// Long enough to bridge the gap between two ops of a step (about 30 µs of pauses), short enough
// not to disturb others on a shared core.
constexpr int kSpins = 600;
constexpr uint32_t kFlushDenormals = 0x8040;  // FTZ | DAZ in MXCSR

}  // namespace

DenormalGuard::DenormalGuard() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlushDenormals); }
DenormalGuard::~DenormalGuard() { _mm_setcsr(saved_); }

ThreadPool::ThreadPool(int threads) {
  CHECK_KERNEL(threads >= 1);
  helpers_.reserve(static_cast<size_t>(threads) - 1);
  for (int member = 1; member < threads; ++member) {
    helpers_.emplace_back([this, member] { helper_main(member); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::dispatch(Call call, const void* function) {
  const DenormalGuard guard;
  if (helpers_.empty()) return call(function, 0);
  call_ = call;
  function_ = function;
  pending_.store(static_cast<uint32_t>(helpers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  call(function, 0);
  for (int spin = 0;; ++spin) {
    const uint32_t left = pending_.load(std::memory_order_acquire);
    if (left == 0) return;
    if (spin < kSpins) {
      _mm_pause();
    } else {
      pending_.wait(left, std::memory_order_acquire);
    }
  }
}

uint32_t ThreadPool::wait_for_task(uint32_t seen) {
  for (int spin = 0;; ++spin) {
    const uint32_t epoch = epoch_.load(std::memory_order_acquire);
    if (epoch != seen) return epoch;
    if (spin < kSpins) {
      _mm_pause();
    } else {
      epoch_.wait(seen, std::memory_order_acquire);
    }
  }
}

void ThreadPool::helper_main(int member) {
  const DenormalGuard guard;
  uint32_t seen = 0;
  for (;;) {
    seen = wait_for_task(seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    call_(function_, member);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

}  // namespace tandem::cpu
