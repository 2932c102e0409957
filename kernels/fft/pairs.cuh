// Complex numbers in fp16: as words, re in the low half and im in the high one; and two as a pair of words, the re of both
// and the im of both. Products of 16-bit matrices whose sums are in fp16 leave such pairs.
#pragma once
#include "roots.cuh"

using tiles::f16;
using tiles::u32;

__device__ __forceinline__ u32 packed_half(float2 z) { return tiles::pack<f16>(z.x, z.y); }

// d += a · b as tiles::mma_sync has them.
__device__ __forceinline__ void add_product(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  tiles::mma_sync<f16>(d, a, b0, b1);
}
// The same with sums in fp16: d[0] is columns 2c and 2c + 1 of row g, d[1] those of row g + 8.
__device__ __forceinline__ void add_product(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two complex values in fp16.
struct Pair {
  u32 re, im;
};
__device__ __forceinline__ Pair packed_pair(float2 first, float2 second) {
  return {tiles::pack<f16>(first.x, second.x), tiles::pack<f16>(first.y, second.y)};
}
__device__ __forceinline__ __half2 as_half2(u32 both) { return *(const __half2*)&both; }
__device__ __forceinline__ u32 as_word(__half2 both) { return *(const u32*)&both; }
// a · b, or its conjugate.
template <bool Conjugate = false>
__device__ __forceinline__ Pair times(Pair a, Pair b) {
  const __half2 re = as_half2(a.re), im = as_half2(a.im), by = as_half2(b.re), turned = as_half2(b.im);
  const __half2 cross = __hmul2(im, by);
  return {as_word(__hfma2(re, by, __hneg2(__hmul2(im, turned)))),
          as_word(Conjugate ? __hfma2(__hneg2(re), turned, __hneg2(cross)) : __hfma2(re, turned, cross))};
}

__device__ __forceinline__ u32 sum(u32 a, u32 b) { return as_word(__hadd2(as_half2(a), as_half2(b))); }
__device__ __forceinline__ u32 difference(u32 a, u32 b) { return as_word(__hadd2(as_half2(a), __hneg2(as_half2(b)))); }
// z · w, words; `by` is w and i · w.
__device__ __forceinline__ u32 turned(u32 z, uint2 by) {
  const __half2 half = as_half2(z);
  return as_word(__hfma2(__low2half2(half), as_half2(by.x), __hmul2(__high2half2(half), as_half2(by.y))));
}
// z · w of one complex number w, a word.
__device__ __forceinline__ Pair times(Pair z, u32 w) {
  return times(z, Pair{as_word(__low2half2(as_half2(w))), as_word(__high2half2(as_half2(w)))});
}
