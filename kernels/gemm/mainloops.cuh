// The main loop of a consumer warpgroup: 64 rows of x times a tile of w, stage after stage of the ring.
#pragma once
#include "epilogues.cuh"
#include "schedule.cuh"

using namespace tiles;

// This warp has read a stage: arrives at both blocks' barriers, since each loads a part of the stage.
__device__ __forceinline__ void release(Barrier& empty) {
  __syncwarp();
  if (threadIdx.x % 32 < kBlocks) arrive_remote(empty, threadIdx.x % 32);
}

// For each of the steps 0, stride, 2 · stride and so on below `extent`: waits for a stage and calls `product(stage,
// first)`, which issues and commits products to d. One group of products is always in flight: a stage is released while
// the next one is multiplied. `overlapped_prologue` is called once, after the products of the first step have been
// issued.
template <int N, typename S, int Stages, typename Product, typename F>
__device__ __forceinline__ void each_stage(Accumulator<N>& d, S& s, PipelineState<Stages>& at, int extent, int stride,
                                           const Product& product, const F& overlapped_prologue) {
  fence_operand(d);
  const auto begin = [&](bool first) {
    wait(s.full[at.stage], at.parity);
    wgmma_fence();
    product(at.stage, first);
  };
  begin(true);
  overlapped_prologue();
  for (int step = stride; step < extent; step += stride) {
    const int before = at.stage;
    at.advance();
    begin(false);
    wgmma_wait<1>();
    release(s.empty[before]);
  }
  wgmma_wait<0>();
  fence_operand(d);
  release(s.empty[at.stage]);
  at.advance();
}

// d = 64 rows of x times a tile of w in `steps` stages. With Sum, the sum of squares of this thread's part of x.
template <bool Sum, typename T, int N, typename S, int Stages, typename F>
__device__ __forceinline__ float multiply_tile(Accumulator<N>& d, S& s, PipelineState<Stages>& at, int me, int steps,
                                               const F& overlapped_prologue) {
  float sum = 0.f;
  const auto product = [&](int stage, bool first) {
    const T* mine = s.x[stage].panel(0, 64 * me);
    multiply(d, mine, s.w[stage].panel(0), !first);
    wgmma_commit();
    if constexpr (Sum) sum += epilogue::squares(mine);
  };
  each_stage(d, s, at, steps, 1, product, overlapped_prologue);
  return sum;
}
