// y[m, rows] = x[m, k] · w[rows, k]ᵀ for up to 16 rows of x: weights streamed once, at the speed of the memory.
//
//   consumers, WARPS   chunk by chunk: dequantise weights from the ring, multiply 16 × 16 tiles by x with mma.sync.
//                      K_WARPS of them share a row tile; they add their sums in a fixed order at the end of a unit.
//   one producer       bulk copies of this block's weights into the ring. With a dependent launch the ring is full
//                      before the previous kernel has ended; x is loaded after that.
//   one fetcher warp   row scales, bias and residual
//   SPLITS blocks      of a cluster share rows and divide k; their sums are added through distributed shared memory,
//                      in a fixed order
#pragma once
#include "skinny_inputs.cuh"

namespace skinny {

// Keeps the value in a register: the compiler would otherwise compute it again at each use.
__device__ __forceinline__ void keep(int& value) { asm("" : "+r"(value)); }

// The sum of one output over the warps that share its row tile.
__device__ __forceinline__ float summed(const Params& p, const Shared& s, int buffer, int tile, int m, int row) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < K_WARPS; w++)
    sum += s.partial[buffer][((tile / ROW_TILES * K_WARPS + w) * ROW_TILES + tile % ROW_TILES) * N_TILES + m / 8]
                    [m % 8 * kColumn + row];
  return kScaled && !OWN_X ? sum * s.unscale[m] : sum;
}

// Scales of the weight rows of one output. Those of a static unit come from shared memory; those of a dynamic unit from
// device memory, requested before the unit's weights have arrived (such a unit has one output a thread). PAIRED:
// `value` is of a gate's row and `above` of its up row, 8 rows further in the tile.
struct Scales {
  float value = 1, above = 1;
  __device__ __forceinline__ void fetch(const Params& p, int unit) {
    constexpr int kRows = kTileRows;
    const float* from = p.row_scales + (unit * kUnitTiles + threadIdx.x / kRows) * 16 + threadIdx.x % kRows;
    if (threadIdx.x >= kUnitOutputs) return;
    value = from[0];
    if (PAIRED) above = from[8];
  }
  __device__ __forceinline__ void look_up(const SharedLayout& at, int tile, int row) {
    value = at.scales[tile * 16 + row];
    if (PAIRED) above = at.scales[tile * 16 + row + 8];
  }
};

// The place of an output: `unit` counts all units and `local` those of the block; `tile` is the row tile in the unit,
// `row` the row in the tile, `m` the row of x.
struct Output {
  int unit, local, tile, row, m;
  __device__ __forceinline__ int in_block() const { return (local * kUnitTiles + tile) * kTileRows + row; }
  __device__ __forceinline__ int n() const { return (unit * kUnitTiles + tile) * kTileRows + row; }
};

// Calls finish(output, value, above), see Scales, for every output of a unit, the n-th of the block. Neighbouring rows
// are in neighbouring threads. With KEEP the sums stay in shared memory instead, for split-K products and for kernels
// that read them again.
template <class Finish>
__device__ __forceinline__ void finish_unit(const Params& p, const SharedLayout& at, int unit, int n, bool is_static,
                                            Scales scales, Finish finish) {
  constexpr int kRows = KEEP ? 16 : kTileRows;
  const int buffer = n & 1;
#pragma unroll 1
  for (int i = threadIdx.x; i < kUnitTiles * kRows * p.m; i += kThreads) {
    const int row = i % kRows, tile = i / kRows % kUnitTiles, m = i / (kRows * kUnitTiles);
    const float value = summed(p, *at.shared, buffer, tile, m, row);
    const float above = PAIRED && !KEEP ? summed(p, *at.shared, buffer, tile, m, row + 8) : 0.f;
    if (KEEP) {
      at.kept[((n * p.m + m) * kUnitTiles + tile) * 16 + row] = value;
      continue;
    }
    if (kRowScales && is_static) scales.look_up(at, n * kUnitTiles + tile, row);
    finish(Output{unit, n, tile, row, m}, value * scales.value, above * scales.above);
  }
}

constexpr int kTogether = kScaleSums ? 2 : 1;  // steps
// Steps that are unrolled: registers do not hold more with zeros and more than 8 rows of x.
constexpr int kUnrolled = (kWeights == kInt4Zero || kWeights == kInt4Minimum) && N_TILES > 1 ? 2 : CHUNK;

