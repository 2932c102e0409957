// Promotion of fp8 accumulators, as in DeepSeek-V3 (2024). wgmma keeps fewer bits of an fp8 sum than float has. So
// every 128 values of k are summed in an accumulator of their own, scaled if blocks have scales, and added to a second
// accumulator in float.
#pragma once
#include "mainloops.cuh"

// The two warpgroups issue products alternately: while the products of one run, the other adds.
__device__ __forceinline__ void warp_scheduler_barrier_sync(int me) { named_barrier_sync(3 + me, 2 * kWarpgroup); }
__device__ __forceinline__ void warp_scheduler_barrier_arrive(int to) { named_barrier_arrive(3 + to, 2 * kWarpgroup); }

// As multiply_tile; Blocks: 128 values share a scale of s.scales. Warpgroup 1 lets 0 begin before its first tile.
template <bool Blocks, typename T, int N, typename S, int Stages>
__device__ __forceinline__ void multiply_tile_promoted(Accumulator<N>& d, S& s, PipelineState<Stages>& at, int me,
                                                       int steps) {
  zero(d);
  for (int step = 0; step < steps; step++, at.advance()) {
    wait(s.full[at.stage], at.parity);
#pragma unroll
    for (int part = 0; part < N / 128; part++) {
      Accumulator<128> sum;
      warp_scheduler_barrier_sync(me);
      wgmma_fence();
      multiply(sum, s.x[at.stage].panel(0, 64 * me), s.w[at.stage].panel(0, 128 * part), 0);
      wgmma_commit();
      warp_scheduler_barrier_arrive(1 - me);
      const float *scales = s.scales[at.stage], *mine = scales + 64 * me + own_row();
      const float of_w = Blocks ? scales[kRows + part] : 1.f;
      const float by[2] = {Blocks ? mine[0] * of_w : 1.f, Blocks ? mine[8] * of_w : 1.f};
      wgmma_wait<0>();
      fence_operand(sum);
      if (part == N / 128 - 1) release(s.empty[at.stage]);
#pragma unroll
      for (int i = 0; i < 64; i++) d.at[64 * part + i] += sum.at[i] * by[i / 2 % 2];
    }
  }
}

// One warp: stores the scales of a tile's `steps` beside its stages, x's 128 rows first, one for 128 columns.
template <int Columns, int Stages, typename S>
__device__ __forceinline__ void put_scales(S& s, const Params& p, int steps) {
  PipelineState<Stages> at;
  const int lane = threadIdx.x % 32, last_column = (p.columns - 1) / 128, last_block = (p.k - 1) / 128;
  for (Tiles tiles(p); tiles.advance();)
    for (int step = 0; step < steps; step++, at.advance()) {
      const int block = min(step, last_block), column = min(tiles.column * (Columns / 128) + lane, last_column);
      float of_x[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int row = tiles.row + 32 * i + lane;
        of_x[i] = row < p.rows ? __ldg(p.x_scales + (size_t)block * p.x_scale_stride + row) : 0.f;
      }
      const float of_w = __ldg(p.w_scales + (size_t)column * p.w_scale_stride + block);
      wait(s.empty[at.stage], at.parity ^ 1);
#pragma unroll
      for (int i = 0; i < 4; i++) s.scales[at.stage][32 * i + lane] = of_x[i];
      if (lane < Columns / 128) s.scales[at.stage][kRows + lane] = of_w;
      __syncwarp();
      if (lane == 0) arrive(s.full[at.stage]);
    }
}
