// The producer of small.cu: the ring of stages, this block's part of the product, and the copies of w and x.
#pragma once
#include "small_epilogue.cuh"

constexpr int kConsumers = WGS * 128, kThreads = kConsumers + (NORM ? 128 : 32);
constexpr int kSquaring = 3;  // warps that sum squares with RMSNorm

#if INT8 || FP8
static_assert(!ACROSS && !HALF, "widened weights are the first operand of a product, in bf16");
// 64 rows of a panel in the order of kernels/gemm/small_pack.py: codes, of int8 128 for 0, then fp16 scales for each 32
// columns. In e4m3 the scales of 64 rows stand behind all of their panels.
constexpr int kCodesBytes = 64 * 64, kPackedBytes = kCodesBytes + (INT8 ? 64 * 2 * 2 : 0), kRowsBytes = FP8 ? 64 * 4 : 0;
struct Stage {
  SharedTile<Value, kXRows, 64> x;
  alignas(1024) char w[WGS * kPackedBytes];
};
constexpr u32 kWBytes = WGS * kPackedBytes;
using Weights = const char*;
#else
struct Stage {
  SharedTile<Value, kWRows, 64> w;
  SharedTile<Value, kXRows, 64> x;
};
constexpr u32 kWBytes = decltype(Stage::w)::kBytes;
using Weights = TensorMap;
#endif
static_assert(STAGES * sizeof(Stage) <= SHARED_BYTES, "SmallTileConfig.shared_bytes");
struct Shared {
  Barrier full[STAGES], empty[STAGES], ready, joined;  // ready: no block reads its ring; joined: all sums are here
  float squares[SPLITS + (NORM ? kSquaring - 1 : 0)][kXRows];  // by split; then the parts of all warps but the first
};
static_assert(SPLITS == 1 || !ACROSS, "only rows of x are shared by the blocks of a cluster");
static_assert(SPLITS == 1 || ALIAS || WGS * kOwn * 1024 <= STAGES * sizeof(Stage), "y has room where the ring was");
// This block's work: kOutputs columns of y from `row`, kXRows rows from `token`, k panels from `first` on.
struct Work {
  int split, row, token, first, panels, all, tiles;
  __device__ __forceinline__ Work(const Params& p) {
    const int cluster = blockIdx.x / SPLITS;
    all = (p.k + 63) / 64;
    tiles = (PAIRED ? (p.n + 7) / 8 * 16 + 63 : p.n + 63) / 64;
    split = blockIdx.x % SPLITS;
    row = cluster / TOKEN_TILES * kOutputs;
    token = cluster % TOKEN_TILES * kXRows;
    first = all * split / SPLITS;
    panels = all * (split + 1) / SPLITS - first;
  }
};

#if INT8 || FP8
// The tile of 64 rows of w that a warpgroup multiplies; beyond the rows of w, the last one once more.
__device__ __forceinline__ int tile_of(const Work& work, int group) {
  return min(work.row / (kOutputs / WGS) + group, work.tiles - 1);
}
#endif
#if FP8
// The scales of this thread's rows g and g + 8.
__device__ __forceinline__ float2 row_scales(const Weights& w, const Work& work) {
  const int row = threadIdx.x % kWarpgroup / 32 * 16 + threadIdx.x % 32 / 4;
  const long long tile = (tile_of(work, warpgroup()) + 1ll) * work.all * kPackedBytes;
  const float* scales = (const float*)(w + tile + (long long)tile_of(work, warpgroup()) * kRowsBytes);
  return make_float2(scales[row], scales[row + 8]);
}
#endif
__device__ __forceinline__ void copy_w(Stage& to, const Weights& w, Barrier& full, const Work& work, int i) {
  arrive_expect_tx(full, kWBytes + decltype(Stage::x)::kBytes);
#if INT8 || FP8
#pragma unroll
  for (int group = 0; group < WGS; group++) {
    const int tile = tile_of(work, group);
    const long long at = ((long long)tile * work.all + work.first + i) * kPackedBytes + (long long)tile * kRowsBytes;
    bulk_load(to.w + group * kPackedBytes, w + at, kPackedBytes, full, kEvictFirst);
  }
#else
  if (PAIRED)
    tma_load(to.w.at, w, full, (work.first + i) * 64, 0, 0, work.row / 8);
  else
    tma_load(to.w.at, w, full, (work.first + i) * 64, work.row);
#endif
}
__device__ __forceinline__ void copy_x(Stage& to, const TensorMap& x, Barrier& full, const Work& work, int i) {
  tma_load(to.x.at, x, full, (work.first + i) * 64, work.token, kEvictLast);
}
// The producer thread loads the first stages. If the previous kernel may still run, it loads w before x.
__device__ __forceinline__ void fill(Shared& s, Stage* ring, const Weights& w, const TensorMap& x, const Params& p,
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
__device__ __forceinline__ void refill(Shared& s, Stage* ring, const Weights& w, const TensorMap& x,
                                       const Work& work) {
  PipelineState<STAGES> at;
#pragma unroll 1
  for (int i = STAGES; i < work.panels; i++, at.advance()) {
    wait(s.empty[at.stage], at.parity);
    copy_w(ring[at.stage], w, s.full[at.stage], work, i);
    copy_x(ring[at.stage], x, s.full[at.stage], work, i);
  }
}
