// The order of the tiles, and the epilogue of one warp on 32 rows of a tile: a thread has one row.
#pragma once
#include "rows.cuh"
#include "tcgen05.cuh"

#include "cluster_queue.cuh"

using namespace tiles;

enum Epilogue { kNone, kBias, kResidual, kSwiglu };

// SCALES of the operands in float32: 0 none, 1 one for each tensor, 2 one for each row.
struct Params {
  const OUT *bias, *residual;
  const float *x_scales, *w_scales;
  int rows, columns, steps, row_tiles, column_tiles, group;
};

constexpr int kPanelColumns = 64, kWide = EPILOGUE == kSwiglu ? 2 : 1;  // columns of the product for one of y

// The tiles of a cluster, in an order that keeps `group` row tiles and as many column tiles in the L2. Where BLOCKS is
// 2, the row tiles of Params are those of a pair. One thread goes through them, or a whole warp. With DYNAMIC the grid
// has a cluster for each tile, and a running one takes over the tiles of those that have not started.
template <int Threads>
struct Tiles {
  const Params& p;
  QueueReader<BLOCKS, Threads> queue;
  const int rank = cluster_rank();
  int next = blockIdx.x / BLOCKS, row, column;
  bool begun = false;
  __device__ __forceinline__ Tiles(const Params& p, ClusterQueue& queue) : p(p), queue{queue} {}
  __device__ __forceinline__ bool advance() {
    if (begun) next = DYNAMIC ? queue.next() : next + gridDim.x / BLOCKS;
    begun = true;
    if (next < 0 || next >= p.row_tiles * p.column_tiles) return false;
    const int width = p.group * p.column_tiles, first = next / width * p.group;
    const int high = min(p.row_tiles - first, p.group);
    row = (first + next % width % high) * BLOCKS + rank;
    column = next % width / high;
    return true;
  }
};

// A double buffer for y: two panels of 32 rows × 64 columns in the 128-byte swizzle. One is written while the other is
// stored.
using Staging = SharedTile<OUT, 32, kPanelColumns>[2];

__device__ __forceinline__ float silu(float x) { return x / (1.f + ex2_ftz(x * -1.4426950408889634f)); }

// The epilogue on 32 columns of the product, in place; `column` is y's first. For swiglu the first 16 are y's: in every
// 16 of the product, 8 gates come before the 8 matching ups.
__device__ __forceinline__ void apply(float (&d)[32], const Params& p, int row, int column) {
  const bool inside = row < p.rows;
  if (SCALES) {
    const float of_x = SCALES == 1 ? __ldg(p.x_scales) : inside ? __ldg(p.x_scales + row) : 0.f;
    for (int i = 0; i < 32; i++) {
      const int of = column * kWide + i;
      d[i] *= of_x * (SCALES == 1 ? __ldg(p.w_scales) : of < p.columns * kWide ? __ldg(p.w_scales + of) : 0.f);
    }
  }
  if constexpr (EPILOGUE == kSwiglu) {
    for (int i = 0; i < 16; i++) d[i] = silu(d[i / 8 * 16 + i % 8]) * d[i / 8 * 16 + 8 + i % 8];
  }
  if (EPILOGUE == kBias || EPILOGUE == kResidual) {
    const OUT* from = EPILOGUE == kBias ? p.bias : p.residual + (u64)row * p.columns;
    for (int i = 0; i < 32; i += 8) {  // columns come in eights
      if (column + i >= p.columns || (EPILOGUE == kResidual && !inside)) break;
      const uint4 eight = __ldg((const uint4*)(from + column + i));
      const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
      for (int j = 0; j < 4; j++) {
        const float2 pair = unpack<OUT>(pairs[j]);
        d[i + 2 * j] += pair.x;
        d[i + 2 * j + 1] += pair.y;
      }
    }
  }
}

// One panel of y from the sums at `sums`, whose lane is this warp's first row, by way of `staged`. `row` is that row,
// `column` the panel's first column.
__device__ __forceinline__ void store_panel(OUT* staged, const Params& p, const TensorMap& y, u32 sums, int panel,
                                            int row, int column) {
  const int lane = threadIdx.x % 32;
  if (lane == 0) tma_store_wait_read<1>();
  __syncwarp();
#pragma unroll
  for (int part = 0; part < 2 * kWide; part++) {
    constexpr int kKept = 32 / kWide;
    float d[32];
    tmem_load(d, sums + panel * kPanelColumns * kWide + part * 32);
    apply(d, p, row + lane, column + part * kKept);
    put_row<kKept>(staged, part * kKept / 8, d);
  }
  fence_proxy_async_shared();
  __syncwarp();
  if (lane == 0) {
    tma_store(y, staged, column, row);
    tma_store_commit();
  }
}
