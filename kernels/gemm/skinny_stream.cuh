// The skinny product's parameters, shared memory, and the warps that load x, weights, scales, bias and residual.
#pragma once
#include "skinny_halves.cuh"

#if SPLITS > 1
#define SKINNY_CLUSTER __cluster_dims__(SPLITS, 1, 1)
#else
#define SKINNY_CLUSTER
#endif

namespace skinny {

using Weight = Step<kWeights>;
constexpr int kThreads = WARPS * 32, kBlock = kThreads + 64;
constexpr int kUnitTiles = WARPS / K_WARPS * ROW_TILES;
constexpr int kTileRows = PAIRED ? 8 : 16;  // outputs of a tile: paired, row r and row r + 8 are gate and up
constexpr int kUnitOutputs = kUnitTiles * kTileRows;
constexpr int kStepBytes = WARPS * ROW_TILES * Weight::kBytes;
constexpr int kChunkBytes = CHUNK * kStepBytes;
constexpr int kMostStages = 16;
// Chunks in flight while the ring fills: with more than 48 KB the previous kernel's loads would queue.
constexpr int kInFlight = kChunkBytes < 16384 ? 49152 / kChunkBytes : 3;
constexpr bool kRowScales = kWeights == kFp8 || kWeights == kNvfp4;
constexpr bool kDirect = DIRECT;  // x is loaded through registers; otherwise by bulk copies

struct Params {
  const char* stream;       // [units, SPLITS, steps, kStepBytes]
  const Value* x;           // [m, k]
  const float* row_scales;  // [units · kUnitTiles · 16], or null
  const Value* bias;        // [n], or null
  const Value* residual;    // [m, n], or null
  void* y;                  // [m, n]
  int* counters;            // with DYNAMIC_SCHEDULER: dynamic units taken so far, and blocks that have ended
  int m, n, k, units, steps, x_bytes, stages, kept_units, most_units, pdl, l2_prefetch, late_trigger, static_units;
  float eps;
};
static_assert(sizeof(Params) == PARAMS_BYTES, "skinny_call.PARAMS");

constexpr int kNoMore = -1;
constexpr int kColumn = 20;  // floats of a column of 16 partial sums, padded so that no two lanes meet in a bank
struct alignas(16) Shared {
  Barrier full[kMostStages], empty[kMostStages], fetched,
      others;                // fetched: x, unless kDirect; others: row scales, bias and residual
  int unit_of[kMostStages];  // with DYNAMIC_SCHEDULER: the unit that begins with the chunk, or kNoMore
  uint4 zeros;
  float squares[16][WARPS];
  u32 largest[16];
  float unscale[16], norm[16], squares_sum[16];
  float partial[2][WARPS * ROW_TILES * N_TILES][8 * kColumn];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "TileConfig.struct_bytes of skinny_tiles.py");

// Dynamic shared memory: Shared | kept sums [kept_units][m][kUnitTiles][16] | row scales and bias [most_units][rows] |
// residual [m][most_units][outputs] | x rows of x_bytes | ring of chunks.
struct SharedLayout {
  Shared* shared;
  float *kept, *scales, *bias;
  Value* residual;
  char *x, *ring;
  __device__ __forceinline__ SharedLayout(char* memory, const Params& p) {
    u32 at = (sizeof(Shared) + 127) / 128 * 128;
    shared = (Shared*)memory;
    kept = (float*)(memory + at);
    at += p.kept_units * p.m * kUnitTiles * 64;
    scales = (float*)(memory + at);
    if (kRowScales) at += p.most_units * kUnitTiles * 64;
    bias = (float*)(memory + at);
    if (p.bias) at += p.most_units * kUnitOutputs * 4;
    residual = (Value*)(memory + at);
    if (p.residual) at += p.m * p.most_units * kUnitOutputs * 2;
    at = (at + 127) / 128 * 128;
    x = memory + at;
    ring = x + (p.x_bytes * p.m + 127) / 128 * 128;
  }
};

// The static units of this block, and its rank among the blocks that divide k.
struct Share {
  int first, end, rank, columns, valid;  // columns: of x, padded; valid: those that x has
  __device__ __forceinline__ Share(const Params& p) {
    const int groups = gridDim.x / SPLITS, group = blockIdx.x / SPLITS;
    rank = SPLITS > 1 ? blockIdx.x % SPLITS : 0;
    first = (long long)p.static_units * group / groups;
    end = (long long)p.static_units * (group + 1) / groups;
    columns = p.steps * K_WARPS * Weight::kK;
    valid = max(0, min(columns, p.k - rank * columns));
  }
};

// One thread loads this rank's columns of x.
__device__ __forceinline__ void fetch_x(const Params& p, const SharedLayout& at, const Share& share) {
  const int begin = share.rank * share.columns;
  griddepcontrol_wait();
  arrive_expect_tx(at.shared->fetched, p.m * share.valid * 2);
  if (share.valid == 0) return;
#pragma unroll 1
  for (int m = 0; m < p.m; m++)
    bulk_load(at.x + m * p.x_bytes, p.x + (long long)m * p.k + begin, share.valid * 2, at.shared->fetched, kEvictLast);
}
template <class To, class From>
__device__ __forceinline__ void fetch_row(To* to, const From* from, int count) {
  constexpr int kBatch = 4;
#pragma unroll 1
  for (int base = threadIdx.x % 32; base < count; base += 32 * kBatch) {
    From v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; i++)
      if (base + i * 32 < count) v[i] = from[base + i * 32];
#pragma unroll
    for (int i = 0; i < kBatch; i++)
      if (base + i * 32 < count) to[base + i * 32] = (To)v[i];
  }
}
// One warp writes zeros beyond x's columns, then loads row scales and bias, which no kernel writes, and residual.
__device__ __forceinline__ void fetch_others(const Params& p, const SharedLayout& at, const Share& share) {
  const int units = share.end - share.first, packed = share.first * kUnitTiles * 16, first = share.first * kUnitOutputs;
  const int outputs = min(units * kUnitOutputs, p.n - first);
  if (!kDirect) {
#pragma unroll 1
    for (int i = share.valid + threadIdx.x % 32 * 8; i < share.columns; i += 256)
#pragma unroll 1
      for (int m = 0; m < p.m; m++) *(uint4*)(at.x + m * p.x_bytes + i * 2) = make_uint4(0, 0, 0, 0);
    arrive(at.shared->fetched);
  }
  if (kRowScales) fetch_row(at.scales, p.row_scales + packed, units * kUnitTiles * 16);
  if (p.bias) fetch_row(at.bias, p.bias + first, outputs);
  griddepcontrol_wait();
  if (p.residual)
#pragma unroll 1
    for (int m = 0; m < p.m; m++)
      fetch_row(at.residual + m * p.most_units * kUnitOutputs, p.residual + (long long)m * p.n + first, outputs);
  arrive(at.shared->others);
}

