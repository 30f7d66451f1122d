#include "comm/launch/rank.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::launch {
namespace {

// The value of an environment variable mpirun sets, or nothing when it isn't set.
std::optional<int> read_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int value = -1;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < 0) {
    throw StartupError(std::string(name) + "='" + text +
                       "' is not a number; start this process by mpirun, or unset the variable");
  }
  return value;
}

}  // namespace

Rank current_rank() {
  const auto rank = read_number("OMPI_COMM_WORLD_RANK");
  const auto size = read_number("OMPI_COMM_WORLD_SIZE");
  if (!rank && !size) return {};
  if (!rank || !size || *rank >= *size) {
    throw StartupError("OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE contradict each other; start "
                       "this process by mpirun, or unset both");
  }
  return {.rank = *rank, .size = *size, .under_mpirun = true};
}

void check_instance_size(const Rank& rank, int tp, int pp) {
  CHECK_GE(tp, 1);
  CHECK_GE(pp, 1);
  const std::string shape = "tp " + std::to_string(tp) + " x pp " + std::to_string(pp);
  if (tp * pp != 1) {
    throw StartupError("tp x pp must be 1 for now (the configuration says " + shape +
                       "); set tp: 1 and pp: 1 for this pool");
  }
  if (rank.size != tp * pp) {
    throw StartupError("this instance has " + shape + " = " + std::to_string(tp * pp) +
                       " rank(s), but mpirun started " + std::to_string(rank.size) +
                       "; use mpirun -n " + std::to_string(tp * pp));
  }
}

}  // namespace tandem::launch
