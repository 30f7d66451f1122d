// Purpose: one panel of 32 output rows of out = x · wᵀ for all tokens.
// Inputs: weights as kernels.h lays them out, x f32. Work: 2 * 32 * K FLOPs per token; the panel's
// packed bytes are read once.
// Algorithm. Up to 4 tokens: dequantise in registers and accumulate at once, 4 vectors of rows for
// one token, 2 for more. Many: 1. dequantise half a panel (16 rows) to f32 scratch [K][16]; 2. per
// tile of <= 6 tokens and per leaf, accumulate 2 vectors per token over K; 3. add the leaves in the
// tree, write.
// Numerics: w is the exact dequantised value (rounded once in q4_1); every output element is one
// fused chain acc = fma(w, x, acc) from zero in K order per leaf, whichever path computes it.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/fast/kernels.h"

namespace tandem::cpu::fast {

using tensor::DType;

namespace {

inline __m256 half_to_float(const uint8_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

inline __m256i load_words(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// The formats: feed(base, k_begin, k_end, V0, NV) calls sink(k, v, w) for k ascending, with w the
// weights of rows 8 * (V0 + v) .. + 7 at step k. k_begin and k_end are multiples of the block.
struct F32Weights {
  template <int V0, int NV, class Sink>
  static inline void feed(const uint8_t* base, int64_t k_begin, int64_t k_end, Sink& sink) {
    for (int64_t k = k_begin; k < k_end; ++k) {
      const float* row = reinterpret_cast<const float*>(base) + k * kPanelRows;
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sink(k, v, _mm256_loadu_ps(row + 8 * (V0 + v)));
    }
  }
};

struct F16Weights {
  template <int V0, int NV, class Sink>
  static inline void feed(const uint8_t* base, int64_t k_begin, int64_t k_end, Sink& sink) {
    for (int64_t k = k_begin; k < k_end; ++k) {
      const uint8_t* row = base + k * 2 * kPanelRows;
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sink(k, v, half_to_float(row + 16 * (V0 + v)));
    }
  }
};

struct Bf16Weights {
  template <int V0, int NV, class Sink>
  static inline void feed(const uint8_t* base, int64_t k_begin, int64_t k_end, Sink& sink) {
    for (int64_t k = k_begin; k < k_end; ++k) {
      const uint8_t* row = base + k * 2 * kPanelRows;
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        const __m128i half =
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 16 * (V0 + v)));
        sink(k, v, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16)));
      }
    }
  }
};

struct Q80Weights {
  template <int V0, int NV, class Sink>
  static inline void feed(const uint8_t* base, int64_t k_begin, int64_t k_end, Sink& sink) {
    for (int64_t k = k_begin; k < k_end; k += kBlock) {
      const uint8_t* block = base + k / kBlock * kQ8BlockBytes;
      __m256 scale[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) scale[v] = half_to_float(block + 16 * (V0 + v));
      for (int word = 0; word < 8; ++word) {
        const uint8_t* words = block + kScaleBytes + word * 4 * kPanelRows;
        __m256i code[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) code[v] = load_words(words + 32 * (V0 + v));
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
          for (int v = 0; v < NV; ++v) {
            const __m256i q = _mm256_srai_epi32(_mm256_slli_epi32(code[v], 24 - 8 * j), 24);
            sink(k + 4 * word + j, v, _mm256_mul_ps(scale[v], _mm256_cvtepi32_ps(q)));
          }
        }
      }
    }
  }
};

struct Q40Weights {
  template <int V0, int NV, class Sink>
  static inline void feed(const uint8_t* base, int64_t k_begin, int64_t k_end, Sink& sink) {
    for (int64_t k = k_begin; k < k_end; k += kBlock) {
      const uint8_t* block = base + k / kBlock * kQ40BlockBytes;
      __m256 scale[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) scale[v] = half_to_float(block + 16 * (V0 + v));
      for (int word = 0; word < 4; ++word) {
        const uint8_t* words = block + kScaleBytes + word * 4 * kPanelRows;
        __m256i code[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) code[v] = load_words(words + 32 * (V0 + v));
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
#pragma GCC unroll 4
          for (int v = 0; v < NV; ++v) {
            const __m256i q = _mm256_srai_epi32(_mm256_slli_epi32(code[v], 28 - 4 * j), 28);
            sink(k + 8 * word + j, v, _mm256_mul_ps(scale[v], _mm256_cvtepi32_ps(q)));
          }
        }
      }
    }
  }
};

