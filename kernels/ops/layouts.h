#pragma once
// Typed layouts that ops take instead of loose numbers. They own the pointer arithmetic. Plain
// values, made once on the host.

#include <cstdint>

#include "kernels/tensor/dtype.h"

namespace tandem::ops {

// A part of a stored matrix [rows, cols]; a rank's share under tensor parallelism.
// Requires of users: 0 <= begin <= end; column bounds aligned to the dtype's block.
struct MatrixSlice {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t col_begin = 0;
  int64_t col_end = 0;

  int64_t rows() const { return row_end - row_begin; }
  int64_t cols() const { return col_end - col_begin; }
};

inline constexpr int kMaxLeaves = 8;

// Where a row-parallel product splits its K dimension: leaf i covers [k_begin[i], k_begin[i + 1])
// of the packed matrix's columns. Each leaf is summed alone, in K order; leaves are added in the
// canonical tree. Requires of users: strictly increasing, k_begin[0] = 0, k_begin[num_leaves] = K,
// bounds aligned to the weight dtype's block.
struct LeafLayout {
  int32_t num_leaves = 1;
  int64_t k_begin[kMaxLeaves + 1] = {};

  static LeafLayout single(int64_t k) { return {1, {0, k}}; }
};

// Where the canonical binary tree over n >= 2 leaves splits: the largest power of two below n.
// The left part is leaves [0, split), the right part [split, n); both are canonical trees again.
int tree_split(int num_leaves);

// Rotary tables, made on the host (in double, rounded to f32), device-visible.
// Pair i of a head is its elements (2i, 2i + 1), i < rotary_dim / 2; the rest is left alone.
struct RopeTable {
  const float* cos = nullptr;  // [num_positions, rotary_dim / 2]
  const float* sin = nullptr;  // [num_positions, rotary_dim / 2]
  int64_t num_positions = 0;
  int64_t rotary_dim = 0;  // even, <= head_dim
};

// The shape of a rank's paged KV memory. A pool is an array of blocks; one block is
// [layer][K|V][kv_head][tile], a tile is [block_size][head_dim] elements, row-major: the tile
// format kRowMajorTile. All layers of a block are one run of bytes, one layer is one sub-run, a
// range of heads of one layer's K or V is one sub-run. KV transfer relies on this.
struct PagedKvLayout {
  static constexpr const char* kRowMajorTile = "row-major-v1";
  static constexpr int kKey = 0;
  static constexpr int kValue = 1;

  int64_t num_layers = 0;    // of this rank (its pipeline stage)
  int64_t num_kv_heads = 0;  // of this rank
  int64_t head_dim = 0;
  int64_t block_size = 0;                     // tokens per block: 16, 32 or 64
  tensor::DType dtype = tensor::DType::kF32;  // kF32 or kBF16

  int64_t element_bytes() const { return dtype == tensor::DType::kF32 ? 4 : 2; }
  int64_t tile_bytes() const { return block_size * head_dim * element_bytes(); }
  int64_t heads_bytes() const { return num_kv_heads * tile_bytes(); }  // one layer's K or V
  int64_t layer_bytes() const { return 2 * heads_bytes(); }
  int64_t block_bytes() const { return num_layers * layer_bytes(); }

  // Byte offset in the pool of the tile of (block, layer, K or V, head).
  int64_t tile_offset(int64_t block, int64_t layer, int key_or_value, int64_t head) const {
    return block * block_bytes() + layer * layer_bytes() + key_or_value * heads_bytes() +
           head * tile_bytes();
  }

  friend bool operator==(const PagedKvLayout&, const PagedKvLayout&) = default;
};

// One layer of a KV pool, as ops see it. Does not own.
struct KvLayerView {
  PagedKvLayout layout;
  void* pool = nullptr;  // device memory, num_blocks * layout.block_bytes()
  int64_t num_blocks = 0;
  int64_t layer = 0;  // index within the rank's layers

  void* tile(int64_t block, int key_or_value, int64_t head) const {
    return static_cast<char*>(pool) + layout.tile_offset(block, layer, key_or_value, head);
  }
};

}  // namespace tandem::ops
