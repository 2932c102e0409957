// y[m, rows] = x[m, k] · w[rows, k]ᵀ for up to 16 rows of x: weights streamed once, at the speed of the memory.
//
//   consumers, WARPS   chunk by chunk: weights from the ring to fp16 or bf16, 16 × 16 tiles times x on the matrix units;
//                      K_WARPS of them share a row tile and add up, in a fixed order, when a unit of rows is done
//   one producer       bulk copies of this block's weights into the ring; with a dependent launch the ring is full before
//                      the previous kernel has ended and the consumers bring x
//   one fetcher warp   row scales, bias and residual
//   SPLITS blocks      of a cluster share rows and divide k; the sums meet in their shared memories, in a fixed order
#pragma once
#include "skinny_stream.cuh"

namespace skinny {

__device__ __forceinline__ u32 largest_of(u32 largest, const uint4& v) {
  constexpr u32 kSigns = 0x7fff7fff;
  return __vmaxu2(largest, __vmaxu2(__vmaxu2(v.x & kSigns, v.y & kSigns), __vmaxu2(v.z & kSigns, v.w & kSigns)));
}

__device__ __forceinline__ float squares_of(const uint4& v) {
  const float2 a = unpack<Value>(v.x), b = unpack<Value>(v.y), c = unpack<Value>(v.z), d = unpack<Value>(v.w);
  return a.x * a.x + a.y * a.y + (b.x * b.x + b.y * b.y) + (c.x * c.x + c.y * c.y) + (d.x * d.x + d.y * d.y);
}
__device__ __forceinline__ u32 scaled(u32 pair, float scale) {
  const float2 v = unpack<bf16>(pair);
  return pack<f16>(v.x * scale, v.y * scale);
}
// 2^(14 - exponent of the row's largest value), as bits; a row with infinities takes the least scale.
__device__ __forceinline__ u32 scale_exponent(u32 largest) { return min(268u - (largest >> 7), 253u); }

// A single row of x: every warp brings the columns that it multiplies, none waits for another one. Returns what undoes
// the power of two by which they were multiplied.
__device__ __forceinline__ float prepare_own(const Params& p, const Places& at, const Share& share) {
  constexpr int kEach = Weight::kK / 8, kLoads = OWN_X ? OWN_X : 1;  // words of a step, and loads of a lane
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint4* from = (const uint4*)(p.x + share.rank * share.columns);
  uint4 v[kLoads];
  int word[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; i++) {
    const int index = lane + i * 32;
    word[i] = (index / kEach * K_WARPS + warp % K_WARPS) * kEach + index % kEach;
    v[i] = word[i] < share.there / 8 ? __ldcg(from + word[i]) : make_uint4(0, 0, 0, 0);
  }
  u32 largest = 0;
  float squares = 0, scale = 1;
#pragma unroll
  for (int i = 0; i < kLoads; i++) {
    if (kScaled) largest = largest_of(largest, v[i]);
    if (NORM) squares += squares_of(v[i]);
  }
  if (kScaled) {
    largest = __reduce_max_sync(~0u, max(largest & 0xffff, largest >> 16));
    scale = __uint_as_float(scale_exponent(largest) << 23);
  }
#pragma unroll
  for (int i = 0; i < kLoads; i++)
    if (word[i] < share.columns / 8) {
      const uint4 s = make_uint4(scaled(v[i].x, scale), scaled(v[i].y, scale), scaled(v[i].z, scale), scaled(v[i].w, scale));
      ((uint4*)at.x)[word[i]] = kScaled ? s : v[i];
    }
  if (NORM) {
#pragma unroll
    for (int o = 16; o; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
    if (lane == 0) at.shared->squares[0][warp] = squares;
  }
  __syncwarp();
  return kScaled ? __uint_as_float((254 - scale_exponent(largest)) << 23) : 1.f;
}

// Behind a barrier of all warps: the row's sum of squares and its norm, by every warp for itself.
__device__ __forceinline__ void join_norm(const Params& p, Shared& s) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < K_WARPS; w++) sum += s.squares[0][w];
  s.squares_sum[0] = sum, s.norm[0] = rsqrtf(sum / p.k + p.eps);
  __syncwarp();
}

