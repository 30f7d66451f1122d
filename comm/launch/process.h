#pragma once
// What a process of ours needs from the operating system: dying with its parent, and signals as
// events of its loop.

#include <sys/types.h>

#include <functional>
#include <initializer_list>
#include <memory>

#include "comm/runtime/event_loop.h"

namespace tandem::launch {

// Makes the kernel send SIGKILL to this process when the *thread* that started it ends; exits at
// once if the parent is gone already. Requires: called first thing in main (or between fork and
// exec), by a child whose parent forks from a thread that lives as long as the parent.
// expected_parent: the parent's pid if known, else 0 (then only re-parenting to init is noticed).
void die_with_parent(pid_t expected_parent = 0);

// Unblocks every signal: between fork and exec in a process that has a SignalWatcher, since a
// child inherits the mask.
void unblock_all_signals();

// Turns signals into handler(signal) calls on the loop. Owned by main. Blocks these signals for the
// process, so it must be made before any other thread starts; one sleeping thread waits for them.
// Handlers are posted; none runs after the destructor, if that runs on the loop's thread.
class SignalWatcher {
 public:
  SignalWatcher(EventLoop& loop, std::initializer_list<int> signals,
                std::function<void(int)> handler);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::launch
