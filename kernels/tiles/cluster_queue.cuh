// Which work a cluster of a persistent kernel does: by number, or handed out by the hardware, with requests for
// clusters that have not started, and their answers. No PTX: tests run it on a CPU.
#pragma once
#include <launch_control.cuh>  // found by the search path: a test may put another in its place

namespace tiles {

// In shared memory of each block of a cluster: two answers, used alternately.
//   barrier       arrivals a phase             means
//   answered[i]   1, the bytes of the answer   answer i has come
//   taken[i]      the cluster's readers        answer i has been read; that of the first block counts
struct ClusterQueue {
  Answer answers[2];
  Barrier answered[2], taken[2];
  // `readers` counts the ClusterNumbers of all blocks.
  __device__ __forceinline__ void begin(int readers) {
    for (int i = 0; i < 2; i++) {
      init(answered[i], 1);
      init(taken[i], readers);
    }
  }
};

// The numbers of the clusters whose work this one does: its own first. Then those at a stride of all that run, or
// with Dynamic those of clusters that it takes over, by the answers in the queue. A thread, or a whole warp, reads all.
template <int Blocks, int Threads, bool Dynamic>
struct ClusterNumbers {
  ClusterQueue& queue;
  PipelineState<2> at;
  int number = -1;

  // Requests the answer that `next` will read. One thread of each block calls it, a reader itself, and not after a
  // refusal. Without Dynamic it does nothing.
  __device__ __forceinline__ void try_cancel() {
    if (!Dynamic) return;
    const bool first = cluster_rank() == 0;
    if (first) wait(queue.taken[at.stage], at.parity ^ 1);
    arrive_expect_tx(queue.answered[at.stage], sizeof(Answer));
    if (first) try_cancel_cluster<Blocks>(queue.answers[at.stage], queue.answered[at.stage]);
  }

  // The number of the cluster whose work is now this one's; -1 after a refusal, never without Dynamic.
  __device__ __forceinline__ int next() {
    if (number < 0 || !Dynamic) return number = number < 0 ? blockIdx.x / Blocks : number + gridDim.x / Blocks;
    wait(queue.answered[at.stage], at.parity);
    const int first = first_block_of(queue.answers[at.stage]);
    fence_proxy_async_shared();  // the next answer overwrites this one
    if (Threads > 1) __syncwarp();
    if (Threads == 1 || threadIdx.x % 32 == 0) arrive_remote(queue.taken[at.stage], 0);
    at.advance();
    return first < 0 ? -1 : number = first / Blocks;
  }
};

}  // namespace tiles
