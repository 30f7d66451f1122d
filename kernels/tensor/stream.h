#pragma once
// An ordered queue of device work.

namespace tandem::tensor {

// Ops given the same stream run in the order of the calls. Owned by whoever made it through
// Backend::make_stream(); used by one thread at a time. On the CPU every op has finished when the
// call returns.
class Stream {
 public:
  virtual ~Stream() = default;
  // Returns when all work given so far has finished. Throws DeviceError if any of it failed.
  virtual void synchronize() = 0;
};

}  // namespace tandem::tensor