struct Q41Weights {
  template <int V0, int NV, class Sink>
  static inline void feed(const uint8_t* base, int64_t k_begin, int64_t k_end, Sink& sink) {
    const __m256i low = _mm256_set1_epi32(15);
    for (int64_t k = k_begin; k < k_end; k += kBlock) {
      const uint8_t* block = base + k / kBlock * kQ41BlockBytes;
      __m256 scale[NV];
      __m256 minimum[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        scale[v] = half_to_float(block + 16 * (V0 + v));
        minimum[v] = half_to_float(block + kScaleBytes + 16 * (V0 + v));
      }
      for (int word = 0; word < 4; ++word) {
        const uint8_t* words = block + 2 * kScaleBytes + word * 4 * kPanelRows;
        __m256i code[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) code[v] = load_words(words + 32 * (V0 + v));
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
#pragma GCC unroll 4
          for (int v = 0; v < NV; ++v) {
            const __m256i q = _mm256_and_si256(_mm256_srli_epi32(code[v], 4 * j), low);
            sink(k + 8 * word + j, v,
                 _mm256_fmadd_ps(scale[v], _mm256_cvtepi32_ps(q), minimum[v]));
          }
        }
      }
    }
  }
};

// Writes weights to scratch [K][16].
struct ScratchSink {
  float* scratch;
  inline void operator()(int64_t k, int v, __m256 w) {
    _mm256_storeu_ps(scratch + k * kHalfRows + 8 * v, w);
  }
};

// Accumulates T tokens over NV vectors of rows.
template <int T, int NV>
struct DotSink {
  const float* x[T];
  __m256 acc[T][NV];
  inline void operator()(int64_t k, int v, __m256 w) {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      acc[t][v] = _mm256_fmadd_ps(w, _mm256_broadcast_ss(x[t] + k), acc[t][v]);
    }
  }
};

// Adds the leaves at part (leaf_floats apart, n floats each) in the tree, in place.
inline void add_tree(const TreeSteps& tree, float* part, int64_t leaf_floats, int64_t n) {
  for (int s = 0; s < tree.num_steps; ++s) {
    float* left = part + tree.left[s] * leaf_floats;
    const float* right = part + tree.right[s] * leaf_floats;
    for (int64_t i = 0; i < n; i += 8) {
      _mm256_storeu_ps(left + i,
                       _mm256_add_ps(_mm256_loadu_ps(left + i), _mm256_loadu_ps(right + i)));
    }
  }
}

inline void copy(const float* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

// How many of `width` rows from panel row `first` on exist.
inline int64_t rows_left(const MatmulTask& task, int64_t first, int64_t width) {
  const int64_t left = task.rows - (task.panel * kPanelRows + first);
  return left < width ? left : width;
}

// T tokens over rows [8 * V0, 8 * (V0 + NV)) of the panel, weights dequantised in registers.
template <class Weights, int T, int V0, int NV>
void few_tokens(const MatmulTask& task, const uint8_t* base) {
  constexpr int64_t kRows = 8 * NV;
  const int64_t rows = rows_left(task, 8 * V0, kRows);
  if (rows <= 0) return;
  alignas(32) float part[8][T * kRows];
  for (int l = 0; l < task.num_leaves; ++l) {
    DotSink<T, NV> sink;
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      sink.x[t] = task.x + t * task.x_stride;
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sink.acc[t][v] = _mm256_setzero_ps();
    }
    Weights::template feed<V0, NV>(base, task.k_begin[l], task.k_begin[l + 1], sink);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        _mm256_store_ps(part[l] + t * kRows + 8 * v, sink.acc[t][v]);
      }
    }
  }
  int leaves_out = task.num_leaves;
  if (task.tree != nullptr) {
    add_tree(*task.tree, part[0], T * kRows, T * kRows);
    leaves_out = 1;
  }
  for (int l = 0; l < leaves_out; ++l) {
    float* out = task.out + l * task.leaf_stride + task.panel * kPanelRows + 8 * V0;
    for (int t = 0; t < T; ++t) copy(part[l] + t * kRows, rows, out + t * task.out_stride);
  }
}

template <class Weights, int T>
void few_tokens_by_halves(const MatmulTask& task, const uint8_t* base) {
  few_tokens<Weights, T, 0, 2>(task, base);
  few_tokens<Weights, T, 2, 2>(task, base);
}

