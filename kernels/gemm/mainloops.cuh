// How a warpgroup multiplies its 64 rows of x by a tile of w, stage after stage of the ring.
#pragma once
#include "epilogues.cuh"
#include "schedule.cuh"

using namespace tiles;

// This warp no longer reads a stage: told to both blocks of the cluster, since either fills it.
__device__ __forceinline__ void release(Barrier& empty) {
  __syncwarp();
  if (threadIdx.x % 32 < kBlocks) arrive_at(empty, threadIdx.x % 32);
}

// d = 64 rows of x times a tile of w in `steps` stages; returns the sum of squares of this thread's part of x where it
// is wanted. One group of products is always under way: a stage is released while the next one is multiplied. `under`
// is called once, under the products of the first step.
template <bool Sum, typename T, int N, typename S, int Stages, typename F>
__device__ __forceinline__ float multiply_tile(Accumulator<N>& d, S& s, Cursor<Stages>& at, int me, int steps,
                                               const F& under) {
  float sum = 0.f;
  pin(d);
  const auto begin = [&](bool first) {
    const T* mine = s.x[at.stage].panel(0, 64 * me);
    wait(s.full[at.stage], at.parity);
    fence_products();
    multiply(d, mine, s.w[at.stage].panel(0), !first);
    commit_products();
    if constexpr (Sum) sum += epilogue::squares(mine);
  };
  begin(true);
  under();
  for (int step = 1; step < steps; step++) {
    const int before = at.stage;
    at.advance();
    begin(false);
    wait_products<1>();
    release(s.empty[before]);
  }
  wait_products<0>();
  pin(d);
  release(s.empty[at.stage]);
  at.advance();
  return sum;
}
