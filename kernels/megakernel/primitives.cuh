// What the megakernel asks of the chip: mbarriers, bulk copies, matrix units, and words that SMs hand to each other.
#pragma once
#include <cuda_bf16.h>

using u64 = unsigned long long;
using u32 = unsigned int;

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// mbarriers ----------------------------------------------------------------------------------------------------------
__device__ __forceinline__ void barrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ bool barrier_done(u32 bar, u32 parity) {
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done;
}

// Whether the phase is over, without the wait of `barrier_done`.
__device__ __forceinline__ bool barrier_passed(u32 bar, u32 parity) {
  u32 done;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done;
}

// Asks for global memory to be brought into the second-level cache; `bytes` is a multiple of 16.
__device__ __forceinline__ void prefetch_l2(const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// One bulk copy global -> shared that completes on `bar`; evict-first, since weights are read once a token.
__device__ __forceinline__ void bulk_copy(u32 to, const void* from, u32 bytes, u32 bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(bar), "l"(0x12F0000000000000ull)
      : "memory");
}

// A CUtensorMap, encoded by kernels.tiles.maps, and the copy of one of its boxes, as `bulk_copy`; coordinates innermost first.
struct alignas(64) TensorMap {
  char opaque[128];
};
__device__ __forceinline__ void box_copy(u32 to, const TensorMap& map, int c0, int c1, int c2, u32 bar) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(bar), "l"(0x12F0000000000000ull)
      : "memory");
}

// Orders this thread's stores, and what it has seen of others', with bulk copies of the same memory.
__device__ __forceinline__ void fence_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// Orders this thread's reads of shared memory before bulk copies to it, and waits for its loads from memory as well.
__device__ __forceinline__ void fence_reads() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// pairs of SMs --------------------------------------------------------------------------------------------------------
// The address in the other SM of a pair, which is a cluster, of what lies here in shared memory.
__device__ __forceinline__ u32 other_address(const void* mine) {
  u32 other;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(shared_address(mine)), "r"(blockIdx.x % 2 ^ 1));
  return other;
}
// Stores there that complete on a barrier of the same SM.
__device__ __forceinline__ void store_there(u32 to, const float4& x, u32 bar) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(bar) : "memory");
}
__device__ __forceinline__ void store_there(u32 to, const float2& x, u32 bar) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to),
               "f"(x.x), "f"(x.y), "r"(bar) : "memory");
}
// Until all threads of both SMs are here.
__device__ __forceinline__ void pair_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// matrix units: d[16, 8] += a[16, 16] * b[16, 8] ---------------------------------------------------------------------
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint4& a, const uint2& b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}
__device__ __forceinline__ void mma_f16(float (&d)[4], const uint4& a, const uint2& b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}
__device__ __forceinline__ u32 two_halves(float low, float high) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// words between SMs ---------------------------------------------------------------------------------------------------
// SMs hand values to each other in 8-byte words that carry their own tag, so that a reader needs neither a counter nor
// a fence: it reads until the tag is the one it waits for. A float keeps its upper 24 bits, 16 of them of precision.
__device__ __forceinline__ u32 upper24(float x) {
  const u32 bits = __float_as_uint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits >> 8 : (bits + 0x80u) >> 8;  // rounds; infinity and NaN stay
}
__device__ __forceinline__ u64 two_floats(float a, float b, u32 tag) {
  return (u64)upper24(a) << 40 | (u64)upper24(b) << 16 | tag;
}
__device__ __forceinline__ float first_float(u64 word) { return __uint_as_float((u32)(word >> 32) & 0xffffff00u); }
__device__ __forceinline__ float second_float(u64 word) { return __uint_as_float((u32)(word >> 8) & 0xffffff00u); }
__device__ __forceinline__ u64 one_value(u32 bits, u32 tag) { return (u64)bits << 32 | tag; }
__device__ __forceinline__ u32 value_of(u64 word) { return (u32)(word >> 32); }
__device__ __forceinline__ u32 tag_of(u64 word) { return (u32)word & 0xffffu; }

#if DEBUG
__device__ __forceinline__ void note(const u64* at, int words, bool written);  // machine.cuh
#else
__device__ __forceinline__ void note(const u64*, int, bool) {}
#endif
__device__ __forceinline__ void store_word(u64* to, u64 word) {
  note(to, 1, true);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
__device__ __forceinline__ ulonglong2 load_words(const u64* from) {
  ulonglong2 words;
  note(from, 2, false);
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(words.x), "=l"(words.y) : "l"(from) : "memory");
  return words;
}
// The same where they are missed, else as they are: without a branch, so that all that a lane misses is asked for at once.
__device__ __forceinline__ void load_missed(ulonglong2& words, const u64* from, bool missed) {
  if (missed) note(from, 2, false);
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n@p ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%3];\n}"
               : "+l"(words.x), "+l"(words.y) : "r"((u32)missed), "l"(from) : "memory");
}
__device__ __forceinline__ u32 cycles() {
  u32 t;
  asm volatile("mov.u32 %0, %clock;" : "=r"(t));
  return t;
}
__device__ __forceinline__ u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// 2^x; less than the smallest normal number is 0.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__device__ __forceinline__ float2 unpack_bf16(u32 pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}
