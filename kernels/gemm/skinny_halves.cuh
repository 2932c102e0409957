// Rows of x in fp16, as quantised weights are multiplied: those in bf16 times a power of two.
#pragma once
#include "skinny_weights.cuh"

namespace skinny {

constexpr bool kScaled = kQuantised && !HALF;

__device__ __forceinline__ u32 largest_of(u32 largest, const uint4& v) {
  constexpr u32 kSigns = 0x7fff7fff;
  return __vmaxu2(largest, __vmaxu2(__vmaxu2(v.x & kSigns, v.y & kSigns), __vmaxu2(v.z & kSigns, v.w & kSigns)));
}

__device__ __forceinline__ u32 scaled(u32 pair, float scale) {
  const float2 v = unpack<bf16>(pair);
  return pack<f16>(v.x * scale, v.y * scale);
}
// 2^(14 - exponent of the row's largest value), as bits. A row with infinities gets the smallest scale.
__device__ __forceinline__ u32 scale_exponent(u32 largest) { return min(268u - (largest >> 7), 253u); }

}  // namespace skinny
