// y[m, n] = epilogue(x[m, k] · w[n, k]ᵀ) for 9 to 256 rows of x: the transposed product, so that 64 rows of w fill the
// warpgroup's M and COLS rows of x its N. A cluster is SPLITS blocks that divide k times SHARE neighbours along n.
//
//   one thread     starts the barriers and at once copies this block's rows of w, 64 columns a stage; then, all blocks
//                  being there and the previous kernel ended, its part of x into the stages of all SHARE neighbours
//   WGS warpgroups multiply 64 rows of w by x; leave the sums with the blocks that own them, add up what others left
//   3 warps        with RMSNorm: sums of squares of the rows of x, from the same stages
#include "small_epilogue.cuh"

#if SHARE * SPLITS > 1
#define SMALL_CLUSTER __cluster_dims__(SHARE * SPLITS, 1, 1)
#else
#define SMALL_CLUSTER
#endif

constexpr int kRows = WGS * 64, kOutputs = PAIRED ? kRows / 2 : kRows;  // paired: 8 rows of gate, 8 of up by turns
constexpr int kConsumers = WGS * 128, kThreads = kConsumers + (NORM ? 128 : 32), kPart = COLS / SHARE;
constexpr int kOwn = (COLS / 8 + SPLITS - 1) / SPLITS;  // of 8 rows of x, those whose sums a block owns

struct Stage {
  SharedTile<Value, kRows, 64> w;
  SharedTile<Value, COLS, 64> x;
};
struct Shared {
  Barrier full[STAGES], empty[STAGES], ready, joined;  // ready: no block reads its ring; joined: all sums are here
  float squares[SPLITS][COLS];
};
// What this block computes: kOutputs columns of y from `row`, COLS rows from `token`, panels [first, end) of k.
struct Work {
  int share, split, row, token, first, panels;
  __device__ __forceinline__ Work(const Params& p) {
    const int rank = blockIdx.x % (SHARE * SPLITS), cluster = blockIdx.x / (SHARE * SPLITS), all = (p.k + 63) / 64;
    share = rank % SHARE, split = rank / SHARE;
    row = (cluster / TOKEN_TILES * SHARE + share) * kOutputs, token = cluster % TOKEN_TILES * COLS;
    first = all * split / SPLITS, panels = all * (split + 1) / SPLITS - first;
  }
};

__device__ __forceinline__ void copy_w(Stage& to, const TensorMap& w, Barrier& full, const Work& work, int i) {
  expect(full, decltype(Stage::w)::kBytes + decltype(Stage::x)::kBytes);
  if (PAIRED) copy_in(to.w.at, w, full, (work.first + i) * 64, 0, 0, work.row / 8);
  else copy_in(to.w.at, w, full, (work.first + i) * 64, work.row);
}
__device__ __forceinline__ void copy_x(Stage& to, const TensorMap& x, Barrier& full, const Work& work, int i) {
  const int part = work.share * kPart, column = (work.first + i) * 64;
  if (SHARE == 1) copy_in(to.x.at, x, full, column, work.token, kEvictLast);
  else
    copy_in_all(to.x.panel(0, part), x, full, ((1 << SHARE) - 1) << work.split * SHARE, column, work.token + part,
                kEvictLast);
}
__device__ __forceinline__ void start(Shared& s, Stage* ring, const TensorMap& w, const Work& work) {
  for (int i = 0; i < STAGES; i++) init(s.full[i], 1), init(s.empty[i], SHARE * (WGS + (NORM ? 3 : 0)));
  init(s.ready, SPLITS * (WGS + (NORM ? 3 : 0))), init(s.joined, 1);
  fence_async_shared();
  for (int i = 0; i < min(STAGES, work.panels); i++) copy_w(ring[i], w, s.full[i], work, i);
  const int own = max(0, min(kOwn, COLS / 8 - work.split * kOwn));
  if (SPLITS > 1) expect(s.joined, SPLITS * own * (kConsumers * 16 + (NORM ? 32 : 0)));
  fence_init();
}
__device__ __forceinline__ void produce(Shared& s, Stage* ring, const TensorMap& w, const TensorMap& x, const Work& work) {
  Cursor<STAGES> at;
  for (int i = 0; i < work.panels; i++, at.advance()) {
    if (i >= STAGES) wait(s.empty[at.stage], at.parity ^ 1), copy_w(ring[at.stage], w, s.full[at.stage], work, i);
    copy_x(ring[at.stage], x, s.full[at.stage], work, i);
  }
}
// Lanes 0 to SPLITS - 1: the ring is read, and sums may take its place.
__device__ __forceinline__ void offer(Barrier& ready, const Work& work, int lane) {
  if (ALIAS && lane < SPLITS) arrive_at(ready, lane * SHARE + work.share);
}
// Lanes 0 to SHARE - 1: a stage is read, which all who write to it must know; nobody asks for those not filled again.
__device__ __forceinline__ void release(Barrier& empty, const Work& work, int i, int lane) {
  if (i + STAGES >= work.panels || lane >= SHARE) return;
  if (SHARE == 1) arrive(empty);
  else arrive_at(empty, work.split * SHARE + lane);
}

