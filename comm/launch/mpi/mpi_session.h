#pragma once
// MPI for the life of a process. Only processes of a job with several ranks make one: a one-rank
// worker makes no MPI call at all.

#include "comm/launch/rank.h"

namespace tandem::launch {

// Owned by main, by the thread that makes all MPI calls (FUNNELED). At most one per process, ever.
// Every process of the job must make one, or the others wait inside the constructor for ever.
class MpiSession {
 public:
  // Throws StartupError when MPI can't be initialised, is already, or lacks thread support.
  MpiSession();
  ~MpiSession();   // MPI_Finalize: waits for the other ranks
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // Of MPI_COMM_WORLD.
  const Rank& world() const { return world_; }

 private:
  Rank world_;
};

}  // namespace tandem::launch
