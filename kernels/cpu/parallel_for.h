#pragma once
// The definition of CpuBackend::parallel_for, shared by the files that implement it.

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"

namespace tandem::cpu {

// Below this many multiply-adds a hand-over between threads costs more than it saves.
inline constexpr int64_t kMinParallelWork = 20'000;

template <class F>
void CpuBackend::parallel_for(int64_t count, int64_t work_per_item, const F& fn) {
  if (count <= 0) return;
  const int members = pool_->size();
  if (members == 1 || count == 1 || count * work_per_item < kMinParallelWork) {
    const DenormalGuard guard;
    return fn(int64_t{0}, count, 0);
  }
  pool_->run([&](int member) {
    const int64_t begin = count * member / members;
    const int64_t end = count * (member + 1) / members;
    if (begin < end) fn(begin, end, member);
  });
}

}  // namespace tandem::cpu
