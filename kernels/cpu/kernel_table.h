#pragma once
// The seam inside the CPU backend: the leaf computations, as one table of functions per instruction
// set. The driver (CpuBackend) checks shapes, splits work over threads and calls these.
//
// Files compiled with instruction-set flags include this header, so it holds no inline code: an
// inline function compiled there could be the copy the linker keeps for everybody.

#include <cstdint>

#include "kernels/tensor/dtype.h"

namespace tandem::cpu {

// Attention walks the context in tiles of kAttentionTile positions; every kAttentionSplit positions
// the running softmax is closed and merged into the total. Both at absolute positions, for prefill
// and decode alike: other widths rescale at other places and give other bits.
inline constexpr int kAttentionTile = 64;
inline constexpr int kAttentionSplit = 512;

inline constexpr int kMaxHeadDim = 256;
inline constexpr int kMaxGroup = 128;       // query heads per KV head
inline constexpr int kMaxTaskQueries = 128;  // (row, head) pairs of one attention task

// The canonical tree as a list of steps: leaf[left[i]] += leaf[right[i]], in order; the sum ends in
// leaf 0.
struct TreeSteps {
  int32_t num_steps;
  uint8_t left[7];
  uint8_t right[7];
};

struct PackTask {
  tensor::DType dtype;
  const uint8_t* raw;     // first element of the slice, GGUF layout
  int64_t raw_row_bytes;  // between rows of the stored matrix
  int64_t rows;
  int64_t cols;
  uint8_t* packed;
};

// One panel of output rows for all tokens.
struct MatmulTask {
  tensor::DType dtype;
  const uint8_t* packed;
  int64_t rows;  // N
  int64_t cols;  // K
  int64_t panel;
  const float* x;  // [num_tokens, K]
  int64_t x_stride;
  int64_t num_tokens;
  int32_t num_leaves;
  const int64_t* k_begin;  // [num_leaves + 1]
  const TreeSteps* tree;   // null: every leaf is written by itself
  float* out;              // element (t, n) of leaf l at l * leaf_stride + t * out_stride + n
  int64_t out_stride;
  int64_t leaf_stride;
  float* scratch;  // matmul_scratch_floats(K) floats, 64-byte aligned
};

// Some rows of one sequence, for the query heads of one KV head.
struct AttentionTask {
  const float* q;  // first row, first head of the group
  int64_t q_stride;
  float* out;
  int64_t out_stride;
  int32_t num_rows;
  int32_t num_heads;  // of the group
  int32_t head_dim;
  int32_t block_size;
  int64_t first_position;  // of the first row; the others follow
  bool kv_is_bf16;         // else f32
  const uint32_t* blocks;  // the sequence's block table
  const uint8_t* keys;     // tile of block b at keys + b * block_bytes
  const uint8_t* values;
  int64_t block_bytes;
  float scale;
  float* scratch;  // attention_scratch_floats() floats, 64-byte aligned
};

struct KernelTable {
  const char* name;       // the `ops` knob
  int64_t panel_rows;     // output rows per matmul panel
  int64_t (*packed_bytes)(tensor::DType dtype, int64_t rows, int64_t cols);
  void (*pack_panel)(const PackTask& task, int64_t panel);
  // out: f32 [cols], the values of one row of a packed matrix.
  void (*unpack_row)(const PackTask& task, int64_t row, float* out);
  int64_t (*matmul_scratch_floats)(int64_t cols);
  void (*matmul_panel)(const MatmulTask& task);
  // One row of each; out may be an input.
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* out);
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  int64_t (*attention_scratch_floats)();
  void (*attention)(const AttentionTask& task);
};

}  // namespace tandem::cpu
