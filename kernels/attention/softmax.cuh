// The online softmax of a warpgroup's 64 rows (Milakov and Gimelshein, 2018). A thread holds parts of two rows.
#pragma once
#include <math_constants.h>

#include "tiles.cuh"

namespace tiles {

// Lazy rescaling, as in FlashAttention-4: a row's base is raised only when an exponential would exceed 2^kHeadroom.
// Most blocks then leave the earlier sums as they are.
constexpr float kHeadroom = 8;
// While the base is at least -kDeepest, no score up to 0 takes an exponential over 2^kDeepest, the range of fp16.
constexpr float kDeepest = 14;
constexpr int kAlways = -2147483647 - 1;

__device__ __forceinline__ float max_or_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// The softmax of one row: its exponentials are 2^(score · scale - base). A block with a score whose bits, as an
// integer, are at least `limit` raises the base. Positive floats are ordered as their bits are, and negative floats
// have negative bits, so one integer instruction compares three scores.
struct RowSoftmax {
  int limit = kAlways;
  float base = -CUDART_MAX_NORMAL_F, sum = 0;  // sum: of this thread's exponentials

  // Raises the base to the largest score. Returns the factor for the sums so far.
  __device__ __forceinline__ float rescale(float top, float scale) {
    top = max_or_nan(top, __shfl_xor_sync(~0u, top, 1));
    top = max_or_nan(top, __shfl_xor_sync(~0u, top, 2));
    const float before = base;
    base = max_or_nan(base, top * scale);
    limit = base >= -kDeepest ? __float_as_int(fmaxf(0.f, __fdividef(base + kHeadroom, scale))) : kAlways;
    const float scores_scale = ex2_ftz(before - base);
    sum *= scores_scale;
    return scores_scale;
  }

  // One over the row's sum, over its four threads. 0 for a row that sees no key.
  __device__ __forceinline__ float inverse() const {
    const float all = row_sum(sum);
    return all == 0 ? 0 : __fdividef(1, all);
  }
};

// Scores become exponentials, which are added to the rows' sums. When a base is raised, rescale(scores_scale) must
// multiply row r of the weighted sums so far by scores_scale[r].
template <int N, typename Rescale>
__device__ __forceinline__ void exponentials(Accumulator<N>& s, RowSoftmax (&rows)[2], float scale,
                                             const Rescale& rescale) {
  int bits[4] = {kAlways, kAlways, kAlways, kAlways};
#pragma unroll
  for (int i = 0; i < N / 2; i += 2) {
    int& top = bits[i / 2 % 4];
    top = __vimax3_s32(top, __float_as_int(s.at[i]), __float_as_int(s.at[i + 1]));
  }
  const bool over = max(bits[0], bits[2]) >= rows[0].limit || max(bits[1], bits[3]) >= rows[1].limit;
  if (__any_sync(~0u, over)) {
    float top[2] = {-CUDART_INF_F, -CUDART_INF_F}, scores_scale[2];
#pragma unroll
    for (int i = 0; i < N / 2; i++) top[i / 2 % 2] = max_or_nan(top[i / 2 % 2], s.at[i]);
#pragma unroll
    for (int r = 0; r < 2; r++) scores_scale[r] = rows[r].rescale(top[r], scale);
    rescale(scores_scale);
  }
#pragma unroll
  for (int i = 0; i < N / 2; i++) {
    RowSoftmax& row = rows[i / 2 % 2];
    s.at[i] = ex2_ftz(fmaf(s.at[i], scale, -row.base));
    row.sum += s.at[i];
  }
}

template <int N>
__device__ __forceinline__ void scale_rows(Accumulator<N>& o, const float (&by)[2]) {
#pragma unroll
  for (int i = 0; i < N / 2; i++) o.at[i] *= by[i / 2 % 2];
}

}  // namespace tiles
