// Purpose: attention of some rows of one sequence, for the query heads of one KV head, over paged
// K and V (f32 or bf16), with online softmax at fixed tiles and splits.
// Work per (query, tile of 64 positions): 4 * 64 * head_dim FLOPs; a KV tile is read and converted
// once for all queries of the task.
// Algorithm, per tile: 1. K to f32, transposed [dim][64], V to f32 [64][dim]; positions past the
// last row's context become zero. Per query: 2. scores in 8 vectors over positions, summed over dim
// in order; positions past the row's own context become -infinity; 3. raise the peak, rescale; 4.
// add the values in position order; 5. at a split's end merge the split into the total.
// Numerics: f32, exp_ps; every step's order depends on the row's position alone.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/fast/kernels.h"

namespace tandem::cpu::fast {
namespace {

#include "kernels/cpu/fast/avx2_exp.inc"

constexpr int kVectors = kAttentionTile / 8;

// A softmax over a part of the context, in scratch; kStateFloats floats.
struct State {
  float weighted[kMaxHeadDim];  // sum of exp(score - peak) * v
  float peak;
  float sum;
  float padding[6];
};
static_assert(sizeof(State) == kStateFloats * sizeof(float));

struct Scratch {
  float keys[kMaxHeadDim * kAttentionTile];    // [dim][position], head_dim rows used
  float values[kAttentionTile * kMaxHeadDim];  // [position][padded dim]
  State total[kMaxTaskQueries];
  State part[kMaxTaskQueries];
};
static_assert(sizeof(Scratch) == kAttentionFloats * sizeof(float));

inline int padded(int head_dim) { return (head_dim + 7) / 8 * 8; }

inline float infinity() { return __builtin_inff(); }

inline void reset(State& state, int dim) {
  for (int d = 0; d < dim; d += 8) _mm256_storeu_ps(state.weighted + d, _mm256_setzero_ps());
  state.peak = -infinity();
  state.sum = 0;
}

// e^x of one number; the same bits as exp_ps.
inline float exp_one(float x) { return _mm256_cvtss_f32(exp_ps(_mm256_set1_ps(x))); }

// Elements [d, d + 8) of a stored slot; those past head_dim are zero.
inline __m256 load_slot(const AttentionTask& task, const uint8_t* slot, int d) {
  const int left = task.head_dim - d;
  if (left >= 8) {
    if (!task.kv_is_bf16) return _mm256_loadu_ps(reinterpret_cast<const float*>(slot) + d);
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(slot + 2 * d));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  alignas(32) uint32_t bits[8] = {};
  for (int i = 0; i < left; ++i) {
    bits[i] = task.kv_is_bf16
                  ? static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(slot)[d + i]) << 16
                  : reinterpret_cast<const uint32_t*>(slot)[d + i];
  }
  return _mm256_castsi256_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(bits)));
}

