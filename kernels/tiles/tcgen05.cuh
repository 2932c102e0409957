// The fifth-generation tensor cores of sm_100a: tensor memory, products that one thread issues, copies of scales.
// Compiled and emulated; never run on the chip.
#pragma once
#include "descriptors.cuh"
#include "tiles.cuh"

namespace tiles {

// `Blocks` below is 2 where the two blocks of a cluster multiply as a pair, else 1: it is the same in all of a kernel.
#define TILES_GROUP(BLOCKS, BEFORE, AFTER, ...)                          \
  if constexpr (BLOCKS == 2)                                             \
    asm volatile(BEFORE "cta_group::2" AFTER __VA_ARGS__);               \
  else                                                                   \
    asm volatile(BEFORE "cta_group::1" AFTER __VA_ARGS__)

// Takes all of TMEM for this block and writes its address into shared memory. One whole warp calls it, in a pair one of
// each block, and the same warp calls tmem_free at the end.
template <int Blocks = 1>
__device__ __forceinline__ void tmem_take(u32* address) {
  TILES_GROUP(Blocks, "tcgen05.alloc.", ".sync.aligned.shared::cta.b32 [%0], %1;",
              ::"r"(shared_address(address)), "n"(kTmemColumns)
              : "memory");
  TILES_GROUP(Blocks, "tcgen05.relinquish_alloc_permit.", ".sync.aligned;");
}
template <int Blocks = 1>
__device__ __forceinline__ void tmem_free(u32 address) {
  TILES_GROUP(Blocks, "tcgen05.dealloc.", ".sync.aligned.b32 %0, %1;", ::"r"(address), "n"(kTmemColumns));
}

// Products and TMEM loads are ordered with other threads by a barrier between these two.
__device__ __forceinline__ void tcgen05_fence_before() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void tcgen05_fence_after() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
// cluster_sync with both fences. Without a cluster it is the block's.
__device__ __forceinline__ void tcgen05_cluster_sync() {
  tcgen05_fence_before();
  cluster_sync();
  tcgen05_fence_after();
}

// Arrives at `barrier`, of a pair at that of each block, once all products and copies of scales that this thread issued
// have ended. It includes tcgen05_fence_before.
template <int Blocks = 1>
__device__ __forceinline__ void tcgen05_commit(Barrier& barrier) {
  if constexpr (Blocks == 2)
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
            shared_address(&barrier)),
        "h"((unsigned short)3)
        : "memory");
  else
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                     shared_address(&barrier))
                 : "memory");
}

// d += a · bᵀ, or d = a · bᵀ when `keep` is 0; d in TMEM, a and b in shared memory, block scales in TMEM. One thread
// issues it. Products and copies of scales of one thread run in the order of their issue. In a pair a thread of the
// first block issues: each block holds 128 rows of a, half of the rows of b, the sums and the scales of its rows of a,
// and the scales of all rows of b, at the same addresses.
template <MatrixKind Kind, int Blocks = 1>
__device__ __forceinline__ void tcgen05_mma(u32 d, u64 a, u64 b, u32 instruction, int keep, u32 a_scales = 0,
                                            u32 b_scales = 0) {
#define TILES_TCGEN05(PTX, SCALES)                                                                           \
  TILES_GROUP(Blocks, "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\ttcgen05.mma.",                         \
              ".kind::" PTX " [%0], %1, %2, %3, " SCALES "p;\n\t}", ::"r"(d), "l"(a), "l"(b),                \
              "r"(instruction), "r"(keep), "r"(a_scales), "r"(b_scales)                                      \
              : "memory")
  if constexpr (Kind == kE4m3) {
    TILES_TCGEN05("f8f6f4", "");
  } else if constexpr (Kind == kMxfp8) {
    TILES_TCGEN05("mxf8f6f4.block_scale.scale_vec::1X", "[%5], [%6], ");
  } else if constexpr (Kind == kNvfp4) {
    TILES_TCGEN05("mxf4nvf4.block_scale.scale_vec::4X", "[%5], [%6], ");
  } else {
    TILES_TCGEN05("f16", "");
  }
#undef TILES_TCGEN05
}

