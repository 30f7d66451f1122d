#pragma once
// Fail closed: a loader takes every tensor of a file exactly once. A tensor that nobody took, or
// that two places took, would be a silently wrong model. Owned by the loader, on one thread; the
// GgufFile must outlive it. Never copies data.

#include <span>
#include <string_view>
#include <vector>

#include "comm/runtime/result.h"
#include "model/format/gguf_file.h"

namespace tandem::format {

class TensorConsumption {
 public:
  explicit TensorConsumption(const GgufFile& file);

  // The tensor, now consumed. kNotFound when the file has none of that name, kInternal when it
  // was taken or left before.
  Result<const TensorInfo*> take(std::string_view name);

  // Consumed without reading: the tensor belongs to another rank. Same failures.
  Status leave(std::string_view name);

  // kUnsupported naming the tensors (the first few) that were neither taken nor left.
  Status finish() const;

 private:
  const GgufFile& file_;
  std::vector<bool> consumed_;  // [num_tensors], file order
};

}  // namespace tandem::format
