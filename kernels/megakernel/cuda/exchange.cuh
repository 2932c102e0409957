// Flagged words pass values from SM to SM without a counter or a fence, as NCCL's LL protocol does.
#pragma once
#include "tiles.cuh"

using namespace tiles;

// Orders stores to device memory, of this thread and of others that it has observed, before bulk copies of that memory.
__device__ __forceinline__ void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// A word has 8 bytes, which the GPU reads and writes whole: a value in the upper bits and a flag of 16 bits below. A
// reader polls the word until the flag is the one that it expects; it needs neither a counter nor a fence. A float
// keeps its upper 24 bits: 16 bits of significand.
__device__ __forceinline__ u32 upper24(float x) {
  const u32 bits = __float_as_uint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits >> 8 : (bits + 0x80u) >> 8;  // rounds, but not infinity and NaN
}
__device__ __forceinline__ u64 two_floats(float a, float b, u32 flag) {
  return (u64)upper24(a) << 40 | (u64)upper24(b) << 16 | flag;
}
__device__ __forceinline__ float first_float(u64 word) { return __uint_as_float((u32)(word >> 32) & 0xffffff00u); }
__device__ __forceinline__ float second_float(u64 word) { return __uint_as_float((u32)(word >> 8) & 0xffffff00u); }
__device__ __forceinline__ u64 one_value(u32 bits, u32 flag) { return (u64)bits << 32 | flag; }
__device__ __forceinline__ u32 value_of(u64 word) { return (u32)(word >> 32); }
__device__ __forceinline__ u32 flag_of(u64 word) { return (u32)word & 0xffffu; }

// Other ranks are other GPUs.
#if RANKS > 1
#define WORD_SCOPE "sys"
#else
#define WORD_SCOPE "gpu"
#endif

#if DEBUG
__device__ __forceinline__ void note(const u64* at, int words, bool written);  // machine.cuh
#else
__device__ __forceinline__ void note(const u64*, int, bool) {}
#endif
__device__ __forceinline__ void store_word(u64* to, u64 word) {
  asm volatile("st.relaxed." WORD_SCOPE ".global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
__device__ __forceinline__ void publish(u64* to, u64 word) {
  note(to, 1, true);
  store_word(to, word);
}
__device__ __forceinline__ ulonglong2 load_pair(const u64* from) {
  ulonglong2 words;
  note(from, 2, false);
  asm volatile("ld.relaxed." WORD_SCOPE ".global.v2.u64 {%0, %1}, [%2];"
               : "=l"(words.x), "=l"(words.y)
               : "l"(from)
               : "memory");
  return words;
}
// Loads the pair of words again if `missed`: a predicate, no branch, keeps a lane's loads in flight together.
__device__ __forceinline__ void reload_if(ulonglong2& words, const u64* from, bool missed) {
  if (missed) note(from, 2, false);
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p ld.relaxed." WORD_SCOPE ".global.v2.u64 {%0, %1}, [%3];\n}"
               : "+l"(words.x), "+l"(words.y)
               : "r"((u32)missed), "l"(from)
               : "memory");
}
__device__ __forceinline__ u32 cycles() {
  u32 t;
  asm volatile("mov.u32 %0, %clock;" : "=r"(t));
  return t;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
