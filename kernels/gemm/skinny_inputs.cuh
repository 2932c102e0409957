// Prepares rows of x: sums of squares for RMSNorm, and, for quantised weights, conversion to fp16.
#pragma once
#include "skinny_stream.cuh"

namespace skinny {

__device__ __forceinline__ float squares_of(const uint4& v) {
  const float2 a = unpack<Value>(v.x), b = unpack<Value>(v.y), c = unpack<Value>(v.z), d = unpack<Value>(v.w);
  return a.x * a.x + a.y * a.y + (b.x * b.x + b.y * b.y) + (c.x * c.x + c.y * c.y) + (d.x * d.x + d.y * d.y);
}

// Loads a single row of x. Every warp loads the columns that it multiplies, so no warp waits for another. The columns
// are multiplied by a power of two; its inverse is returned.
__device__ __forceinline__ float prepare_own(const Params& p, const SharedLayout& at, const Share& share) {
  constexpr int kEach = Weight::kK / 8, kLoads = OWN_X ? OWN_X : 1;  // words of a step, and loads of a lane
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint4* from = (const uint4*)(p.x + share.rank * share.columns);
  uint4 v[kLoads];
  int word[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; i++) {
    const int index = lane + i * 32;
    word[i] = (index / kEach * K_WARPS + warp % K_WARPS) * kEach + index % kEach;
    v[i] = word[i] < share.valid / 8 ? __ldcg(from + word[i]) : make_uint4(0, 0, 0, 0);
  }
  u32 largest = 0;
  float squares = 0, scale = 1;
#pragma unroll
  for (int i = 0; i < kLoads; i++) {
    if (kScaled) largest = largest_of(largest, v[i]);
    if (NORM) squares += squares_of(v[i]);
  }
  if (kScaled) {
    largest = __reduce_max_sync(~0u, max(largest & 0xffff, largest >> 16));
    scale = __uint_as_float(scale_exponent(largest) << 23);
  }
#pragma unroll
  for (int i = 0; i < kLoads; i++)
    if (word[i] < share.columns / 8) {
      const uint4 s =
          make_uint4(scaled(v[i].x, scale), scaled(v[i].y, scale), scaled(v[i].z, scale), scaled(v[i].w, scale));
      ((uint4*)at.x)[word[i]] = kScaled ? s : v[i];
    }
  if (NORM) {
#pragma unroll
    for (int o = 16; o; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
    if (lane == 0) at.shared->squares[0][warp] = squares;
  }
  __syncwarp();
  return kScaled ? __uint_as_float((254 - scale_exponent(largest)) << 23) : 1.f;
}

// Every warp computes the row's sum of squares and its norm, after a barrier of all warps.
__device__ __forceinline__ void join_norm(const Params& p, Shared& s) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < K_WARPS; w++) sum += s.squares[0][w];
  s.squares_sum[0] = sum;
  s.norm[0] = rsqrtf(sum / p.k + p.eps);
  __syncwarp();
}

// Computes sums of squares and largest values of the rows of x. With kDirect it also loads them. For quantised weights
// rows are converted to fp16. A warp processes one part of every (WARPS / parts)-th row.
__device__ __forceinline__ void prepare(const Params& p, const SharedLayout& at, const Share& share) {
  Shared& s = *at.shared;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, words = share.columns / 8, valid = share.valid / 8;
  int side_by_side = 1;
  while (side_by_side < min(p.m, WARPS)) side_by_side *= 2;
  const int parts = WARPS / side_by_side, part = warp % parts;
  constexpr int kBatch = 4;
  if (!kDirect && !kScaled && !NORM) return;
#pragma unroll 1
  for (int row = warp / parts; row < p.m; row += side_by_side) {
    const uint4* from = (const uint4*)(p.x + (long long)row * p.k + share.rank * share.columns);
    uint4* to = (uint4*)(at.x + row * p.x_bytes);
    u32 largest = 0;
    float squares = 0;
#pragma unroll 1
    for (int base = part * 32 + lane; base < words; base += parts * 32 * kBatch) {
      uint4 v[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; i++) {
        const int word = base + i * parts * 32;
        v[i] = word < valid ? kDirect ? __ldcg(from + word) : to[word] : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kBatch; i++) {
        const int word = base + i * parts * 32;
        if (kDirect && word < words) to[word] = v[i];
        if (kScaled) largest = largest_of(largest, v[i]);
        if (NORM) squares += squares_of(v[i]);
      }
    }
    if (kScaled) {
      largest = __reduce_max_sync(~0u, max(largest & 0xffff, largest >> 16));
      if (lane == 0) atomicMax(&s.largest[row], largest);
    }
    if (NORM) {
#pragma unroll
      for (int o = 16; o; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
      if (lane == 0) s.squares[row][part] = squares;
    }
  }
  named_barrier_sync(1, kThreads);
  if (threadIdx.x < p.m) {
    if (kScaled) s.unscale[threadIdx.x] = __uint_as_float((254 - scale_exponent(s.largest[threadIdx.x])) << 23);
    float sum = 0;
    if (NORM)
#pragma unroll 1
      for (int i = 0; i < parts; i++) sum += s.squares[threadIdx.x][i];
    s.squares_sum[threadIdx.x] = sum;
    s.norm[threadIdx.x] = rsqrtf(sum / p.k + p.eps);
  }
  if (!kScaled) return;
#pragma unroll 1
  for (int row = warp / parts; row < p.m; row += side_by_side) {
    const float scale = __uint_as_float(scale_exponent(s.largest[row]) << 23);
    uint4* to = (uint4*)(at.x + row * p.x_bytes);
#pragma unroll 2
    for (int word = part * 32 + lane; word < words; word += parts * 32) {
      const uint4 v = to[word];
      to[word] = make_uint4(scaled(v.x, scale), scaled(v.y, scale), scaled(v.z, scale), scaled(v.w, scale));
    }
  }
  named_barrier_sync(1, kThreads);
}

}  // namespace skinny
