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
// One group of products is always under way: a stage is released while the next one is multiplied.
template <bool Sum, typename T, int N, typename S, int Stages>
__device__ __forceinline__ float multiply_tile(Accumulator<N>& d, S& s, Cursor<Stages>& at, int me, int k_end) {
  float sum = 0.f;
  int before = -1;
  pin(d);
  for (int k = 0; k < k_end; k += 128 / sizeof(T), at.advance()) {
    const T* mine = s.x[at.stage].panel(0, 64 * me);
    wait(s.full[at.stage], at.parity);
    fence_products();
    multiply(d, mine, s.w[at.stage].panel(0), k);
    commit_products();
    if constexpr (Sum) sum += epilogue::squares(mine);
    wait_products<1>();
    if (before >= 0) release(s.empty[before]);
    before = at.stage;
  }
  wait_products<0>();
  pin(d);
  release(s.empty[before]);
  return sum;
}

// The same of e4m3, each 128 of k summed by itself, scaled (`Blocks`: rows of x, 128 columns of w) and added to d in
// float: the matrix units keep fewer bits. While one warpgroup adds, the other multiplies.
template <bool Blocks, typename T, int N, typename S, int Stages>
__device__ __forceinline__ void multiply_tile_in_two_levels(Accumulator<N>& d, S& s, Cursor<Stages>& at, int me,
                                                            const Params& p, int row, int column) {
  const int last = (p.columns - 1) / 128;
  zero(d);
  for (int block = 0; block * 128 < p.k; block++, at.advance()) {
    epilogue::Rows x_scale = {1.f, 1.f};
    if (Blocks) x_scale = epilogue::scales_of(p.x_scales + (size_t)block * p.x_scale_stride, row, p.rows);
#pragma unroll
    for (int part = 0; part < N / 128; part++) {
      const float* w_scales = p.w_scales + (size_t)min(column / 128 + part, last) * p.w_scale_stride;
      const float w_scale = Blocks ? __ldg(w_scales + block) : 1.f;
      Accumulator<128> sum;
      if (part == 0) wait(s.full[at.stage], at.parity);
      fence_products();
      multiply(sum, s.x[at.stage].panel(0, 64 * me), s.w[at.stage].panel(0, 128 * part), 0);
      commit_products();
      wait_products<0>();
      pin(sum);
      if (part == N / 128 - 1) release(s.empty[at.stage]);
      const float by[2] = {x_scale.first * w_scale, x_scale.second * w_scale};
#pragma unroll
      for (int i = 0; i < 64; i++) d.at[64 * part + i] += sum.at[i] * by[i / 2 % 2];
    }
  }
}
