#pragma once
// Deliberate protocol bugs, compiled in only for the simulation's twin of the protocol modules
// (tandem_planted_twin in cmake/TandemPlanted.cmake). Everywhere else planted() is the constant
// false and the faulty branches vanish. The simulation proves its worth by finding each of them.

#include <atomic>

namespace tandem {

enum class Bug : int {
  kReleaseBlockEarly,      // a block becomes free while another lease still holds it
  kSkipFence,              // a fenced incarnation is never told that it is over
  kAcceptOldEpoch,         // parts and commits of a closed epoch count
  kForgetRenew,            // leases aren't extended while work goes on
  kDoubleAdmit,            // a repeated commit admits the sequence twice
  kLoseResendCursor,       // the outbox never goes back to what the coordinator has
  kPublishBeforeComputed,  // a block is in the prefix index before its content is
  kLandingStaysOpen,       // a landing outlives the lease of its blocks
};
inline constexpr int kNumBugs = 8;

#ifdef TANDEM_PLANTED_BUGS
// Another inline namespace, so that the twin and the plain modules may meet in one program.
inline namespace with_planted_bugs {

// The planted bug of this process, -1 for none. The one mutable global of the project: a test
// variable that no shipped binary contains.
inline std::atomic<int>& planted_bug() {
  static std::atomic<int> bug{-1};
  return bug;
}
inline bool planted(Bug bug) { return planted_bug().load() == static_cast<int>(bug); }

}  // namespace with_planted_bugs
#else
constexpr bool planted(Bug) { return false; }
#endif

}  // namespace tandem
