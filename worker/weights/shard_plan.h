#pragma once
// Which part of a model each rank holds. Pure functions: every rank, the KV planner and the tests
// compute the same answer from (spec, rank position). Never looks at data.
//
// Tensor parallelism cuts attention by groups of KV heads and the feed-forward part by slabs of
// whole quantisation blocks; pipeline parallelism cuts layers; the vocabulary is cut by tiles.
// Sizes differ by at most one unit, the first ranks take the larger ones.

#include <cstdint>
#include <vector>

#include "comm/collective/canonical_tree.h"
#include "comm/runtime/result.h"
#include "model/spec/model_spec.h"

namespace tandem::weights {

// [begin, end)
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Part `index` of [0, count) cut into `parts`: sizes differ by at most one, larger ones first.
// Requires: parts >= 1, 0 <= index < parts.
Range partition(int64_t count, int64_t parts, int64_t index);

struct RankPosition {
  int32_t tp_rank = 0;
  int32_t tp = 1;
  int32_t stage = 0;
  int32_t pp = 1;
};

// How the K dimension of a row-parallel product falls into leaves, and leaves onto ranks.
struct TreeSplit {
  std::vector<int64_t> k_begin;               // [num_leaves + 1], in the whole K dimension
  std::vector<collective::LeafRange> owned;   // of each tensor-parallel rank, [tp]
  int32_t num_leaves() const { return static_cast<int32_t>(k_begin.size()) - 1; }
  // The columns of K that a tensor-parallel rank holds.
  Range columns(int32_t tp_rank) const;
};

struct ShardPlan {
  RankPosition position;
  Range layers;     // of this stage
  Range kv_heads;
  Range q_heads;
  Range ffn;        // of the feed-forward width
  Range vocab;      // ids
  TreeSplit attention;  // of o_proj: leaves are KV-head groups
  TreeSplit ffn_tree;   // of down_proj: leaves are slabs of whole quantisation blocks
  // Sums with one leaf per tensor-parallel rank (vocabulary-parallel embedding).
  std::vector<collective::LeafRange> rank_leaves;

  bool first_stage() const { return position.stage == 0; }
  bool last_stage() const { return position.stage == position.pp - 1; }
};

// kUnsupported, naming the numbers, when the widths do not allow the degrees.
Result<ShardPlan> make_shard_plan(const spec::ModelSpec& spec, const RankPosition& position);

}  // namespace tandem::weights
