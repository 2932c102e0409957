// y[m, n] = epilogue(x[m, k] · w[n, k]ᵀ) for 9 to 256 rows of x. The product is transposed: 64 rows of w are M of a
// warpgroup's wgmma, and COLS rows of x its N. With ACROSS, 64 rows of x are M and COLS rows of w are N, as many as
// fill a wave of blocks. A cluster is SPLITS blocks that divide k. With INT8 or FP8 the rows of w are widened in
// registers; in FP8 their scales multiply the sums.
//
//   producer thread  starts the ring's barriers and at once loads this block's rows of w and x, 64 columns a stage (x
//                    after the previous kernel has ended); then refills stages that have been read
//   WGS warpgroups   multiply 64 rows of w by x, send the sums to the blocks that own them, and add what they receive
//   3 warps          with RMSNorm: sums of squares of the rows of x, from the same stages, a third of the columns each
#include "small_across.cuh"
#include "small_widened.cuh"

#if SPLITS > 1
#define SMALL_CLUSTER __cluster_dims__(SPLITS, 1, 1)
#else
#define SMALL_CLUSTER
#endif

// Another thread initialises the cluster's shared barriers, which blocks use after it has synchronised.
__device__ __forceinline__ void start_joining(Shared& s, const Work& work) {
  const int own = max(0, min(kOwn, COLS / 8 - work.split * kOwn));
  init(s.ready, SPLITS * (WGS + (NORM ? kSquaring : 0)));
  init(s.joined, 1);
  arrive_expect_tx(s.joined, own * ((SPLITS - 1) * kConsumers * 16 + (NORM ? SPLITS * 32 : 0)));
  fence_init();
}
// Lanes 0 to SPLITS - 1 tell all blocks that this block has read its ring: sums may be stored in its place.
__device__ __forceinline__ void offer(Barrier& ready, int lane) {
  if (ALIAS && lane < SPLITS) arrive_remote(ready, lane);
}
// Lane 0 reports that its warp has read a stage. Stages that are not filled again need no arrival.
__device__ __forceinline__ void release(Barrier& empty, const Work& work, int i, int lane) {
  if (i + STAGES < work.panels && lane == 0) arrive(empty);
}

#if INT8 || FP8
// The weights of the next panel are widened while the products of this one run. Two sets of registers take turns.
__device__ __forceinline__ void multiply_all(Accumulator<COLS>& d, Shared& s, Stage* ring, const Work& work) {
  const int tile = warpgroup() * kPackedBytes;
  const u32 nowhere = shared_address(ring);
  PipelineState<STAGES> at;
  Widened even, odd;
  wait(s.full[0], 0);
  even.load(ring[0].w + tile);
  fence_operand(d);
  const auto panel = [&](Widened& now, Widened& next, int i) {
    const int stage = at.stage;
    const u64 x = k_major(ring[stage].x.panel(0));
    now.fence();
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) Product<Value, COLS>::run(d, now.at[k], x + k * kNextK, i + k);
    wgmma_commit();
    at.advance();
    if (i + 1 < work.panels) {
      wait(s.full[at.stage], at.parity);
      next.load(ring[at.stage].w + tile);
      next.fence();
    }
    wgmma_wait<0>();
    now.keep(nowhere, work.panels);
    release(s.empty[stage], work, i, threadIdx.x % kWarpgroup);
  };
#pragma unroll 1
  for (int i = 0; i < work.panels; i += 2) {
    panel(even, odd, i);
    if (i + 1 < work.panels) panel(odd, even, i + 1);
  }
  fence_operand(d);
}
#else
__device__ __forceinline__ void multiply_all(Accumulator<COLS>& d, Shared& s, Stage* ring, const Work& work) {
  const int group = warpgroup();
  PipelineState<STAGES> at;
  int before = 0;
  fence_operand(d);
  for (int i = 0; i < work.panels; i++, at.advance()) {
    wait(s.full[at.stage], at.parity);
    wgmma_fence();
    Stage& now = ring[at.stage];
    if (ACROSS)
      multiply<Value, COLS>(d, now.x.panel(0, group * 64), now.w.panel(0), i);
    else
      multiply<Value, COLS>(d, now.w.panel(0, group * 64), now.x.panel(0), i);
    wgmma_commit();
    wgmma_wait<1>();
    if (i) release(s.empty[before], work, i - 1, threadIdx.x % kWarpgroup);
    before = at.stage;
  }
  wgmma_wait<0>();
  fence_operand(d);
}
#endif

