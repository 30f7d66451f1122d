#pragma once
// What a batching policy sees and answers: plain values. plan() is a pure function of them.

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::scheduler {

// Positions [begin, end) of a sequence.
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
  auto operator<=>(const Range&) const = default;
};

enum class Kind {
  kDecode,   // needs one position, the first of `todo`
  kPrefill,  // needs every position of `todo`
};

struct Sequence {
  uint64_t key = 0;
  Kind kind = Kind::kPrefill;
  std::span<const Range> todo;  // ascending, disjoint, not empty; what lies between is computed
  bool solo = false;            // suspected of killing its instance: shares no plan with others
  bool started = false;         // has been in a plan
  uint32_t plans_waited = 0;    // plans made since it was last in one, or since it came
};

struct View {
  std::span<const Sequence> sequences;  // in order of arrival; those that may run now
};

// All > 0.
struct Config {
  uint32_t token_budget = 0;           // positions per plan, decodes first
  uint32_t prefill_chunk = 0;          // positions of one sequence per plan
  uint32_t max_sequences = 0;          // decode rows per plan
  uint32_t max_prefill_sequences = 0;  // prefill items per plan
};

// Compute positions [begin, end) of one sequence. At most one item per sequence and plan.
struct WorkItem {
  uint64_t key = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
  auto operator<=>(const WorkItem&) const = default;
};

// Decodes first, then prefill, each in the order the policy chose. Empty only when the view is.
struct Plan {
  std::vector<WorkItem> items;
  uint32_t num_tokens = 0;
};

}  // namespace tandem::scheduler
