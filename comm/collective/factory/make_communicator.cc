#include "comm/collective/factory/make_communicator.h"

#include <string>

#include "comm/collective/self/self_communicator.h"
#include "comm/runtime/check.h"

namespace tandem::collective {

Result<std::unique_ptr<Communicator>> make_communicator(int32_t num_ranks, ops::Backend& backend) {
  CHECK_GE(num_ranks, 1);
  if (num_ranks > 1) {
    return Error{ErrorCode::kUnsupported,
                 "instances of " + std::to_string(num_ranks) +
                     " ranks are not supported yet; set tp: 1 and pp: 1",
                 "tp"};
  }
  return std::unique_ptr<Communicator>(std::make_unique<SelfCommunicator>(backend));
}

}  // namespace tandem::collective