// Sums of squares and largest values of the rows of x, which come from here where they are few; rows for quantised
// weights become fp16. A warp takes every (WARPS / parts)-th row, and a part of it.
__device__ __forceinline__ void prepare(const Params& p, const Places& at, const Share& share) {
  Shared& s = *at.shared;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, words = share.columns / 8, there = share.there / 8;
  int side_by_side = 1;
  while (side_by_side < min(p.m, WARPS)) side_by_side *= 2;
  const int parts = WARPS / side_by_side, part = warp % parts;
  constexpr int kBatch = 4;
  if (!kDirect && !kScaled && !NORM) return;
#pragma unroll 1
  for (int row = warp / parts; row < p.m; row += side_by_side) {
    const uint4* from = (const uint4*)(p.x + (long long)row * p.k + share.rank * share.columns);
    uint4* to = (uint4*)(at.x + row * p.x_bytes);
    u32 largest = 0;
    float squares = 0;
#pragma unroll 1
    for (int base = part * 32 + lane; base < words; base += parts * 32 * kBatch) {
      uint4 v[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; i++) {
        const int word = base + i * parts * 32;
        v[i] = word < there ? kDirect ? __ldcg(from + word) : to[word] : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kBatch; i++) {
        const int word = base + i * parts * 32;
        if (kDirect && word < words) to[word] = v[i];
        if (kScaled) largest = largest_of(largest, v[i]);
        if (NORM) squares += squares_of(v[i]);
      }
    }
    if (kScaled) {
      largest = __reduce_max_sync(~0u, max(largest & 0xffff, largest >> 16));
      if (lane == 0) atomicMax(&s.largest[row], largest);
    }
    if (NORM) {
#pragma unroll
      for (int o = 16; o; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
      if (lane == 0) s.squares[row][part] = squares;
    }
  }
  named_sync(1, kThreads);
  if (threadIdx.x < p.m) {
    if (kScaled) s.unscale[threadIdx.x] = __uint_as_float((254 - scale_exponent(s.largest[threadIdx.x])) << 23);
    float sum = 0;
    if (NORM)
#pragma unroll 1
      for (int i = 0; i < parts; i++) sum += s.squares[threadIdx.x][i];
    s.squares_sum[threadIdx.x] = sum;
    s.norm[threadIdx.x] = rsqrtf(sum / p.k + p.eps);
  }
  if (!kScaled) return;
#pragma unroll 1
  for (int row = warp / parts; row < p.m; row += side_by_side) {
    const float scale = __uint_as_float(scale_exponent(s.largest[row]) << 23);
    uint4* to = (uint4*)(at.x + row * p.x_bytes);
#pragma unroll 2
    for (int word = part * 32 + lane; word < words; word += parts * 32) {
      const uint4 v = to[word];
      to[word] = make_uint4(scaled(v.x, scale), scaled(v.y, scale), scaled(v.z, scale), scaled(v.w, scale));
    }
  }
  named_sync(1, kThreads);
}

// Keeps the compiler from computing a value again wherever it is used.
__device__ __forceinline__ void keep(int& value) { asm("" : "+r"(value)); }

// A row's sum over the warps that share its tile.
__device__ __forceinline__ float summed(const Params& p, const Shared& s, int buffer, int tile, int m, int row) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < K_WARPS; w++)
    sum += s.partial[buffer][((tile / ROW_TILES * K_WARPS + w) * ROW_TILES + tile % ROW_TILES) * N_TILES + m / 8]
                    [m % 8 * kColumn + row];
  return kScaled && !OWN_X ? sum * s.unscale[m] : sum;
}

// Scales of the rows of one output, by which its sums are multiplied: of a dealt unit from shared memory, of a claimed one
// from memory, asked for before the unit's weights are there. One output a thread then.
struct Scales {
  float value = 1, above = 1;
  __device__ __forceinline__ void fetch(const Params& p, int unit) {
    constexpr int kRows = kTileRows;
    const float* from = p.row_scales + (unit * kUnitTiles + threadIdx.x / kRows) * 16 + threadIdx.x % kRows;
    if (threadIdx.x >= kUnitOutputs) return;
    value = from[0];
    if (PAIRED) above = from[8];
  }
  __device__ __forceinline__ void look_up(const Places& at, int tile, int row) {
    value = at.scales[tile * 16 + row];
    if (PAIRED) above = at.scales[tile * 16 + row + 8];
  }
};

// Where an output lies: its unit among all, its unit among those of the block, row tile and row in the unit, row of x.
struct Output {
  int unit, local, tile, row, m;
  __device__ __forceinline__ int in_block() const { return (local * kUnitTiles + tile) * kTileRows + row; }
  __device__ __forceinline__ int n() const { return (unit * kUnitTiles + tile) * kTileRows + row; }
};