// The sum of squares of 8 values.
__device__ __forceinline__ float squares(const uint4& v) {
  const float2 a = unpack<Value>(v.x), b = unpack<Value>(v.y), e = unpack<Value>(v.z), f = unpack<Value>(v.w);
  return a.x * a.x + a.y * a.y + (b.x * b.x + b.y * b.y) + (e.x * e.x + e.y * e.y) + (f.x * f.x + f.y * f.y);
}
// Three warps compute sums of squares of the rows of x from the stages of the ring, each of some of the 8 columns of 16
// bytes. The first warp adds the parts and sends the sums to the blocks that own the rows. If k is not split, it
// computes the rows' scales.
__device__ __forceinline__ void sum_squares(Shared& s, Stage* ring, const Params& p, const Work& work) {
  constexpr int kMine = (kXRows + 31) / 32, kEach = (8 + kSquaring - 1) / kSquaring;  // rows, and parts of one row
  const int warp = (threadIdx.x - kConsumers) / 32 - 1, lane = threadIdx.x % 32, rows = min(kXRows, p.m - work.token);
  const char* first = (const char*)ring->x.panel(0, lane);  // of a row of 128 bytes
  float sum[kMine] = {};
  PipelineState<STAGES> at;
  for (int i = 0; i < work.panels; i++, at.advance()) {
    wait(s.full[at.stage], at.parity);
#pragma unroll
    for (int r = 0; r < kMine; r++) {
      if (r * 32 + lane >= kXRows || r * 32 >= rows) continue;
      const char* row = first + at.stage * sizeof(Stage) + r * 32 * 128;
      uint4 part[kEach] = {};
#pragma unroll
      for (int c = 0; c < kEach; c++)  // no two lanes read the same bank
        if (c * kSquaring + warp < 8) part[c] = *(const uint4*)(row + (c * kSquaring + warp + lane) % 8 * 16);
#pragma unroll
      for (int c = 0; c < kEach; c++) sum[r] += squares(part[c]);
    }
    __syncwarp();
    release(s.empty[at.stage], work, i, lane);
  }
  __syncwarp();
  if (SPLITS > 1) cluster_wait();
  offer(s.ready, lane);
#pragma unroll
  for (int r = 0; r < kMine; r++)
    if (warp && r * 32 + lane < kXRows) s.squares[SPLITS + warp - 1][r * 32 + lane] = sum[r];
  named_barrier_sync(2 + WGS, kSquaring * 32);
#pragma unroll
  for (int r = 0; r < kMine; r++) {
    const int row = r * 32 + lane;
    if (warp || row >= kXRows) continue;
    for (int part = 0; part < kSquaring - 1; part++) sum[r] += s.squares[SPLITS + part][row];
    if (SPLITS == 1)
      s.squares[0][row] = rsqrtf(sum[r] * p.inverse_k + p.eps);
    else
      st_async(&s.squares[work.split][row], row / 8 / kOwn, sum[r], s.joined);
  }
}

// Sends the sums of 8 rows of x at a time to the blocks that own them, in each round to another block. Rows that this
// block owns stay: the thread that wrote them reads them.
__device__ __forceinline__ void push(const Accumulator<COLS>& d, float4* to, Barrier& joined, const Work& work) {
#pragma unroll 1
  for (int round = 1; round <= SPLITS; round++) {
    const int owner = (work.split + round) % SPLITS;
#pragma unroll
    for (int i = 0; i < COLS / 8; i++) {
      if (i / kOwn != owner) continue;
      const float4 v = make_float4(d.at[4 * i], d.at[4 * i + 1], d.at[4 * i + 2], d.at[4 * i + 3]);
      if (round == SPLITS)
        to[i % kOwn * kConsumers] = v;
      else
        st_async(to + i % kOwn * kConsumers, owner, v, joined);
    }
  }
}