inline void transpose(__m256 row[8]) {
  __m256 a[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  __m256 b[8];
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    row[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    row[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}

// Step 1. begin: first position of the tile; count: positions of it in the last row's context.
void load_tile(const AttentionTask& task, int64_t begin, int count, Scratch& scratch) {
  const int dim = padded(task.head_dim);
  const int slot_bytes = task.head_dim * (task.kv_is_bf16 ? 2 : 4);
  for (int p = 0; p < kAttentionTile; p += 8) {
    const int here = count - p < 8 ? count - p : 8;  // <= 0: all eight are past the context
    const int64_t position = begin + p;
    int64_t offset = 0;  // block sizes are multiples of 8: the eight lie in one block
    if (here > 0) {
      offset = task.blocks[position / task.block_size] * task.block_bytes +
               position % task.block_size * slot_bytes;
    }
    for (int d = 0; d < dim; d += 8) {
      __m256 key[8];
      for (int i = 0; i < 8; ++i) {
        key[i] = _mm256_setzero_ps();
        __m256 value = _mm256_setzero_ps();
        if (i < here) {
          key[i] = load_slot(task, task.keys + offset + i * slot_bytes, d);
          value = load_slot(task, task.values + offset + i * slot_bytes, d);
        }
        _mm256_storeu_ps(scratch.values + (p + i) * dim + d, value);
      }
      transpose(key);
      for (int i = 0; i < 8; ++i) {
        _mm256_storeu_ps(scratch.keys + (d + i) * kAttentionTile + p, key[i]);
      }
    }
  }
}

// part.weighted[d, d + 8 * NV) = factor * itself + sum over p < count of weight[p] * values[p][d].
template <int NV>
void add_values(const float* values, int dim, const float* weight, int count, float factor,
                float* weighted) {
  __m256 acc[NV];
  const __m256 rescale = _mm256_set1_ps(factor);
#pragma GCC unroll 8
  for (int v = 0; v < NV; ++v) {
    acc[v] = _mm256_mul_ps(_mm256_loadu_ps(weighted + 8 * v), rescale);
  }
  for (int p = 0; p < count; ++p) {
    const __m256 w = _mm256_broadcast_ss(weight + p);
    const float* value = values + p * dim;
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) {
      acc[v] = _mm256_fmadd_ps(w, _mm256_loadu_ps(value + 8 * v), acc[v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < NV; ++v) _mm256_storeu_ps(weighted + 8 * v, acc[v]);
}

// Step 2. score[64] of the tile, -infinity from `count` on. Returns the largest of them and peak.
float make_scores(const AttentionTask& task, const float* q, const float* keys, int count,
                  float peak, float* score) {
  __m256 acc[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) acc[v] = _mm256_setzero_ps();
  for (int d = 0; d < task.head_dim; ++d) {
    const __m256 value = _mm256_broadcast_ss(q + d);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      acc[v] = _mm256_fmadd_ps(value, _mm256_loadu_ps(keys + d * kAttentionTile + 8 * v), acc[v]);
    }
  }
  const __m256 scale = _mm256_set1_ps(task.scale);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 minus_infinity = _mm256_set1_ps(-infinity());
  __m256 top = _mm256_set1_ps(peak);
  for (int v = 0; v < kVectors; ++v) {
    const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8 * v), lane);
    const __m256 s = _mm256_blendv_ps(minus_infinity, _mm256_mul_ps(acc[v], scale),
                                      _mm256_castsi256_ps(inside));
    _mm256_storeu_ps(score + 8 * v, s);
    top = _mm256_max_ps(top, s);
  }
  __m128 best = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
  best = _mm_max_ps(best, _mm_movehl_ps(best, best));
  return _mm_cvtss_f32(_mm_max_ss(best, _mm_movehdup_ps(best)));
}

// Steps 2 to 4 for one query.
void add_tile(const AttentionTask& task, const float* q, const Scratch& scratch, int count,
              State& part) {
  alignas(32) float weight[kAttentionTile];
  const float peak = make_scores(task, q, scratch.keys, count, part.peak, weight);
  const __m256 shift = _mm256_set1_ps(peak);
  __m256 sum = _mm256_setzero_ps();
  for (int v = 0; v < kVectors; ++v) {
    const __m256 e = exp_ps(_mm256_sub_ps(_mm256_load_ps(weight + 8 * v), shift));
    _mm256_store_ps(weight + 8 * v, e);
    sum = _mm256_add_ps(sum, e);
  }
  const float factor = exp_one(part.peak - peak);
  part.sum = part.sum * factor + sum_lanes(sum);
  part.peak = peak;
  const int dim = padded(task.head_dim);
  int d = 0;
  for (; d + 64 <= dim; d += 64) {
    add_values<8>(scratch.values + d, dim, weight, count, factor, part.weighted + d);
  }
  for (; d + 32 <= dim; d += 32) {
    add_values<4>(scratch.values + d, dim, weight, count, factor, part.weighted + d);
  }
  for (; d < dim; d += 8) {
    add_values<1>(scratch.values + d, dim, weight, count, factor, part.weighted + d);
  }
}

// Step 5.
void merge(State& total, State& part, int dim) {
  const float peak = part.peak > total.peak ? part.peak : total.peak;
  const float old_factor = exp_one(total.peak - peak);
  const float new_factor = exp_one(part.peak - peak);
  const __m256 old_scale = _mm256_set1_ps(old_factor);
  const __m256 new_scale = _mm256_set1_ps(new_factor);
  for (int d = 0; d < dim; d += 8) {
    const __m256 added = _mm256_mul_ps(_mm256_loadu_ps(part.weighted + d), new_scale);
    const __m256 sum = _mm256_fmadd_ps(_mm256_loadu_ps(total.weighted + d), old_scale, added);
    _mm256_storeu_ps(total.weighted + d, sum);
  }
  total.sum = total.sum * old_factor + part.sum * new_factor;
  total.peak = peak;
  reset(part, dim);
}

}  // namespace

void attention(const AttentionTask& task) {
  Scratch& scratch = *reinterpret_cast<Scratch*>(task.scratch);
  const int dim = padded(task.head_dim);
  const int heads = task.num_heads;
  for (int i = 0; i < task.num_rows * heads; ++i) {
    reset(scratch.total[i], dim);
    reset(scratch.part[i], dim);
  }
  const int64_t context = task.first_position + task.num_rows;  // of the last row
  for (int64_t split = 0; split < context; split += kAttentionSplit) {
    for (int64_t tile = split; tile < context && tile < split + kAttentionSplit;
         tile += kAttentionTile) {
      const int64_t loaded = context - tile;
      load_tile(task, tile, loaded < kAttentionTile ? static_cast<int>(loaded) : kAttentionTile,
                scratch);
      for (int row = 0; row < task.num_rows; ++row) {
        const int64_t left = task.first_position + row + 1 - tile;
        if (left <= 0) continue;
        const int count = left < kAttentionTile ? static_cast<int>(left) : kAttentionTile;
        for (int h = 0; h < heads; ++h) {
          add_tile(task, task.q + row * task.q_stride + h * task.head_dim, scratch, count,
                   scratch.part[row * heads + h]);
        }
      }
    }
    for (int row = 0; row < task.num_rows; ++row) {
      if (task.first_position + row < split) continue;  // the row ended before this split
      for (int h = 0; h < heads; ++h) {
        merge(scratch.total[row * heads + h], scratch.part[row * heads + h], dim);
      }
    }
  }
  for (int row = 0; row < task.num_rows; ++row) {
    for (int h = 0; h < heads; ++h) {
      const State& total = scratch.total[row * heads + h];
      float* out = task.out + row * task.out_stride + h * task.head_dim;
      for (int d = 0; d < task.head_dim; ++d) out[d] = total.weighted[d] / total.sum;
    }
  }
}

}  // namespace tandem::cpu::fast
