// Barriers in shared memory (mbarriers), named barriers and cluster barriers.
#pragma once

#ifndef TILES_SPIN_LIMIT
#define TILES_SPIN_LIMIT \
  (1 << 24)  // tries before a wait traps, so that a lost arrival ends the kernel; 0: wait for ever
#endif

namespace tiles {

using u32 = unsigned int;
using u64 = unsigned long long;

__device__ __forceinline__ u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// An mbarrier: a phase ends when `count` threads have arrived and all announced bytes have landed.
struct Barrier {
  u64 state;
};

__device__ __forceinline__ void init(Barrier& barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(count));
}

template <int N>
__device__ __forceinline__ void init_ring(Barrier (&ring)[N], u32 count) {
  for (Barrier& each : ring) init(each, count);
}

// Makes `init` visible to the other blocks of the cluster. Call it after `init`.
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;"); }
// Makes `init` visible to the copy engine and to the other blocks of the cluster.
__device__ __forceinline__ void fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async;" ::: "memory");
}

__device__ __forceinline__ void arrive_address(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void arrive(Barrier& barrier) { arrive_address(shared_address(&barrier)); }

// Arrives at the same barrier of block `rank` of the cluster.
__device__ __forceinline__ void arrive_remote(Barrier& barrier, u32 rank) {
  asm volatile(
      "{\n\t.reg .b32 remote;\n\tmapa.shared::cluster.u32 remote, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t}" ::"r"(shared_address(&barrier)),
      "r"(rank)
      : "memory");
}

// Arrives and announces the bytes that copies will bring in this phase.
__device__ __forceinline__ void arrive_expect_tx(Barrier& barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}

// Tells whether the phase of this parity is over. The hardware may suspend the thread for a while before it answers.
__device__ __forceinline__ bool try_wait(Barrier& barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(done)
      : "r"(shared_address(&barrier)), "r"(parity)
      : "memory");
  return done;
}

// As try_wait, but the hardware never suspends the thread.
__device__ __forceinline__ bool test_wait(Barrier& barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(done)
      : "r"(shared_address(&barrier)), "r"(parity)
      : "memory");
  return done;
}

// Waits until the phase of this parity is over. A fresh barrier is in phase 0: waiting for parity 1 returns at once.
__device__ __forceinline__ void wait(Barrier& barrier, u32 parity) {
#if TILES_SPIN_LIMIT
  for (u32 tries = 0; !try_wait(barrier, parity);)
    if (++tries == TILES_SPIN_LIMIT) __trap();
#else
  while (!try_wait(barrier, parity)) {
  }
#endif
}

// The position of a thread in a ring of `Stages` stages, each with a full and an empty barrier. A consumer waits for
// (full[stage], parity), a producer for (empty[stage], parity ^ 1). Where the number of stages is known at launch only,
// Stages is 0 and `advance` takes it.
template <int Stages = 0>
struct PipelineState {
  int stage = 0;
  u32 parity = 0;
  __device__ __forceinline__ void advance(int stages = Stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  // The same as `count` calls of advance().
  __device__ __forceinline__ void advance_by(int count) {
    parity ^= (stage + count) / Stages & 1;
    stage = (stage + count) % Stages;
  }
};

// Named barriers 1 to 15 (0 is __syncthreads) among `threads` threads.
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// As cluster_sync, for warps whose threads have diverged.
__device__ __forceinline__ void cluster_sync_unaligned() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// cluster_sync in two halves, without release of earlier writes: only barriers, published by `fence_init`, may have
// been written before. After cluster_wait a block may access the shared memory of the other blocks.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

}  // namespace tiles
