#include "worker/weights/shard_plan.h"

#include <algorithm>
#include <string>

#include "comm/runtime/check.h"
#include "kernels/ops/layouts.h"
#include "kernels/tensor/quant.h"

namespace tandem::weights {
namespace {

constexpr int64_t kVocabTile = 4096;  // the sampler's tile: a rank's summary covers whole tiles

// Bounds of the most leaves (at most ops::kMaxLeaves) that `units` units of `unit_width` columns
// fall into, such that every bound is a multiple of a quantisation block. One leaf always fits.
std::vector<int64_t> leaf_bounds(int64_t units, int64_t unit_width) {
  for (int64_t leaves = std::min<int64_t>(units, ops::kMaxLeaves); leaves > 1; --leaves) {
    std::vector<int64_t> bounds{0};
    bool aligned = true;
    for (int64_t i = 0; i < leaves; ++i) {
      bounds.push_back(partition(units, leaves, i).end * unit_width);
      aligned &= i == leaves - 1 || bounds.back() % tensor::kQuantBlock == 0;
    }
    if (aligned) return bounds;
  }
  return {0, units * unit_width};
}

TreeSplit make_tree(int64_t units, int64_t unit_width, int32_t tp) {
  TreeSplit tree;
  tree.k_begin = leaf_bounds(units, unit_width);
  for (int32_t rank = 0; rank < tp; ++rank) {
    const Range run = partition(tree.num_leaves(), tp, rank);
    tree.owned.push_back({static_cast<int32_t>(run.begin), static_cast<int32_t>(run.end)});
  }
  return tree;
}

Range scaled(const Range& range, int64_t by) { return {range.begin * by, range.end * by}; }

Error too_many(const char* what, const char* field, int64_t have, int64_t want) {
  return {ErrorCode::kUnsupported,
          std::string(field) + " " + std::to_string(want) + " is more than the model's " +
              std::to_string(have) + " " + what,
          field};
}

Range vocab_range(int64_t vocab_size, const RankPosition& position) {
  const int64_t tiles = (vocab_size + kVocabTile - 1) / kVocabTile;
  const Range run = scaled(partition(tiles, position.tp, position.tp_rank), kVocabTile);
  return {std::min(run.begin, vocab_size), std::min(run.end, vocab_size)};
}

}  // namespace

Range partition(int64_t count, int64_t parts, int64_t index) {
  CHECK(count >= 0 && parts >= 1 && 0 <= index && index < parts);
  const int64_t small = count / parts;
  const int64_t num_large = count % parts;
  const int64_t begin = index * small + std::min(index, num_large);
  return {begin, begin + small + (index < num_large ? 1 : 0)};
}

Range TreeSplit::columns(int32_t tp_rank) const {
  const collective::LeafRange leaves = owned[static_cast<size_t>(tp_rank)];
  return {k_begin[static_cast<size_t>(leaves.begin)], k_begin[static_cast<size_t>(leaves.end)]};
}

Result<ShardPlan> make_shard_plan(const spec::ModelSpec& spec, const RankPosition& position) {
  CHECK(position.tp >= 1 && 0 <= position.tp_rank && position.tp_rank < position.tp);
  CHECK(position.pp >= 1 && 0 <= position.stage && position.stage < position.pp);
  const int64_t group_width = spec.heads_per_kv_head() * spec.head_dim;
  const bool whole_blocks = spec.ffn % tensor::kQuantBlock == 0;
  const int64_t slab = whole_blocks ? tensor::kQuantBlock : spec.ffn;

  ShardPlan plan;
  plan.position = position;
  plan.attention = make_tree(spec.num_kv_heads, group_width, position.tp);
  plan.ffn_tree = make_tree(spec.ffn / slab, slab, position.tp);
  if (position.tp > plan.attention.num_leaves()) {
    return too_many("leaves of KV-head groups", "tp", plan.attention.num_leaves(), position.tp);
  }
  if (position.tp > plan.ffn_tree.num_leaves()) {
    return too_many("feed-forward slabs", "tp", plan.ffn_tree.num_leaves(), position.tp);
  }
  if (position.pp > spec.num_layers) {
    return too_many("layers", "pp", spec.num_layers, position.pp);
  }
  plan.layers = partition(spec.num_layers, position.pp, position.stage);
  const Range attention = plan.attention.columns(position.tp_rank);
  plan.kv_heads = {attention.begin / group_width, attention.end / group_width};
  plan.q_heads = scaled(plan.kv_heads, spec.heads_per_kv_head());
  plan.ffn = plan.ffn_tree.columns(position.tp_rank);
  plan.vocab = vocab_range(spec.vocab, position);
  for (int32_t rank = 0; rank < position.tp; ++rank) plan.rank_leaves.push_back({rank, rank + 1});
  return plan;
}

}  // namespace tandem::weights
