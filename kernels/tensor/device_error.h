#pragma once
// A device failed: out of memory, lost context, failed launch. The rank that catches it stops; the
// device context must not be used again.

#include <stdexcept>

namespace tandem::tensor {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What was asked for can't be had on this machine (an instruction set, a backend): found at start,
// the message says what and how to fix it.
class UnsupportedError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace tandem::tensor
