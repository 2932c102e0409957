// Copies by the copy engine (TMA) between device memory, described by a tensor map, and shared tiles.
#pragma once
#include "shared.cuh"

namespace tiles {

// A CUtensorMap, encoded by kernels.tiles.maps; a kernel takes it as `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
  char opaque[128];
};

__device__ __forceinline__ void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// L2 eviction policies: lines that are read once leave first; lines that all blocks read again stay.
constexpr u64 kEvictFirst = 0x12F0000000000000, kEvictLast = 0x14F0000000000000, kEvictNormal = 0x1000000000000000;

// tma_load(to, map, barrier, coordinates..., policy) copies one box; its bytes count towards `barrier`. Values outside
// the tensor are zeros. tma_load_multicast copies the box to the same place of every block of the cluster in `blocks`
// (one bit each) and counts towards the same barrier there. tma_store writes only the values inside the tensor.
// Coordinates are innermost first.
#define TILES_TMA(D, PARAMETERS, OPERANDS, FROM_2, FROM_4, FROM_5)                                                   \
  __device__ __forceinline__ void tma_load(void* to, const TensorMap& map, Barrier& barrier, PARAMETERS,             \
                                           u64 policy = kEvictNormal) {                                              \
    asm volatile("cp.async.bulk.tensor." #D                                                                          \
                 "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"                                        \
                 ".L2::cache_hint [%0], [%1, {" FROM_4 "}], [%2], %3;" ::"r"(shared_address(to)),                    \
                 "l"(&map), "r"(shared_address(&barrier)), "l"(policy), OPERANDS                                     \
                 : "memory");                                                                                        \
  }                                                                                                                  \
  __device__ __forceinline__ void tma_load_multicast(void* to, const TensorMap& map, Barrier& barrier,               \
                                                     unsigned short blocks, PARAMETERS, u64 policy = kEvictNormal) { \
    asm volatile("cp.async.bulk.tensor." #D                                                                          \
                 "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"                                        \
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {" FROM_5                                            \
                 "}], [%2], %4, %3;" ::"r"(shared_address(to)),                                                      \
                 "l"(&map), "r"(shared_address(&barrier)), "l"(policy), "h"(blocks), OPERANDS                        \
                 : "memory");                                                                                        \
  }                                                                                                                  \
  __device__ __forceinline__ void tma_store(const TensorMap& map, const void* from, PARAMETERS) {                    \
    asm volatile("cp.async.bulk.tensor." #D "d.global.shared::cta.tile.bulk_group [%1, {" FROM_2                     \
                 "}], [%0];" ::"r"(shared_address(from)),                                                            \
                 "l"(&map), OPERANDS                                                                                 \
                 : "memory");                                                                                        \
  }
#define TILES_LIST(...) __VA_ARGS__

TILES_TMA(2, TILES_LIST(int c0, int c1), TILES_LIST("r"(c0), "r"(c1)), "%2, %3", "%4, %5", "%5, %6")
TILES_TMA(3, TILES_LIST(int c0, int c1, int c2), TILES_LIST("r"(c0), "r"(c1), "r"(c2)), "%2, %3, %4", "%4, %5, %6",
          "%5, %6, %7")
TILES_TMA(4, TILES_LIST(int c0, int c1, int c2, int c3), TILES_LIST("r"(c0), "r"(c1), "r"(c2), "r"(c3)),
          "%2, %3, %4, %5", "%4, %5, %6, %7", "%5, %6, %7, %8")

#undef TILES_TMA
#undef TILES_LIST

// Copies bytes into shared memory, counted towards `barrier`; addresses and `bytes` are multiples of 16.
__device__ __forceinline__ void bulk_load(void* to, const void* from, u32 bytes, Barrier& barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier)), "l"(policy)
      : "memory");
}
// Prefetches device memory into the L2 cache.
__device__ __forceinline__ void bulk_prefetch_l2(const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// Copies a whole tile by panels of a box kPanelCols wide, Rows high; coordinates are the first value's.
template <typename T, int Rows, int Cols, typename... Rest>
__device__ __forceinline__ void tma_load_tile(SharedTile<T, Rows, Cols>& to, const TensorMap& map, Barrier& barrier,
                                              int c0, Rest... rest) {
#pragma unroll
  for (int p = 0; p < to.kPanels; p++) tma_load(to.panel(p), map, barrier, c0 + p * to.kPanelCols, rest...);
}
template <typename T, int Rows, int Cols, typename... Rest>
__device__ __forceinline__ void tma_store_tile(const TensorMap& map, const SharedTile<T, Rows, Cols>& from, int c0,
                                               Rest... rest) {
#pragma unroll
  for (int p = 0; p < from.kPanels; p++) tma_store(map, from.panel(p), c0 + p * from.kPanelCols, rest...);
}

// Asynchronous copies of 4 or 16 bytes by this thread into shared memory; of 4 zeros unless `real`.
__device__ __forceinline__ void cp_async_4(void* to, const void* from, bool real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(real ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void cp_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Commits the stores of this thread so far as one group.
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most Pending of this thread's committed groups still read shared memory.
template <int Pending = 0>
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}
// Waits until at most Pending of this thread's committed groups have not reached device memory.
template <int Pending = 0>
__device__ __forceinline__ void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace tiles