template <class Finish>
__device__ __forceinline__ void consume(const Params& p, const SharedLayout& at, const Share& share, Finish finish) {
  Shared& s = *at.shared;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int x[kInputs], stride[kInputs];  // bytes from at.x on, and from step to step
#pragma unroll
  for (int i = 0; i < kInputs; i++) {
    stride[i] = K_WARPS * Weight::kK * 2;
    x[i] = warp % K_WARPS * Weight::kK * 2 + t * 16;
    x[i] += kScaleSums ? i * 64 + g / 4 * stride[i] : min(8 * i + g, p.m - 1) * p.x_bytes;
    if (kScaleSums && !ScaledSums::has_input(i)) {
      x[i] = (const char*)&s.zeros - at.x;
      stride[i] = 0;
    }
    keep(x[i]);
    if (kScaleSums) keep(stride[i]);
  }
  PipelineState<> ring;
  __syncthreads();
  if (!kDirect && p.pdl && threadIdx.x == 0) fetch_x(p, at, share);
  if (!kDirect) wait(s.fetched, 0);
  griddepcontrol_wait();
  float unscale = 1;
  if (OWN_X)
    unscale = prepare_own(p, at, share);
  else
    prepare(p, at, share);
#pragma unroll 1
  for (int n = 0; DYNAMIC_SCHEDULER || n < share.end - share.first; n++) {
    const bool is_static = !DYNAMIC_SCHEDULER || n < share.end - share.first;
    int unit = share.first + n;
    Scales scales;
    if (!is_static) {
      wait(s.full[ring.stage], ring.parity);
      unit = s.unit_of[ring.stage];
      if (unit == kNoMore) break;
      if (kRowScales) scales.fetch(p, unit);
    }
    Sums sums[ROW_TILES] = {};
#pragma unroll 1
    for (int step = 0; step < p.steps; step += CHUNK) {
      wait(s.full[ring.stage], ring.parity);
      const char* w = at.ring + ring.stage * kChunkBytes + warp * ROW_TILES * Weight::kBytes;
#pragma unroll kUnrolled
      for (int i = 0; i < CHUNK; i += kTogether) {
        const char* here[kInputs];
#pragma unroll
        for (int j = 0; j < kInputs; j++) here[j] = at.x + x[j] + (step + i) * stride[j];
        if constexpr (kScaleSums)
          i + 1 < CHUNK ? ScaledSums::run<2>(sums, w + i * kStepBytes, kStepBytes, here)
                        : ScaledSums::run<1>(sums, w + i * kStepBytes, 0, here);
        else
          Weight::run(sums, w + i * kStepBytes, here);
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(s.empty[ring.stage]);
      ring.advance(p.stages);
    }
#pragma unroll
    for (int i = 0; kScaleSums && i < 2; i++) {  // all columns are one row of x
      float& sum = sums[0][0][i * 2];
      sum = row_sum(sum + sums[0][0][i * 2 + 1]);
    }
#pragma unroll
    for (int i = 0; i < ROW_TILES * N_TILES * 4; i++)
      s.partial[n & 1][warp * ROW_TILES * N_TILES + i / 4][(2 * t + i % 2) * kColumn + g + i % 4 / 2 * 8] =
          sums[i / 4 / N_TILES][i / 4 % N_TILES][i % 4] * unscale;
    named_barrier_sync(1, kThreads);
    if (OWN_X && NORM && n == 0) join_norm(p, s);
    wait(s.others, 0);
    finish_unit(p, at, unit, n, is_static, scales, finish);
  }
}

__device__ __forceinline__ float over_ranks(const float* mine) {
  float sum = 0;
#pragma unroll
  for (int rank = 0; rank < SPLITS; rank++) sum += ld_cluster(mine, rank);
  return sum;
}

// Adds the split-K partials of the cluster's blocks; each block finishes its share of the outputs.
template <class Finish>
__device__ __forceinline__ void join_splits(const Params& p, const SharedLayout& at, const Share& share,
                                            Finish finish) {
  Shared& s = *at.shared;
  cluster_sync();
  if (threadIdx.x < p.m && NORM) s.norm[threadIdx.x] = rsqrtf(over_ranks(&s.squares_sum[threadIdx.x]) / p.k + p.eps);
  __syncthreads();
  const int outputs = (share.end - share.first) * p.m * kUnitOutputs;
#pragma unroll 1
  for (int i = share.rank * kBlock + threadIdx.x; i < outputs; i += SPLITS * kBlock) {
    const int row = i % kTileRows, tile = i / kTileRows % kUnitTiles, rest = i / kUnitOutputs;
    const int m = rest % p.m, unit = rest / p.m;
    const float* value = &at.kept[((unit * p.m + m) * kUnitTiles + tile) * 16 + row];
    Scales scales;
    if (kRowScales) scales.look_up(at, unit * kUnitTiles + tile, row);
    const float above = PAIRED ? over_ranks(value + 8) * scales.above : 0.f;
    finish(Output{share.first + unit, unit, tile, row, m}, over_ranks(value) * scales.value, above);
  }
  cluster_sync();  // no block ends while others read its sums
}

// The whole block. All threads return; with KEEP and SPLITS 1, `at.kept` then holds the block's sums.
template <class Finish>
__device__ __forceinline__ void product(const Params& p, const SharedLayout& at, const Share& share, Finish finish) {
  if (!p.late_trigger) griddepcontrol_launch_dependents();
  if (threadIdx.x < kThreads) {
    if (threadIdx.x < 16) at.shared->largest[threadIdx.x] = 0;
    if (threadIdx.x == 0) at.shared->zeros = make_uint4(0, 0, 0, 0);
    consume(p, at, share, finish);
  } else if (threadIdx.x < kThreads + 32) {
    Producer producer(p, share);
    if (threadIdx.x == kThreads) producer.start(p, at, share);
    __syncthreads();
    if (threadIdx.x == kThreads) producer.stream(p, at);
    __syncwarp();
  } else {
    __syncthreads();
    fetch_others(p, at, share);
  }
  if (SPLITS > 1) join_splits(p, at, share, finish);
}

}  // namespace skinny