__device__ __forceinline__ void multiply_all(Accumulator<COLS>& d, Shared& s, Stage* ring, const Work& work) {
  const int group = warpgroup();
  Cursor<STAGES> at;
  int before = 0;
  pin(d);
  for (int i = 0; i < work.panels; i++, at.advance()) {
    wait(s.full[at.stage], at.parity);
    fence_products();
    multiply<Value, COLS>(d, ring[at.stage].w.panel(0, group * 64), ring[at.stage].x.panel(0), i);
    commit_products();
    wait_products<1>();
    if (i) release(s.empty[before], work, i - 1, threadIdx.x % kWarpgroup);
    before = at.stage;
  }
  wait_products<0>();
  pin(d);
}

// Three warps: sums of squares of the rows of x, from the stages that pass by, for the blocks that own the rows.
__device__ __forceinline__ void sum_squares(Shared& s, Stage* ring, const Work& work) {
  constexpr int kMine = (COLS + 95) / 96;
  float sum[kMine] = {};
  const int first = threadIdx.x - kConsumers - 32;
  Cursor<STAGES> at;
  for (int i = 0; i < work.panels; i++, at.advance()) {
    wait(s.full[at.stage], at.parity);
#pragma unroll
    for (int r = 0; r < kMine; r++)
#pragma unroll
      for (int c = 0; c < 8; c++) {
        if (r * 96 + first >= COLS) break;
        const uint4 v = *(const uint4*)((const char*)ring[at.stage].x.panel(0, r * 96 + first) + (c + first) % 8 * 16);
        const float2 a = unpack<Value>(v.x), b = unpack<Value>(v.y), e = unpack<Value>(v.z), f = unpack<Value>(v.w);
        sum[r] += a.x * a.x + a.y * a.y + (b.x * b.x + b.y * b.y) + (e.x * e.x + e.y * e.y) + (f.x * f.x + f.y * f.y);
      }
    __syncwarp();
    release(s.empty[at.stage], work, i, threadIdx.x % 32);
  }
  offer(s.ready, work, threadIdx.x % 32);
#pragma unroll
  for (int r = 0; r < kMine; r++) {
    const int row = r * 96 + first;
    if (row >= COLS) break;
    if (SPLITS == 1) s.squares[0][row] = sum[r];
    else put_at(&s.squares[work.split][row], row / 8 / kOwn * SHARE + work.share, sum[r], s.joined);
  }
}

// One warpgroup: its products, the sums to the blocks that own them, the outputs of those it owns.
__device__ __forceinline__ void consume(Shared& s, Stage* ring, float4* sums, const Params& p, const Work& work) {
  const int thread = threadIdx.x, n = work.row + thread / 32 * (PAIRED ? 8 : 16), own = n + thread % 32 / 4;
  float2 bias = {0.f, 0.f};
  if (p.bias && own < p.n) bias.x = (float)p.bias[own];
  if (p.bias && own + 8 < p.n && !PAIRED) bias.y = (float)p.bias[own + 8];
  uint2 residual[kOwn] = {};
#pragma unroll
  for (int i = 0; RESIDUAL && i < kOwn; i++) residual[i] = residual_of(p, work.token + (work.split * kOwn + i) * 8, n);
  Accumulator<COLS> d;
  multiply_all(d, s, ring, work);
  offer(s.ready, work, thread % kWarpgroup);
  if (ALIAS) wait(s.ready, 0);
#pragma unroll
  for (int i = 0; SPLITS > 1 && i < COLS / 8; i++)
    put_at(&sums[(work.split * kOwn + i % kOwn) * kConsumers + thread], i / kOwn * SHARE + work.share,
           make_float4(d.at[4 * i], d.at[4 * i + 1], d.at[4 * i + 2], d.at[4 * i + 3]), s.joined);
  if (SPLITS > 1) wait(s.joined, 0);
  else if (NORM) __syncthreads();
#pragma unroll
  for (int i = 0; i < kOwn; i++) {
    const int column = (work.split * kOwn + i) * 8;
    if (column >= COLS || work.token + column >= p.m) break;
    float4 v = make_float4(d.at[4 * i], d.at[4 * i + 1], d.at[4 * i + 2], d.at[4 * i + 3]);
#pragma unroll
    for (int split = 0; SPLITS > 1 && split < SPLITS; split++) {
      const float4 one = sums[(split * kOwn + i) * kConsumers + thread];
      v = split ? make_float4(v.x + one.x, v.y + one.y, v.z + one.z, v.w + one.w) : one;
    }
    finish(p, s.squares[0] + column, v, work.token + column, n, bias, residual[i]);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) SMALL_CLUSTER
    small_gemm(const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ Shared s;
  Stage* ring = (Stage*)memory;
  const Work work(p);
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == kConsumers) start(s, ring, w, work);
  __syncwarp();
  __syncthreads();
  if (SHARE * SPLITS > 1) cluster_meet();
  let_next_kernel_start();
  wait_previous_kernel();
  if (threadIdx.x < kConsumers) {
    consume(s, ring, (float4*)(ring + (ALIAS ? 0 : STAGES)), p, work);
    return;
  }
  if (NORM && warp > kConsumers / 32) sum_squares(s, ring, work);
  else if (threadIdx.x == kConsumers) produce(s, ring, w, x, work);
  __syncwarp();
  if (NORM && SPLITS == 1) __syncthreads();
}
