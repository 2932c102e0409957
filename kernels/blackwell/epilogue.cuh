// The epilogue of one warp on 32 rows of a tile: a thread has one row.
#pragma once
#include "rows.cuh"
#include "tcgen05.cuh"

#include "cluster_queue.cuh"

using namespace tiles;

enum Epilogue { kNone, kBias, kResidual, kSwiglu };

// SCALES of the operands in float32: 0 none, 1 one for each tensor, 2 one for each row.
struct Operands {
  const OUT *bias, *residual;
  const float *x_scales, *w_scales;
  int rows, columns, steps, column_tiles;  // rows and columns of y; steps of K
};

// Rows of a tile; columns of a panel of y, of the product for one of y, and of y from 32 of the product.
constexpr int kRows = 128, kEpilogueWarps = 4;
constexpr int kPanelColumns = 64, kWide = EPILOGUE == kSwiglu ? 2 : 1, kKept = 32 / kWide;

// A double buffer for y: two panels of 32 rows × 64 columns, 128-byte swizzle, one written, one stored.
using Staging = SharedTile<OUT, 32, kPanelColumns>[2];

__device__ __forceinline__ float silu(float x) { return x / (1.f + ex2_ftz(x * -1.4426950408889634f)); }

// The epilogue on 32 columns of the product, in place; `column` is y's first. For swiglu the first 16 are y's: in every
// 16 of the product, 8 gates come before the 8 matching ups. The scales of w begin with that of its row `weights`.
__device__ __forceinline__ void apply(float (&d)[32], const Operands& p, int row, int column, int weights) {
  const bool inside = row < p.rows;
  if (SCALES) {
    const float of_x = SCALES == 1 ? __ldg(p.x_scales) : inside ? __ldg(p.x_scales + row) : 0.f;
    for (int i = 0; i < 32; i++) {
      const int of = column * kWide + i, own = weights + of;
      d[i] *= of_x * (SCALES == 1 ? __ldg(p.w_scales) : of < p.columns * kWide ? __ldg(p.w_scales + own) : 0.f);
    }
  }
  if constexpr (EPILOGUE == kSwiglu) {
    for (int i = 0; i < 16; i++) d[i] = silu(d[i / 8 * 16 + i % 8]) * d[i / 8 * 16 + 8 + i % 8];
  }
  if (EPILOGUE == kBias || EPILOGUE == kResidual) {
    const OUT* from = EPILOGUE == kBias ? p.bias : p.residual + (u64)row * p.columns;
    for (int i = 0; i < 32; i += 8) {  // columns come in eights
      if (column + i >= p.columns || (EPILOGUE == kResidual && !inside)) break;
      add_eight(d + i, from + column + i);
    }
  }
}

// One panel of y, from the sums at `sums`, whose lane is this warp's first row, `row`, by way of `staged`.
template <typename Tile>
__device__ __forceinline__ void store_panel(OUT* staged, const Tile& tile, const TensorMap& y, u32 sums, int panel,
                                            int row) {
  const int lane = threadIdx.x % 32, column = tile.column * (BN / kWide) + panel * kPanelColumns;
  if (lane == 0) tma_store_wait_read<1>();
  __syncwarp();
#pragma unroll
  for (int part = 0; part < 2 * kWide; part++) {
    float d[32];
    tmem_load(d, sums + panel * kPanelColumns * kWide + part * 32);
    apply(d, tile.p, row + lane, column + part * kKept, tile.weights - tile.column * BN);
    put_row<kKept>(staged, part * kKept / 8, d);
  }
  fence_proxy_async_shared();
  __syncwarp();
  tile.store(y, staged, column, row);
  if (lane == 0) tma_store_commit();
}
