#pragma once
// Who this process is inside its MPI job, known without calling MPI.

#include "comm/runtime/result.h"

namespace tandem::launch {

struct Rank {
  int rank = 0;
  int size = 1;
  bool under_mpirun = false;
};

// Reads what mpirun puts into the environment; {0, 1, false} without mpirun.
// Throws StartupError when the variables contradict each other.
Rank current_rank();

// Throws StartupError unless the job has as many processes as the instance has ranks, naming both
// numbers; and, for now, unless tp × pp is 1.
void check_instance_size(const Rank& rank, int tp, int pp);

}  // namespace tandem::launch