// Calls finish(output, value, above) for every output of a unit, the n-th of the block; neighbouring rows in neighbouring
// threads. The sums of a split product, and those to be looked at again, are kept instead.
template <class Finish>
__device__ __forceinline__ void finish_unit(const Params& p, const Places& at, int unit, int n, bool dealt, Scales scales,
                                            Finish finish) {
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
    if (kRowScales && dealt) scales.look_up(at, n * kUnitTiles + tile, row);
    finish(Output{unit, n, tile, row, m}, value * scales.value, above * scales.above);
  }
}

constexpr int kTogether = kApart ? 2 : 1;  // steps

template <class Finish>
__device__ __forceinline__ void consume(const Params& p, const Places& at, const Share& share, Finish finish) {
  Shared& s = *at.shared;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int x[kInputs], stride[kInputs];  // bytes from at.x on, and from step to step
#pragma unroll
  for (int i = 0; i < kInputs; i++) {
    stride[i] = K_WARPS * Weight::kK * 2;
    x[i] = warp % K_WARPS * Weight::kK * 2 + t * 16;
    x[i] += kApart ? i * 64 + g / 4 * stride[i] : min(8 * i + g, p.m - 1) * p.x_bytes;
    if (kApart && !Apart::has_input(i)) x[i] = (const char*)&s.zeros - at.x, stride[i] = 0;
    keep(x[i]);
    if (kApart) keep(stride[i]);
  }
  Ring ring;
  __syncthreads();
  if (!kDirect && p.overlap && threadIdx.x == 0) fetch_x(p, at, share);
  if (!kDirect) wait(s.fetched, 0);
  wait_previous_kernel();
  float unscale = 1;
  if (OWN_X)
    unscale = prepare_own(p, at, share);
  else
    prepare(p, at, share);
#pragma unroll 1
  for (int n = 0; CLAIMS || n < share.end - share.first; n++) {
    const bool dealt = !CLAIMS || n < share.end - share.first;
    int unit = share.first + n;
    Scales scales;
    if (!dealt) {
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
#pragma unroll
      for (int i = 0; i < CHUNK; i += kTogether) {
        const char* here[kInputs];
#pragma unroll
        for (int j = 0; j < kInputs; j++) here[j] = at.x + x[j] + (step + i) * stride[j];
        if constexpr (kApart)
          i + 1 < CHUNK ? Apart::run<2>(sums, w + i * kStepBytes, kStepBytes, here) : Apart::run<1>(sums, w + i * kStepBytes, 0, here);
        else
          Weight::run(sums, w + i * kStepBytes, here);
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(s.empty[ring.stage]);
      ring.advance(p.stages);
    }
#pragma unroll
    for (int i = 0; kApart && i < 2; i++) {  // all columns are one row of x
      float& sum = sums[0][0][i * 2];
      sum = row_sum(sum + sums[0][0][i * 2 + 1]);
    }
#pragma unroll
    for (int i = 0; i < ROW_TILES * N_TILES * 4; i++)
      s.partial[n & 1][warp * ROW_TILES * N_TILES + i / 4][(2 * t + i % 2) * kColumn + g + i % 4 / 2 * 8] =
          sums[i / 4 / N_TILES][i / 4 % N_TILES][i % 4] * unscale;
    named_sync(1, kThreads);
    if (OWN_X && NORM && n == 0) join_norm(p, s);
    wait(s.others, 0);
    finish_unit(p, at, unit, n, dealt, scales, finish);
  }
}

__device__ __forceinline__ float of_rank(const float* mine, int rank) {
  u32 address;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(mine)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ float over_ranks(const float* mine) {
  float sum = 0;
#pragma unroll
  for (int rank = 0; rank < SPLITS; rank++) sum += of_rank(mine, rank);
  return sum;
}

// Adds what the blocks of the cluster kept; each finishes its share of the outputs.
template <class Finish>
__device__ __forceinline__ void join_splits(const Params& p, const Places& at, const Share& share, Finish finish) {
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
  cluster_sync();  // nobody leaves while others read its sums
}

// The whole block. Returns to all threads; `at.kept` then holds the block's sums where KEEP is set and SPLITS is 1.
template <class Finish>
__device__ __forceinline__ void product(const Params& p, const Places& at, const Share& share, Finish finish) {
  if (!p.late) let_next_kernel_start();
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
