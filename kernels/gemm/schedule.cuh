// The parameters of a launch, and the order of a cluster's tiles.
#pragma once
#include "tiles.cuh"

constexpr int kRows = 128, kBlocks = 2;  // rows of a block's tile; blocks of a cluster, one below the other

struct Params {
  const void* bias;
  const float *x_scales, *w_scales;
  float* y_scales;
  int rows, columns, k, row_tiles, column_tiles, group, x_scale_stride, w_scale_stride, y_scale_stride;
  float epsilon;
  __device__ __forceinline__ int steps(int step) const { return (k + step - 1) / step; }  // of K, for one tile
};

// The tiles of one cluster, in an order that keeps `group` pairs of row tiles and as many column tiles in the L2.
struct Tiles {
  const Params& p;
  const int rank, pairs, all;
  int next, row, column;
  __device__ __forceinline__ explicit Tiles(const Params& p)
      : p(p),
        rank(tiles::cluster_rank()),
        pairs((p.row_tiles + 1) / 2),
        all(pairs * p.column_tiles),
        next(blockIdx.x / kBlocks) {}
  __device__ __forceinline__ bool advance() {
    if (next >= all) return false;
    const int width = p.group * p.column_tiles, first = next / width * p.group, high = min(pairs - first, p.group);
    row = ((first + next % width % high) * kBlocks + rank) * kRows;
    column = next % width / high;
    next += gridDim.x / kBlocks;
    return true;
  }
};