// The producer thread loads the block's weights, chunk after chunk: first its static units, then units from the dynamic
// scheduler. Some SMs get up to a fifth more of the memory's bandwidth than others.
struct Producer {
  const char* from;
  long long skip;
  int unit, left, each, of_unit = 0, next_dynamic = 0;
  PipelineState<> ring;
  __device__ __forceinline__ Producer(const Params& p, const Share& share) {
    const long long unit_bytes = (long long)p.steps * kStepBytes;
    from = p.stream + ((long long)share.first * SPLITS + share.rank) * unit_bytes;
    skip = (SPLITS - 1) * unit_bytes;
    unit = share.first;
    each = p.steps / CHUNK;
    left = (share.end - share.first) * each;
  }
  __device__ __forceinline__ void send(const Params& p, const SharedLayout& at) {
    Barrier& full = at.shared->full[ring.stage];
    if (DYNAMIC_SCHEDULER) at.shared->unit_of[ring.stage] = unit;
    arrive_expect_tx(full, kChunkBytes);
    bulk_load(at.ring + ring.stage * kChunkBytes, from, kChunkBytes, full, kEvictFirst);
    from += kChunkBytes;
    if (++of_unit == each) {
      of_unit = 0;
      unit++;
      from += skip;
    }
    ring.advance(p.stages);
    left--;
  }
  // Takes the next unit that no block has taken. It requests the unit after that at once, so that its number arrives in
  // time. Nothing is left if no such unit exists.
  __device__ __forceinline__ void take_dynamic_unit(const Params& p) {
    unit = p.static_units + next_dynamic;
    if (unit >= p.units) return;
    next_dynamic = atomicAdd(p.counters, 1);
    from = p.stream + (long long)unit * each * kChunkBytes;
    left = each;
  }
  // The last block to end resets the counters for the next launch.
  __device__ __forceinline__ void reset_counters(const Params& p) const {
    if (atomicAdd(p.counters + 1, 1) == (int)gridDim.x - 1) p.counters[0] = p.counters[1] = 0;
  }
  // Prefetches the weights beyond the ring into the L2 cache, while the previous kernel leaves the memory idle.
  __device__ __forceinline__ void prefetch_beyond_ring(const Params& p) const {
    const char* at = from;
    int of = of_unit;
#pragma unroll 1
    for (int i = min(p.l2_prefetch, left); i; i--) {
      bulk_prefetch_l2(at, kChunkBytes);
      at += kChunkBytes;
      if (++of == each) {
        of = 0;
        at += skip;
      }
    }
  }
  // Initialises the barriers; x is requested first, in order, unless the previous kernel may still write it.
  __device__ __forceinline__ void start(const Params& p, const SharedLayout& at, const Share& share) {
    Shared& s = *at.shared;
#pragma unroll 1
    for (int i = 0; i < p.stages; i++) {
      init(s.full[i], 1);
      init(s.empty[i], WARPS);
    }
    init(s.fetched, 33);
    init(s.others, 32);
    fence_init();
    if (!kDirect && !p.pdl) fetch_x(p, at, share);
  }
  // Fills the ring, while the previous kernel may still run.
  __device__ __forceinline__ void fill(const Params& p, const SharedLayout& at) {
    const int first = min(p.stages, left);
#pragma unroll 1
    for (int i = 0; i < first; i++) {
      if (i >= kInFlight) wait(at.shared->full[i - kInFlight], 0);
      send(p, at);
    }
    if (p.l2_prefetch) prefetch_beyond_ring(p);
  }
  __device__ __forceinline__ void stream(const Params& p, const SharedLayout& at) {
    Shared& s = *at.shared;
    fill(p, at);
    if (DYNAMIC_SCHEDULER) {
      griddepcontrol_wait();
      next_dynamic = atomicAdd(p.counters, 1);
    }
#pragma unroll 1
    while (true) {
      if (DYNAMIC_SCHEDULER && !left) take_dynamic_unit(p);
      if (!left) break;
      wait(s.empty[ring.stage], ring.parity ^ 1);
      send(p, at);
    }
    if (p.late_trigger) griddepcontrol_launch_dependents();
    if (!DYNAMIC_SCHEDULER) return;
    wait(s.empty[ring.stage], ring.parity ^ 1);
    s.unit_of[ring.stage] = kNoMore;
    arrive(s.full[ring.stage]);
    reset_counters(p);
  }
};

}  // namespace skinny