// The same with 16-bit values of a in TMEM, two in a word: 128 lanes, eight columns from `a` on for 16 of K. One block.
template <MatrixKind Kind>
__device__ __forceinline__ void tcgen05_mma_tmem(u32 d, u32 a, u64 b, u32 instruction, int keep) {
  static_assert(Kind == kBf16 || Kind == kF16, "values of 16 bits");
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n\t}" ::"r"(d),
      "r"(a), "l"(b), "r"(instruction), "r"(keep)
      : "memory");
}

// Arrives at the barrier of a cluster's first block and announces bytes there, which copies of any block bring.
__device__ __forceinline__ void arrive_expect_tx_first(Barrier& barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;" ::"r"(mapa(&barrier, 0)), "r"(bytes)
               : "memory");
}
// tma_load whose bytes count, in a pair, towards the barrier of the first block.
template <int Blocks>
__device__ __forceinline__ void tma_load_first(void* to, const TensorMap& map, Barrier& barrier, int c0, int c1) {
  if constexpr (Blocks == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], "
        "[%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
        "l"(&map), "r"(mapa(&barrier, 0)), "r"(c0), "r"(c1)
        : "memory");
  else
    tma_load(to, map, barrier, c0, c1);
}
template <int Blocks>
__device__ __forceinline__ void tma_load_first(void* to, const TensorMap& map, Barrier& barrier, int c0, int c1,
                                               int c2) {
  if constexpr (Blocks == 2)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], "
        "[%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(to)),
        "l"(&map), "r"(mapa(&barrier, 0)), "r"(c0), "r"(c1), "r"(c2)
        : "memory");
  else
    tma_load(to, map, barrier, c0, c1, c2);
}

// tma_load_first; with Both to the same place in both blocks of a pair, counted by the first one's barrier.
template <int Blocks, bool Both>
__device__ __forceinline__ void tma_load_both(void* to, const TensorMap& map, Barrier& barrier, int c0, int c1,
                                              int c2) {
  if constexpr (Both)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        ".cta_group::2 [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(to)),
        "l"(&map), "r"(mapa(&barrier, 0)), "h"((unsigned short)3), "r"(c0), "r"(c1), "r"(c2)
        : "memory");
  else
    tma_load_first<Blocks>(to, map, barrier, c0, c1, c2);
}

// Copies a tile of scales from shared memory into four columns of TMEM, the same into each quarter of its lanes. In a
// pair a thread of the first block issues, and each block copies from its own shared memory into its own TMEM, at the
// same addresses.
template <int Blocks = 1>
__device__ __forceinline__ void tmem_copy_scales(u32 to, u64 from) {
  TILES_GROUP(Blocks, "tcgen05.cp.", ".32x128b.warpx4 [%0], %1;", ::"r"(to), "l"(from) : "memory");
}
#undef TILES_GROUP

// 32 or 128 columns of TMEM from `address` on: this lane of the warp gets, or stores, those of its own lane of TMEM.
// A warp reaches the lanes from 32 · (its index mod 4) on only, which `address` must name. Both wait for their end.
#define TILES_TMEM(N)                                                                                             \
  __device__ __forceinline__ void tmem_load(float(&to)[N], u32 address) {                                         \
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x" #N ".b32 {" TILES_L##N "}, [%" #N                             \
                 "];\n\ttcgen05.wait::ld.sync.aligned;"                                                           \
                 : TILES_O##N(to, 0)                                                                              \
                 : "r"(address)                                                                                   \
                 : "memory");                                                                                     \
  }                                                                                                               \
  __device__ __forceinline__ void tmem_store(u32 address, float(&from)[N]) {                                      \
    asm volatile("tcgen05.st.sync.aligned.32x32b.x" #N ".b32 [%" #N "], {" TILES_L##N                             \
                 "};\n\ttcgen05.wait::st.sync.aligned;"                                                           \
                 : TILES_O##N(from, 0)                                                                            \
                 : "r"(address)                                                                                   \
                 : "memory");                                                                                     \
  }
TILES_TMEM(32)
TILES_TMEM(128)
#undef TILES_TMEM

}  // namespace tiles
