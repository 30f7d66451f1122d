#include "comm/runtime/rng.h"

#include <random>

namespace tandem {

uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) ^ device();
}

}  // namespace tandem
