// A row that one thread holds, as TMEM gives it. No PTX: tests run it on a CPU.
#pragma once
#include "tiles.cuh"

namespace tiles {

// N values of this lane as 16-bit values in its row of a panel of 32 rows, from 16-byte chunk `chunk` on.
template <int N, typename T>
__device__ __forceinline__ void put_row(T* panel, int chunk, const float* from) {
#pragma unroll
  for (int i = 0; i < N; i += 8) {
    const uint4 eight = {pack<T>(from[i], from[i + 1]), pack<T>(from[i + 2], from[i + 3]),
                         pack<T>(from[i + 4], from[i + 5]), pack<T>(from[i + 6], from[i + 7])};
    *(uint4*)((char*)panel + swizzled(threadIdx.x % 32, chunk + i / 8)) = eight;
  }
}

// to[i] += from[i] of eight 16-bit values, 16-byte aligned, in device memory.
template <typename T>
__device__ __forceinline__ void add_eight(float* to, const T* from) {
  const uint4 eight = __ldg((const uint4*)from);
  const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 pair = unpack<T>(pairs[i]);
    to[2 * i] += pair.x;
    to[2 * i + 1] += pair.y;
  }
}

// The first rows of a panel of 32 × 64 16-bit values in the 128-byte swizzle, by the threads of a warp: `rows` of them,
// and of each the first `columns` (a multiple of 8). `stride` is that of `to`, in values.
template <typename T>
__device__ __forceinline__ void store_rows(T* to, int stride, const T* panel, int rows, int columns) {
  const int lane = threadIdx.x % 32, chunk = lane % 8;
  for (int r = lane / 8; r < min(rows, 32) && chunk * 8 < columns; r += 4)
    *(uint4*)(to + (u64)r * stride + chunk * 8) = *(const uint4*)((const char*)panel + swizzled(r, chunk));
}

// The largest and the sum of this thread's values.
template <int N>
__device__ __forceinline__ float largest(const float (&of)[N]) {
  float top[4] = {of[0], of[1], of[2], of[3]};
#pragma unroll
  for (int i = 4; i < N; i++) top[i % 4] = fmaxf(top[i % 4], of[i]);
  return fmaxf(fmaxf(top[0], top[1]), fmaxf(top[2], top[3]));
}
template <int N>
__device__ __forceinline__ float total(const float (&of)[N]) {
  float sum[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < N; i++) sum[i % 4] += of[i];
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

}  // namespace tiles