// part[t][16] = sum over k in [k_begin, k_end) of w[k][16] * x[t][k].
template <int T>
void accumulate(const float* w, const float* x, int64_t x_stride, int64_t k_begin, int64_t k_end,
                float* part) {
  __m256 acc[T][2];
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
  const float* row[T];
  for (int t = 0; t < T; ++t) row[t] = x + t * x_stride;
  for (int64_t k = k_begin; k < k_end; ++k) {
    const __m256 w0 = _mm256_loadu_ps(w + k * kHalfRows);
    const __m256 w1 = _mm256_loadu_ps(w + k * kHalfRows + 8);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const __m256 value = _mm256_broadcast_ss(row[t] + k);
      acc[t][0] = _mm256_fmadd_ps(w0, value, acc[t][0]);
      acc[t][1] = _mm256_fmadd_ps(w1, value, acc[t][1]);
    }
  }
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t) {
    _mm256_storeu_ps(part + t * kHalfRows, acc[t][0]);
    _mm256_storeu_ps(part + t * kHalfRows + 8, acc[t][1]);
  }
}

using Accumulate = void (*)(const float*, const float*, int64_t, int64_t, int64_t, float*);
constexpr Accumulate kAccumulate[kTileTokens + 1] = {
    nullptr,       accumulate<1>, accumulate<2>, accumulate<3>,
    accumulate<4>, accumulate<5>, accumulate<6>};

// All tokens over the half panel whose weights lie in scratch; first: its first panel row.
void half_panel(const MatmulTask& task, int64_t first) {
  const float* w = task.scratch;
  float* part = task.scratch + task.cols * kHalfRows;  // [leaf][kTileTokens][16]
  constexpr int64_t kLeafFloats = kTileTokens * kHalfRows;
  const int64_t rows = rows_left(task, first, kHalfRows);
  const int64_t column = task.panel * kPanelRows + first;
  for (int64_t t = 0; t < task.num_tokens; t += kTileTokens) {
    const int64_t left = task.num_tokens - t;
    const int64_t tokens = left < kTileTokens ? left : kTileTokens;
    for (int l = 0; l < task.num_leaves; ++l) {
      kAccumulate[tokens](w, task.x + t * task.x_stride, task.x_stride, task.k_begin[l],
                          task.k_begin[l + 1], part + l * kLeafFloats);
    }
    int leaves_out = task.num_leaves;
    if (task.tree != nullptr) {
      add_tree(*task.tree, part, kLeafFloats, tokens * kHalfRows);
      leaves_out = 1;
    }
    for (int l = 0; l < leaves_out; ++l) {
      float* out = task.out + l * task.leaf_stride + t * task.out_stride + column;
      for (int64_t i = 0; i < tokens; ++i) {
        copy(part + l * kLeafFloats + i * kHalfRows, rows, out + i * task.out_stride);
      }
    }
  }
}

template <class Weights>
void run_panel(const MatmulTask& task, const uint8_t* base) {
  switch (task.num_tokens) {
    case 1: return few_tokens<Weights, 1, 0, 4>(task, base);
    case 2: return few_tokens_by_halves<Weights, 2>(task, base);
    case 3: return few_tokens_by_halves<Weights, 3>(task, base);
    case 4: return few_tokens_by_halves<Weights, 4>(task, base);
    default: break;
  }
  ScratchSink sink{task.scratch};
  Weights::template feed<0, 2>(base, 0, task.cols, sink);
  half_panel(task, 0);
  if (rows_left(task, kHalfRows, kHalfRows) <= 0) return;
  Weights::template feed<2, 2>(base, 0, task.cols, sink);
  half_panel(task, kHalfRows);
}

}  // namespace

void matmul_panel(const MatmulTask& task) {
  const uint8_t* base = task.packed + task.panel * panel_bytes(task.dtype, task.cols);
  switch (task.dtype) {
    case DType::kF32: return run_panel<F32Weights>(task, base);
    case DType::kF16: return run_panel<F16Weights>(task, base);
    case DType::kBF16: return run_panel<Bf16Weights>(task, base);
    case DType::kQ8_0: return run_panel<Q80Weights>(task, base);
    case DType::kQ4_0: return run_panel<Q40Weights>(task, base);
    case DType::kQ4_1: return run_panel<Q41Weights>(task, base);
  }
}

}  // namespace tandem::cpu::fast
