// y [m, n] = x [m, k] · w [n, k]ᵀ, scaled. As hopper.cu, but ping-pong: each of the two consumer warpgroups takes whole
// tiles of 128 × BN.
// While the products of one warpgroup run, the other scales its tile and stores it, PANELS of 64 columns at a time, so
// the tensor cores go from tile to tile. The ring holds the steps of all tiles one after the other, for both
// warpgroups.
//   barrier     arrivals a phase                          means
//   full[s]     1, the bytes                              stage s holds one step of K
//   empty[s]    4 consumer warps of each block            no warp of the cluster reads stage s any more
#include "promotion.cuh"
using namespace epilogue;

// SCALES of e4m3 operands: 0 none, 1 one for each tensor, 2 one for each row.
constexpr int kTileK = 128 / sizeof(TYPE), kConsumers = 2, kPanels = BN / 64, kStaged = PANELS;
static_assert(sizeof(OUT) == 2 && kPanels % kStaged == 0, "whole rounds of panels of 16-bit values");

struct Shared {
  SharedTile<TYPE, kRows, kTileK> x[STAGES];
  SharedTile<TYPE, BN, kTileK> w[STAGES];
  SharedTile<OUT, 64, kStaged * 64> y[kConsumers];
  float w_scales[kConsumers][SCALES == 2 ? BN : 1];
  Barrier full[STAGES], empty[STAGES];
};
static_assert(sizeof(Params) == PARAMS_BYTES, "hopper_call.PARAMS");
static_assert(BYTES_UP_TO(Shared, empty) <= SHARED_BYTES, "Tile.shared_bytes of hopper_tiles.py");

__device__ __forceinline__ void produce(Shared& s, const Params& p, const TensorMap& x, const TensorMap& w) {
  Tiles tiles(p);
  PipelineState<STAGES> at;
  const int half = tiles.rank * (BN / kBlocks);
  while (tiles.advance())
    for (int k = 0; k < p.k; k += kTileK, at.advance()) {
      wait(s.empty[at.stage], at.parity ^ 1);
      arrive_expect_tx(s.full[at.stage], s.x[0].kBytes + s.w[0].kBytes);
      tma_load(s.x[at.stage].at, x, s.full[at.stage], k, tiles.row);
      tma_load_multicast(s.w[at.stage].panel(0, half), w, s.full[at.stage], 3, k, tiles.column * BN + half);
    }
}

__device__ __forceinline__ void multiply_step(Accumulator<BN> (&d)[2], Shared& s, const PipelineState<STAGES>& at,
                                              int keep) {
  wait(s.full[at.stage], at.parity);
  wgmma_fence();
  multiply(d[0], s.x[at.stage].panel(0), s.w[at.stage].panel(0), keep);
  multiply(d[1], s.x[at.stage].panel(0, 64), s.w[at.stage].panel(0), keep);
  wgmma_commit();
}

// Computes one tile. The warpgroup waits until it may issue products. The other warpgroup may issue as soon as the last
// products of this tile have been issued.
__device__ __forceinline__ void multiply_whole(Accumulator<BN> (&d)[2], Shared& s, PipelineState<STAGES>& at, int me,
                                               int steps) {
  fence_operand(d[0]);
  fence_operand(d[1]);
  warp_scheduler_barrier_sync(me);
  multiply_step(d, s, at, 0);
  for (int step = 1; step < steps; step++) {
    const int before = at.stage;
    at.advance();
    multiply_step(d, s, at, 1);
    wgmma_wait<1>();
    release(s.empty[before]);
  }
  warp_scheduler_barrier_arrive(1 - me);
  wgmma_wait<0>();
  fence_operand(d[0]);
  fence_operand(d[1]);
  release(s.empty[at.stage]);
  at.advance();
}

__device__ __forceinline__ void consume(Shared& s, const Params& p, const TensorMap& y) {
  const int me = warpgroup(), steps = p.steps(kTileK);
  Tiles tiles(p);
  PipelineState<STAGES> at;
  Accumulator<BN> d[2];
  bool more = tiles.advance();
  if (me == 1) {
    warp_scheduler_barrier_arrive(0);
    more = tiles.advance();
    at.advance_by(steps);
  }
  while (more) {
    Rows by[2] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if (SCALES == 1) by[half] = one_scale(p.x_scales, p.w_scales);
      if (SCALES == 2) by[half] = scales_of(p.x_scales, tiles.row + 64 * half, p.rows);
    }
    if (SCALES == 2) fetch_columns(s.w_scales[me], p.w_scales, tiles.column * BN, p.columns);
    multiply_whole(d, s, at, me, steps);
    if (SCALES == 2) {
      cp_async_wait_all();
      named_barrier_sync(1 + me, kWarpgroup);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if (SCALES) scale_rows(d[half], by[half]);
#pragma unroll
      for (int i = 0; i < kPanels; i++)
        if (SCALES == 2) scale_columns(d[half], i, s.w_scales[me]);
#pragma unroll
      for (int first = 0; first < kPanels; first += kStaged)
        store_panels<kStaged>(s.y[me], y, 1 + me, tiles.column * BN + first * 64, tiles.row + 64 * half,
                              [&](OUT* panel, int i) { put_panel(panel, d[half], first + i); });
    }
    more = tiles.advance() && tiles.advance();
    at.advance_by(steps);
  }
}

extern "C" __global__ void __cluster_dims__(kBlocks) __launch_bounds__(kWarpgroup*(kConsumers + 1), 1)
    gemm(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap y,
         const __grid_constant__ TensorMap, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *(Shared*)raw;
  if (shared_address(raw) % 1024) __trap();
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      init(s.full[i], 1);
      init(s.empty[i], 4 * kBlocks);
    }
    fence_init();
  }
  cluster_sync();
  if (warpgroup() == kConsumers) {
    setmaxnreg_dec<24>();
    if (warp_of_warpgroup() == 0 && elect_one()) produce(s, p, x, w);
  } else {
    setmaxnreg_inc<240>();
    consume(s, p, y);
  }
  tma_store_wait();  // as in hopper.cu
  cluster_sync();
}
