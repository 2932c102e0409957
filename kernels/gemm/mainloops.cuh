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

// d = 64 rows of x times a tile of w; returns the sum of squares of this thread's part of x where it is wanted.
// One group of products is always under way: a stage is released while the next one is multiplied. `early` is called
// once, under the products of the third step.
template <bool Sum, typename T, int N, typename S, int Stages, typename F>
__device__ __forceinline__ float multiply_tile(Accumulator<N>& d, S& s, Cursor<Stages>& at, int me, int k_end,
                                               const F& early) {
  constexpr int kStep = 128 / sizeof(T);
  float sum = 0.f;
  int before = -1;
  pin(d);
  for (int k = 0; k < k_end; k += kStep, at.advance()) {
    const T* mine = s.x[at.stage].panel(0, 64 * me);
    wait(s.full[at.stage], at.parity);
    fence_products();
    multiply(d, mine, s.w[at.stage].panel(0), k);
    commit_products();
    if (k == 2 * kStep) early();
    if constexpr (Sum) sum += epilogue::squares(mine);
    wait_products<1>();
    if (before >= 0) release(s.empty[before]);
    before = at.stage;
  }
  wait_products<0>();
  pin(d);
  release(s.empty[before]);
  if (k_end <= 2 * kStep) early();
  return sum;
}

// The scales of one 128 of k: of this thread's two rows of x, and of the tile's one or two 128 columns of w.
template <int Parts>
struct BlockScales {
  epilogue::Rows x;
  float w[Parts];
  __device__ __forceinline__ void fetch(const Params& p, int block, int row, int column) {
    const int last = (p.columns - 1) / 128;
    x = epilogue::scales_of(p.x_scales + (size_t)block * p.x_scale_stride, row, p.rows);
#pragma unroll
    for (int i = 0; i < Parts; i++)
      w[i] = __ldg(p.w_scales + (size_t)min(column / 128 + i, last) * p.w_scale_stride + block);
  }
};

// The same of e4m3, each 128 of k summed by itself, scaled (`Blocks`) and added to d in float: the matrix units keep
// fewer bits. While one warpgroup adds, the other multiplies. Scales are fetched one step ahead.
template <bool Blocks, typename T, int N, typename S, int Stages, typename F>
__device__ __forceinline__ void multiply_tile_in_two_levels(Accumulator<N>& d, S& s, Cursor<Stages>& at, int me,
                                                            const Params& p, int row, int column, const F& early) {
  BlockScales<N / 128> scales, next;
  if (Blocks) next.fetch(p, 0, row, column);
  zero(d);
  for (int k = 0; k < p.k; k += 128, at.advance()) {
    scales = next;
    if (Blocks && k + 128 < p.k) next.fetch(p, k / 128 + 1, row, column);
    wait(s.full[at.stage], at.parity);
#pragma unroll
    for (int part = 0; part < N / 128; part++) {
      Accumulator<128> sum;
      fence_products();
      multiply(sum, s.x[at.stage].panel(0, 64 * me), s.w[at.stage].panel(0, 128 * part), 0);
      commit_products();
      if (part == 0 && k == 2 * 128) early();
      wait_products<0>();
      pin(sum);
      if (part == N / 128 - 1) release(s.empty[at.stage]);
      const float by[2] = {Blocks ? scales.x.first * scales.w[part] : 1.f, Blocks ? scales.x.second * scales.w[part] : 1.f};
#pragma unroll
      for (int i = 0; i < 64; i++) d.at[64 * part + i] += sum.at[i] * by[i / 2 % 2];
    }
  }
  if (p.k <= 2 * 128) early();
}
