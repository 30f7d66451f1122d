#include "comm/launch/mpi/mpi_session.h"

#include <gtest/gtest.h>

namespace tandem::launch {
namespace {

// MPI can be initialised once per process, so all of it is one test.
TEST(MpiSession, IsAloneWithoutMpirunAndRefusesASecondOne) {
  MpiSession session;
  EXPECT_EQ(session.world().rank, 0);
  EXPECT_EQ(session.world().size, 1);
  EXPECT_FALSE(session.world().under_mpirun);
  EXPECT_THROW(MpiSession(), StartupError);
}

}  // namespace
}  // namespace tandem::launch
