#include "model/format/tensor_consumption.h"

#include <string>

namespace tandem::format {
namespace {

constexpr size_t kMaxNamed = 5;

}  // namespace

TensorConsumption::TensorConsumption(const GgufFile& file)
    : file_(file), consumed_(file.tensors().size(), false) {}

Result<const TensorInfo*> TensorConsumption::take(std::string_view name) {
  const TensorInfo* tensor = file_.find_tensor(name);
  if (tensor == nullptr) {
    return Error{ErrorCode::kNotFound, file_.path() + ": tensor " + quoted(name) + " is missing",
                 std::string(name)};
  }
  const size_t index = static_cast<size_t>(tensor - file_.tensors().data());
  if (consumed_[index]) {
    return Error{ErrorCode::kInternal, "tensor " + quoted(name) + " is consumed twice",
                 std::string(name)};
  }
  consumed_[index] = true;
  return tensor;
}

Status TensorConsumption::leave(std::string_view name) {
  const Result<const TensorInfo*> taken = take(name);
  return taken.ok() ? Status() : Status(taken.error());
}

Status TensorConsumption::finish() const {
  std::string names;
  std::string first;
  size_t num_left = 0;
  for (size_t i = 0; i < consumed_.size(); ++i) {
    if (consumed_[i]) continue;
    ++num_left;
    const std::string_view name = file_.tensors()[i].name;
    if (first.empty()) first = name;
    if (num_left <= kMaxNamed) names += (names.empty() ? "" : ", ") + quoted(name);
  }
  if (num_left == 0) return {};
  if (num_left > kMaxNamed) names += ", ...";
  return Error{ErrorCode::kUnsupported,
               file_.path() + ": " + std::to_string(num_left) +
                   " tensors are not used by this model: " + names, first};
}

}  // namespace tandem::format
