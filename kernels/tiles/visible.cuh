// The keys that each query sees, and a block's tiles. Macros: KEYS (of a block), CAUSAL, WINDOW (0: none).
#pragma once
#include <math_constants.h>

#include "tiles.cuh"

namespace tiles {

struct alignas(16) Tile {
  int batch, head, row, is_one;  // row: the first query; a warpgroup whose queries are below 0 is idle
};

struct Shape {
  const Tile* schedule;  // [rounds][blocks]
  int group, q_len, kv_len;
  float scale;  // log2 e included
};

// A query sees the keys [first_key(row), end_key(row)). Both bounds rise with the row.
__device__ __forceinline__ int end_key(const Shape& shape, int row) {
  const int at = row + shape.kv_len - shape.q_len;
  return max(0, CAUSAL ? min(shape.kv_len, at + 1) : WINDOW ? min(shape.kv_len, at + WINDOW) : shape.kv_len);
}
__device__ __forceinline__ int first_key(const Shape& shape, int row) {
  return WINDOW ? max(0, row + shape.kv_len - shape.q_len - WINDOW + 1) : 0;
}
// The blocks [first_block(first row), end_block(last row)) hold the keys of a range of rows.
__device__ __forceinline__ int first_block(const Shape& of, int row) { return first_key(of, row) / KEYS; }
__device__ __forceinline__ int end_block(const Shape& of, int row) { return (end_key(of, row) + KEYS - 1) / KEYS; }
__device__ __forceinline__ Tile tile_at(const Shape& shape, int round) {
  return shape.schedule[round * gridDim.x + blockIdx.x];
}

}  // namespace tiles
