#pragma once
// A fixed team of threads that runs one function at a time, once per member.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tandem::cpu {

// Sets flush-to-zero and denormals-are-zero on the calling thread while it lives: bits must not
// depend on which thread computes, nor speed on tiny values.
class DenormalGuard {
 public:
  DenormalGuard();
  ~DenormalGuard();
  DenormalGuard(const DenormalGuard&) = delete;
  DenormalGuard& operator=(const DenormalGuard&) = delete;

 private:
  uint32_t saved_;
};

// Owned by a CpuBackend; run() is called by one thread at a time, which takes part as member 0.
// Helpers spin for some microseconds after a task, since the next op of a step follows at once, and
// then sleep: an idle pool costs nothing. Never runs two functions at once, never allocates in
// run().
class ThreadPool {
 public:
  // Requires: threads >= 1; threads - 1 helpers are started.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int size() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls function(member) on every member, 0 <= member < size(), and returns when all are done.
  // Requires: the function doesn't throw.
  template <class F>
  void run(const F& function) {
    dispatch([](const void* f, int member) { (*static_cast<const F*>(f))(member); }, &function);
  }

 private:
  using Call = void (*)(const void* function, int member);

  void dispatch(Call call, const void* function);
  void helper_main(int member);
  uint32_t wait_for_task(uint32_t seen);

  std::vector<std::thread> helpers_;
  Call call_ = nullptr;
  const void* function_ = nullptr;
  std::atomic<uint32_t> epoch_{0};    // counts tasks; a change wakes helpers
  std::atomic<uint32_t> pending_{0};  // helpers still in the task
  std::atomic<bool> stop_{false};
};

}  // namespace tandem::cpu
