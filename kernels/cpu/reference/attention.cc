// Purpose: attention of single query vectors over paged K and V, with online softmax
// (Milakov & Gimelshein 2018) in tiles and splits at absolute positions.
// Algorithm, per (row, head): 1. scores of a tile; 2. raise the running maximum, rescale; 3. add
// the tile's exponentials and weighted values; 4. at the end of a split, merge it into the total.
// Reads only positions of the row's own context.
#include <algorithm>
#include <limits>

#include "kernels/cpu/reference/kernels.h"
#include "kernels/tensor/quant.h"

namespace tandem::cpu::reference {
namespace {

// Softmax over a part of the context: exponentials are relative to `peak`.
struct Softmax {
  float peak = -std::numeric_limits<float>::infinity();
  float sum = 0;
  float weighted[kMaxHeadDim] = {};  // sum of exp(score - peak) * v

  void rescale_to(float new_peak, int64_t n) {
    const float factor = exp_f32(peak - new_peak);
    sum *= factor;
    for (int64_t d = 0; d < n; ++d) weighted[d] *= factor;
    peak = new_peak;
  }
};

// The stored vector of one position as f32 [head_dim].
void load_slot(const AttentionTask& task, const uint8_t* tiles, int64_t position, float* out) {
  const auto dtype = task.kv_is_bf16 ? tensor::DType::kBF16 : tensor::DType::kF32;
  const int64_t block = task.blocks[position / task.block_size];
  const int64_t slot = position % task.block_size;
  tensor::dequantize(
      dtype, tiles + block * task.block_bytes + slot * tensor::dtype_bytes(dtype, task.head_dim),
      task.head_dim, out);
}

void add_tile(const AttentionTask& task, const float* q, int64_t begin, int64_t end,
              Softmax& part) {
  float slot[kMaxHeadDim];
  float score[kAttentionTile];
  float peak = part.peak;
  for (int64_t p = begin; p < end; ++p) {
    load_slot(task, task.keys, p, slot);
    score[p - begin] = dot(q, slot, task.head_dim) * task.scale;
    peak = std::max(peak, score[p - begin]);
  }
  part.rescale_to(peak, task.head_dim);
  for (int64_t p = begin; p < end; ++p) {
    load_slot(task, task.values, p, slot);
    const float weight = exp_f32(score[p - begin] - peak);
    part.sum += weight;
    for (int64_t d = 0; d < task.head_dim; ++d) part.weighted[d] += weight * slot[d];
  }
}

void merge(Softmax& total, Softmax& part, int64_t n) {
  const float peak = std::max(total.peak, part.peak);
  total.rescale_to(peak, n);
  part.rescale_to(peak, n);
  total.sum += part.sum;
  for (int64_t d = 0; d < n; ++d) total.weighted[d] += part.weighted[d];
}

}  // namespace

int64_t attention_scratch_floats() { return 0; }

void attention(const AttentionTask& task) {
  for (int64_t row = 0; row < task.num_rows; ++row) {
    const int64_t context = task.first_position + row + 1;
    for (int64_t head = 0; head < task.num_heads; ++head) {
      const float* q = task.q + row * task.q_stride + head * task.head_dim;
      float* out = task.out + row * task.out_stride + head * task.head_dim;
      Softmax total;
      for (int64_t split = 0; split < context; split += kAttentionSplit) {
        const int64_t split_end = std::min<int64_t>(context, split + kAttentionSplit);
        Softmax part;
        for (int64_t tile = split; tile < split_end; tile += kAttentionTile) {
          add_tile(task, q, tile, std::min<int64_t>(split_end, tile + kAttentionTile), part);
        }
        merge(total, part, task.head_dim);
      }
      for (int64_t d = 0; d < task.head_dim; ++d) out[d] = total.weighted[d] / total.sum;
    }
  }
}

}  // namespace tandem::cpu::reference
