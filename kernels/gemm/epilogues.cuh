// Epilogues on a warpgroup's accumulator of 64 rows, a function each.
#pragma once
#include "tiles.cuh"

namespace epilogue {
using namespace tiles;

enum Kind { kNone, kBias, kResidual, kSwiglu, kQuantise };

// One value for each of the two rows that a thread holds.
struct Rows {
  float first, second;
};

template <int N>
__device__ __forceinline__ void scale_rows(Accumulator<N>& d, Rows by) {
#pragma unroll
  for (int i = 0; i < N / 2; i++) d.at[i] *= i / 2 % 2 ? by.second : by.first;
}
__device__ __forceinline__ Rows one_scale(const float* x, const float* w) {
  const float both = __ldg(x) * __ldg(w);
  return {both, both};
}
__device__ __forceinline__ Rows scales_of(const float* scales, int row, int rows) {
  row += own_row();
  return {row < rows ? __ldg(scales + row) : 0.f, row + 8 < rows ? __ldg(scales + row + 8) : 0.f};
}

// Loads N values of a tile's columns, from `column` on, into shared memory; zeros from column `end` (even) on.
template <typename V, int N>
__device__ __forceinline__ void fetch_columns(V (&to)[N], const V* from, int column, int end) {
  constexpr int kWord = 4 / sizeof(V);
#pragma unroll
  for (int first = 0; first < N; first += kWord * kWarpgroup) {
    const int c = first + threadIdx.x % kWarpgroup * kWord;
    if (c < N) cp_async_4(to + c, from + (column + c < end ? column + c : 0), column + c < end);
  }
}

// The 64 columns of `part`: d[:, c] *= scales[c].
template <int N>
__device__ __forceinline__ void scale_columns(Accumulator<N>& d, int part, const float* scales) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const float2 s = *(const float2*)(scales + 64 * part + 8 * i + own_column());
    d.at[32 * part + 4 * i] *= s.x;
    d.at[32 * part + 4 * i + 1] *= s.y;
    d.at[32 * part + 4 * i + 2] *= s.x;
    d.at[32 * part + 4 * i + 3] *= s.y;
  }
}

// The 64 columns of `part`: d[:, c] += bias[c].
template <typename T, int N>
__device__ __forceinline__ void add_bias(Accumulator<N>& d, int part, const T* bias) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const float2 b = unpack<T>(*(const u32*)(bias + 64 * part + 8 * i + own_column()));
    d.at[32 * part + 4 * i] += b.x;
    d.at[32 * part + 4 * i + 1] += b.y;
    d.at[32 * part + 4 * i + 2] += b.x;
    d.at[32 * part + 4 * i + 3] += b.y;
  }
}

__device__ __forceinline__ float sigmoid(float x) {
  float share;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(1.f + ex2_ftz(x * -1.4426950408889634f)));
  return share;
}

// Computes the 64 columns of `part` as silu(gate) · up. They take 128 columns of the accumulator: in every 16, the
// first 8 are gates and the last 8 the matching ups. It works in place, so parts must be processed in order.
template <int N>
__device__ __forceinline__ void swiglu(Accumulator<N>& d, int part) {
#pragma unroll
  for (int i = 8 * part; i < 8 * part + 8; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float gate = d.at[8 * i + j];
      d.at[4 * i + j] = gate * sigmoid(gate) * d.at[8 * i + 4 + j];
    }
}

// This thread's part of the sums of squares of 64 rows of x in shared memory: two threads a row, 64 bytes each.
template <typename T>
__device__ __forceinline__ float squares(const T* panel) {
  const u32 row = threadIdx.x % kWarpgroup / 2, half = threadIdx.x % 2 * 4;
  float sum = 0.f;
#pragma unroll
  for (int chunk = 0; chunk < 4; chunk++) {
    const uint4 eight = *(const uint4*)((const char*)panel + swizzled(row, half + chunk));
    const u32 words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float2 pair = unpack<T>(words[i]);
      sum += pair.x * pair.x + pair.y * pair.y;
    }
  }
  return sum;
}

// One over the root mean square of each row, from the sums that `squares` returned.
__device__ __forceinline__ Rows root_mean_squares(float sum, int k, float epsilon) {
  sum += __shfl_xor_sync(~0u, sum, 1);
  const float mine = rsqrtf(sum / k + epsilon);
  const int lane = threadIdx.x % 32 / 4 * 2;
  return {__shfl_sync(~0u, mine, lane), __shfl_sync(~0u, mine, lane + 16)};
}

// Stores panels of y, 64 rows each, from `column` and `row` on; `fill(panel, i)` writes panel i for the copy engine.
template <int Count, typename Staging, typename F>
__device__ __forceinline__ void store_panels(Staging& staging, const TensorMap& y, int barrier, int column, int row,
                                             const F& fill) {
  const bool leads = threadIdx.x % kWarpgroup == 0;
  if (leads) tma_store_wait_read();
  named_barrier_sync(barrier, kWarpgroup);
#pragma unroll
  for (int i = 0; i < Count; i++) fill(staging.panel(i), i);
  fence_proxy_async_shared();
  named_barrier_sync(barrier, kWarpgroup);
  if (leads) {
    for (int i = 0; i < Count; i++) tma_store(y, staging.panel(i), column + i * staging.kPanelCols, row);
    tma_store_commit();
  }
}

// Quantises columns [128 · block, 128 · block + 128) to e4m3 and writes them into a panel of 64 rows. Each row has one
// scale, which maps its largest magnitude to 448.
// `scales` begins at this block's column, `stride` from row to row.
template <typename T, int N>
__device__ __forceinline__ void quantise(T* panel, const Accumulator<N>& d, int block, float* scales, int row, int rows,
                                         int stride) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float most = 0.f;
#pragma unroll
    for (int i = 0; i < 16; i++)
#pragma unroll
      for (int j = 0; j < 2; j++) most = fmaxf(most, fabsf(d.at[64 * block + 4 * i + 2 * half + j]));
    most = fmaxf(row_max(most), 1e-30f);
    const int r = own_row() + 8 * half;
    if (threadIdx.x % 4 == 0 && row + r < rows) scales[(size_t)(row + r) * stride] = most / 448.f;
    const float up = 448.f / most;
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const float* pair = d.at + 64 * block + 4 * i + 2 * half;
      *(unsigned short*)((char*)panel + swizzled(r, i / 2) + i % 2 * 8 + own_column()) =
          pack<e4m3>(pair[0] * up, pair[1] * up);
    }
  }
}

}  // namespace epilogue