// One consumer warpgroup: its products, then its sums to the blocks that own them, then the outputs that it owns.
__device__ __forceinline__ void consume(Shared& s, Stage* ring, float4* sums, const Weights& w, const Params& p,
                                        const Work& work) {
  const int thread = threadIdx.x, first = work.split * kOwn * 8;  // of the rows of x in this tile
  const Output out(p, work.token + first, min(kOwn * 8, COLS - first), work.row + warpgroup() * (kOutputs / WGS));
  const float2 bias = out.bias();
  uint4 residual[kPieces];
  if (RESIDUAL) out.fetch_residual(residual);
  Accumulator<COLS> d;
#if FP8
  const float2 by = row_scales(w, work);
#endif
  multiply_all(d, s, ring, work);
#if FP8
#pragma unroll
  for (int i = 0; i < COLS / 2; i++) d.at[i] *= i % 4 < 2 ? by.x : by.y;
#endif
  if (SPLITS > 1) {
    cluster_wait();
    offer(s.ready, thread % kWarpgroup);
    if (ALIAS) wait(s.ready, 0);
    push(d, sums + work.split * kOwn * kConsumers + thread, s.joined, work);
    wait(s.joined, 0);
    __syncwarp();
    if (first >= COLS) return;  // this block owns no rows, and its ring may still be read: by the squaring warps
  }
  if (NORM && SPLITS == 1)
    __syncthreads();
  else if (!ALIAS)
    named_barrier_sync(1, kConsumers);  // no warp reads the ring any more: y is staged in its place
  char* staging = (char*)(ALIAS ? sums + SPLITS * kOwn * kConsumers : (float4*)ring) + warpgroup() * kOwn * 1024;
  if (RESIDUAL) out.put_residual(staging, residual);
#pragma unroll
  for (int i = 0; i < kOwn; i++) {
    float4 v = make_float4(d.at[4 * i], d.at[4 * i + 1], d.at[4 * i + 2], d.at[4 * i + 3]);
#pragma unroll
    for (int split = 0; SPLITS > 1 && split < SPLITS; split++) {
      const float4 one = sums[(split * kOwn + i) * kConsumers + thread];
      v = split ? make_float4(v.x + one.x, v.y + one.y, v.z + one.z, v.w + one.w) : one;
    }
    out.finish(staging, s.squares[0] + min(first + i * 8, COLS - 8), v, i, bias);
  }
  out.write(staging);
}

// The same with rows of w across; k is not split.
__device__ __forceinline__ void consume_across(Shared& s, Stage* ring, const Params& p, const Work& work) {
  const Across out(p, work.token + warpgroup() * 64, work.row);
  uint4 residual[Across::kPieces];
  if (RESIDUAL) out.fetch_residual(residual);
  Accumulator<COLS> d;
  multiply_all(d, s, ring, work);
  if (NORM)
    __syncthreads();
  else
    named_barrier_sync(1, kConsumers);  // no warp reads the ring any more: y is staged in its place
  char* staging = (char*)ring + warpgroup() * (64 * Across::kPitch);
  if (RESIDUAL) out.put_residual(staging, residual);
  out.finish(staging, s.squares[0] + warpgroup() * 64, d);
  out.write(staging);
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) SMALL_CLUSTER
    small_gemm(const __grid_constant__ Weights w, const __grid_constant__ TensorMap x,
               const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ Shared s;
  Stage* ring = (Stage*)memory;
  const Work work(p);
  griddepcontrol_launch_dependents();
  if (threadIdx.x == kConsumers) fill(s, ring, w, x, p, work);
  if (SPLITS > 1 && threadIdx.x == 0) start_joining(s, work);
  __syncwarp();
  __syncthreads();
  if (SPLITS > 1) cluster_arrive_relaxed();
  griddepcontrol_wait();
  if (warpgroup() < WGS) {
    if constexpr (ACROSS)
      consume_across(s, ring, p, work);
    else
      consume(s, ring, (float4*)(ring + (ALIAS ? 0 : STAGES)), w, p, work);
    return;
  }
  if (NORM && threadIdx.x >= kConsumers + 32)
    sum_squares(s, ring, p, work);
  else if (threadIdx.x == kConsumers)
    refill(s, ring, w, x, work);
  __syncwarp();
  if (SPLITS > 1 && threadIdx.x < kConsumers + 32) cluster_wait();
  if (NORM && SPLITS == 1) __syncthreads();
}
