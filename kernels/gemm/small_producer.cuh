// The producer of small.cu: the ring of stages, this block's part of the product, and the copies of w and x.
#pragma once
#include "small_epilogue.cuh"

constexpr int kConsumers = WGS * 128, kThreads = kConsumers + (NORM ? 128 : 32);
constexpr int kSquaring = 3;  // warps that sum squares with RMSNorm

struct Stage {
  SharedTile<Value, kWRows, 64> w;
  SharedTile<Value, kXRows, 64> x;
};
static_assert(STAGES * sizeof(Stage) <= SHARED_BYTES, "SmallTileConfig.shared_bytes");
struct Shared {
  Barrier full[STAGES], empty[STAGES], ready, joined;  // ready: no block reads its ring; joined: all sums are here
  float squares[SPLITS + (NORM ? kSquaring - 1 : 0)][kXRows];  // by split; then the parts of all warps but the first
};
static_assert(SPLITS == 1 || !ACROSS, "only rows of x are shared by the blocks of a cluster");
static_assert(SPLITS == 1 || ALIAS || WGS * kOwn * 1024 <= STAGES * sizeof(Stage), "y has room where the ring was");
// The work of this block: kOutputs columns of y from `row`, kXRows rows from `token`, panels [first, first + panels) of
// k.
struct Work {
  int split, row, token, first, panels;
  __device__ __forceinline__ Work(const Params& p) {
    const int cluster = blockIdx.x / SPLITS, all = (p.k + 63) / 64;
    split = blockIdx.x % SPLITS;
    row = cluster / TOKEN_TILES * kOutputs;
    token = cluster % TOKEN_TILES * kXRows;
    first = all * split / SPLITS;
    panels = all * (split + 1) / SPLITS - first;
  }
};

__device__ __forceinline__ void copy_w(Stage& to, const TensorMap& w, Barrier& full, const Work& work, int i) {
  arrive_expect_tx(full, decltype(Stage::w)::kBytes + decltype(Stage::x)::kBytes);
  if (PAIRED)
    tma_load(to.w.at, w, full, (work.first + i) * 64, 0, 0, work.row / 8);
  else
    tma_load(to.w.at, w, full, (work.first + i) * 64, work.row);
}
__device__ __forceinline__ void copy_x(Stage& to, const TensorMap& x, Barrier& full, const Work& work, int i) {
  tma_load(to.x.at, x, full, (work.first + i) * 64, work.token, kEvictLast);
}
// The producer thread loads the first stages. If the previous kernel may still run, it loads w before x.
__device__ __forceinline__ void fill(Shared& s, Stage* ring, const TensorMap& w, const TensorMap& x, const Params& p,
                                     const Work& work) {
  const int count = min(STAGES, work.panels);
#pragma unroll 1
  for (int i = 0; i < STAGES; i++) {
    init(s.full[i], 1);
    init(s.empty[i], WGS + (NORM ? kSquaring : 0));
  }
  fence_proxy_async_shared();
#pragma unroll 1
  for (int i = 0; p.pdl && i < count; i++) copy_w(ring[i], w, s.full[i], work, i);
  griddepcontrol_wait();
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    if (!p.pdl) copy_w(ring[i], w, s.full[i], work, i);
    copy_x(ring[i], x, s.full[i], work, i);
  }
}
__device__ __forceinline__ void refill(Shared& s, Stage* ring, const TensorMap& w, const TensorMap& x,
                                       const Work& work) {
  PipelineState<STAGES> at;
#pragma unroll 1
  for (int i = STAGES; i < work.panels; i++, at.advance()) {
    wait(s.empty[at.stage], at.parity);
    copy_w(ring[at.stage], w, s.full[at.stage], work, i);
    copy_x(ring[at.stage], x, s.full[at.stage], work, i);
  }
}
