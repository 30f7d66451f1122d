#include "comm/launch/mpi/mpi_session.h"

#include <mpi.h>

namespace tandem::launch {

MpiSession::MpiSession() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    throw StartupError("MPI was initialised before in this process; make one MpiSession in main");
  }
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    throw StartupError("MPI_Init failed; start this process by the mpirun of the same Open MPI");
  }
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    throw StartupError("this MPI library has no thread support (MPI_THREAD_FUNNELED); install one "
                       "that does");
  }
  world_.under_mpirun = current_rank().under_mpirun;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_.size);
}

MpiSession::~MpiSession() { MPI_Finalize(); }

}  // namespace tandem::launch
