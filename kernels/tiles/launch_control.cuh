// Cluster launch control of sm_100: a running cluster takes over the work of one that has not started yet, so that the
// cluster that is ready first works next. Compiled and emulated; never run on the chip.
#pragma once
#include "barrier.cuh"

namespace tiles {

struct alignas(16) Answer {
  u32 words[4];
};

// Requests that a cluster of this grid that has not started be cancelled. The answer of 16 bytes is written to `answer`
// and counted by `barrier`, in a pair of blocks by both. One thread of the cluster calls it, and not again after a
// refusal. A refusal does not say that no cluster is left; those that are left start by themselves. All answers must
// have come before the blocks end.
template <int Blocks>
__device__ __forceinline__ void try_cancel_cluster(Answer& answer, Barrier& barrier) {
  if constexpr (Blocks == 2)
    asm volatile(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
        "[%0], [%1];" ::"r"(shared_address(&answer)),
        "r"(shared_address(&barrier))
        : "memory");
  else
    asm volatile(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(
            shared_address(&answer)),
        "r"(shared_address(&barrier))
        : "memory");
}

// The first block (x) of the cancelled cluster, whose work is now this cluster's; -1 after a refusal.
__device__ __forceinline__ int first_block_of(const Answer& answer) {
  int first;
  asm volatile(
      "{\n\t.reg .pred yes;\n\t.reg .b128 answer;\n\tld.shared.b128 answer, [%1];\n\tmov.b32 %0, -1;\n\t"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 yes, answer;\n\t"
      "@yes clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, answer;\n\t}"
      : "=&r"(first)
      : "r"(shared_address(&answer))
      : "memory");
  return first;
}

}  // namespace tiles
