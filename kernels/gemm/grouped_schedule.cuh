// The scheduler of grouped.cu: where experts' rows end, their tiles, and the order of a cluster's tiles.
#pragma once
#include "expert_rows.cuh"
#include "mainloops.cuh"
using namespace epilogue;

constexpr int kTileK = 128 / sizeof(TYPE), kConsumers = 2, kMost = 256;
constexpr int kOutColumns = EPILOGUE == kSwiglu ? 32 : 64;   // of y, a warpgroup's of a tile
constexpr int kStagedRows = 128, kChunks = kOutColumns / 8;  // rows of y staged at a time; 8 columns each
struct GroupedParams {
  const int* offs;  // [EXPERTS]: where the rows of each expert end
  TYPE* y;
  int rows, columns, k, weight_rows, column_pairs;  // weight_rows: of w, from an expert to the next
};

struct Shared {
  SharedTile<TYPE, kRows, kTileK> w[STAGES];
  SharedTile<TYPE, kMost, kTileK> x[STAGES];
  alignas(1024) TYPE y[kConsumers][kStagedRows * kOutColumns];
  Barrier full[STAGES], empty[STAGES];
  // Of each expert: where its rows end, and how many rows a tile has. Then in order of falling tile width: the expert
  // at each place, and where its tiles of rows end.
  int row_ends[EXPERTS], widths[EXPERTS], order[EXPERTS], tile_ends[EXPERTS];
};
static_assert(sizeof(GroupedParams) == PARAMS_BYTES, "grouped_plan.PARAMS");
static_assert(BYTES_UP_TO(Shared, tile_ends) <= SHARED_BYTES, "grouped_plan.constants");

// Rows of x that a tile has room for: multiples of 16 up to 128, then of 8, as wgmma is instantiated.
__host__ __device__ constexpr int rounded(int rows) { return rows <= 128 ? (rows + 15) / 16 * 16 : (rows + 7) / 8 * 8; }

// The number of tiles that the rows of an expert take.
__device__ __forceinline__ int tiles_of(const Shared& s, int e) {
  return (rows_of(s.row_ends, e) + kMost - 1) / kMost;
}

// Divides each expert's rows among its tiles, and orders the experts by tile width (all threads).
__device__ __forceinline__ void sort_experts(Shared& s) {
  for (int e = threadIdx.x; e < EXPERTS; e += blockDim.x) {
    const int tiles = tiles_of(s, e);
    s.widths[e] = tiles ? rounded((rows_of(s.row_ends, e) + tiles - 1) / tiles) : 0;
  }
  __syncthreads();
  for (int e = threadIdx.x; e < EXPERTS; e += blockDim.x) {
    const int mine = s.widths[e];
    int place = 0;
#pragma unroll 8
    for (int other = 0; other < EXPERTS; other++) place += s.widths[other] > mine - (other < e);
    s.order[place] = e;
  }
}

// Computes tile_ends, in the order of tile width (warp 0).
__device__ __forceinline__ void count_tiles(Shared& s) {
  add_up<EXPERTS>(s.tile_ends, [&](int place) { return tiles_of(s, s.order[place]); });
}

// Fills in what is in `s` of experts and tiles (all threads).
__device__ __forceinline__ void find_tiles(Shared& s, const GroupedParams& p) {
  if (threadIdx.x < 32) find_row_ends<EXPERTS>(s.row_ends, p.offs, p.rows);
  __syncthreads();
  sort_experts(s);
  __syncthreads();
  if (threadIdx.x < 32) count_tiles(s);
  __syncthreads();
}

// The tiles of one cluster: expert by expert, row tiles first, so that rows of w are read once for all rows of the
// expert. Clusters take tiles round by round, in alternating direction.
struct GroupedTiles {
  const Shared& s;
  const GroupedParams& p;
  const int rank, clusters, all;
  int round = 0, expert, row, row_end, width, column;  // `column` is a row of w[expert]
  __device__ __forceinline__ GroupedTiles(const Shared& s, const GroupedParams& p)
      : s(s),
        p(p),
        rank(cluster_rank()),
        clusters(gridDim.x / kBlocks),
        all(s.tile_ends[EXPERTS - 1] * p.column_pairs) {}
  __device__ __forceinline__ bool advance() {
    const int me = blockIdx.x / kBlocks, next = round * clusters + (round % 2 ? clusters - 1 - me : me);
    if (next >= all) return false;
    const int place = first_above<EXPERTS>(s.tile_ends, next / p.column_pairs), tiles = rows_of(s.tile_ends, place);
    const int local = next - first_row(s.tile_ends, place) * p.column_pairs;
    expert = s.order[place];
    width = s.widths[expert];
    row = first_row(s.row_ends, expert) + local % tiles * width;
    row_end = min(row + width, s.row_ends[expert]);
    column = (local / tiles * kBlocks + rank) * kRows;
    round++;
    return true;
  }
};
