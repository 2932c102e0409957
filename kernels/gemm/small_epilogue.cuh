// What small.cu does with sums: RMSNorm's scale, bias, SwiGLU, residual, on registers; then rows of y.
#pragma once
#include "tiles.cuh"

using namespace tiles;

#if HALF
using Value = f16;
#else
using Value = bf16;
#endif
struct Params {
  Value* y;               // [m, n]
  const Value* bias;      // [n], or null
  const Value* residual;  // [m, n], or null
  int m, n, k;
  float eps;
};

// Of 16 outputs × 8 rows of y as the accumulator holds them, four neighbouring outputs of one row for each lane; of 8
// outputs (`b` unused) two.
__device__ __forceinline__ uint2 transposed(u32 a, u32 b) {
  const u32 g = threadIdx.x % 32 / 4, order = g % 2 ? 0x3276 : 0x5410;
  a = __byte_perm(a, __shfl_xor_sync(~0u, a, 4), order);
  if (PAIRED) return make_uint2(a, 0);
  b = __byte_perm(b, __shfl_xor_sync(~0u, b, 4), order);
  const u32 other = __shfl_xor_sync(~0u, g & 2 ? a : b, 8);
  return g & 2 ? make_uint2(other, b) : make_uint2(a, other);
}

// The residual of 16 outputs × 8 rows as the accumulator holds them.
__device__ __forceinline__ uint2 residual_of(const Params& p, int token, int n) {
  u32 v[4];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int row = token + own_column() + j % 2, out = n + threadIdx.x % 32 / 4 + j / 2 * 8;
    v[j] = row < p.m && out < p.n ? ((const unsigned short*)p.residual)[(long long)row * p.n + out] : 0;
  }
  return make_uint2(v[0] | v[1] << 16, v[2] | v[3] << 16);
}

// The sums `v` of 8 rows of y, from `token`, for this warp's outputs from `n`; `squares` [SPLITS][COLS] from the first row.
__device__ __forceinline__ void finish(const Params& p, const float* squares, float4 v, int token, int n, float2 bias,
                                       uint2 residual) {
  const int g = threadIdx.x % 32 / 4, mine = token + own_column();
  float value[4] = {v.x, v.y, v.z, v.w};
  const float2 first = unpack<Value>(residual.x), second = unpack<Value>(residual.y);
  const float added[4] = {first.x, first.y, second.x, second.y};
#pragma unroll
  for (int j = 0; j < 4; j++) {
    float sum = 0.f;
#pragma unroll
    for (int split = 0; NORM && split < SPLITS; split++) sum += squares[split * COLS + own_column() + j % 2];
    if (NORM) value[j] *= rsqrtf(sum / p.k + p.eps);
    value[j] += j < 2 ? bias.x : bias.y;
    if (RESIDUAL) value[j] += added[j];
  }
#pragma unroll
  for (int j = 0; PAIRED && j < 2; j++) value[j] = value[j] / (1 + __expf(-value[j])) * value[j + 2];
  const uint2 both = transposed(pack<Value>(value[0], value[1]), pack<Value>(value[2], value[3]));
  const int row = mine + g % 2, out = n + (PAIRED ? g & 6 : (g & 4) + (g & 2) * 4);
  if (row >= p.m || out >= p.n) return;
  Value* to = p.y + (long long)row * p.n + out;
  if (PAIRED) *(u32*)to = both.x;
  else *(uint2*)to = both;
}
