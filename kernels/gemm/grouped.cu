// y rows of expert e = epilogue(x rows of expert e · w[e]ᵀ), rows sorted by expert: persistent, clusters of two blocks.
//
// As hopper.cu, but the two blocks of a cluster take the same 128 rows and neighbouring columns: each fetches half of
// x's rows for both, and its own BN rows of w. So an expert's last tile wastes at most 127 rows, not 255. Which tiles
// there are is known on the device alone: every block sums up the experts' row tiles before it starts.
//
//   barrier   arrivals a phase                     means
//   full[s]   1, and the bytes of both operands    stage s holds one step of K
//   empty[s]  8 consumer warps of each block       nobody in the cluster reads stage s any more
#include "mainloops.cuh"
using namespace epilogue;

constexpr int kStep = 128 / sizeof(TYPE), kConsumers = 2;
constexpr int kOutColumns = EPILOGUE == kSwiglu ? BN / 2 : BN, kPanels = kOutColumns / 64;
constexpr int kStaged = PANELS < kPanels ? PANELS : kPanels;
static_assert(kPanels % kStaged == 0, "whole rounds");
struct GroupedParams {
  const int* ends;  // [EXPERTS]: where the rows of each expert end
  TYPE* y;
  int rows, columns, k, weight_rows, column_pairs;
};

struct Shared {
  SharedTile<TYPE, kRows, kStep> x[STAGES];
  SharedTile<TYPE, BN, kStep> w[STAGES];
  SharedTile<TYPE, 64, kStaged * 64> y[kConsumers];
  Barrier full[STAGES], empty[STAGES];
  int row_ends[EXPERTS], tile_ends[EXPERTS];
};

// Sums up the experts' row tiles (warp 0); ends outside the rows, or in disorder, are bent into them.
__device__ __forceinline__ void count_tiles(Shared& s, const GroupedParams& p) {
  int rows_before = 0, tiles_before = 0;
  for (int first = 0, lane = threadIdx.x; first < EXPERTS; first += 32) {
    const int e = first + lane;
    int end = e < EXPERTS ? min(max(p.ends[e], 0), p.rows) : 0;
    for (int o = 1; o < 32; o *= 2) end = max(end, __shfl_up_sync(~0u, end, o));
    end = max(end, rows_before);
    const int before = __shfl_up_sync(~0u, end, 1);
    int tiles = (end - (lane ? before : rows_before) + kRows - 1) / kRows;
    for (int o = 1; o < 32; o *= 2) {
      const int lower = __shfl_up_sync(~0u, tiles, o);
      tiles += lane >= o ? lower : 0;
    }
    if (e < EXPERTS) s.row_ends[e] = end, s.tile_ends[e] = tiles_before + tiles;
    rows_before = __shfl_sync(~0u, end, 31);
    tiles_before += __shfl_sync(~0u, tiles, 31);
  }
}

// The tiles of one cluster: expert by expert, its row tiles first, so that a stretch of w serves all its rows.
struct GroupedTiles {
  const Shared& s;
  const GroupedParams& p;
  const int rank;
  int next, expert, row, row_end, column;
  __device__ __forceinline__ GroupedTiles(const Shared& s, const GroupedParams& p)
      : s(s), p(p), rank(cluster_rank()), next(blockIdx.x / kBlocks) {}
  __device__ __forceinline__ bool advance() {
    if (next >= s.tile_ends[EXPERTS - 1] * p.column_pairs) return false;
    int low = 0, high = EXPERTS - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      (s.tile_ends[middle] * p.column_pairs > next ? high : low) = middle + (s.tile_ends[middle] * p.column_pairs <= next);
    }
    const int first = low ? s.tile_ends[low - 1] : 0, tiles = s.tile_ends[low] - first;
    const int local = next - first * p.column_pairs;
    expert = low, row_end = s.row_ends[low];
    row = (low ? s.row_ends[low - 1] : 0) + local % tiles * kRows;
    column = (local / tiles * kBlocks + rank) * BN;
    next += gridDim.x / kBlocks;
    return true;
  }
};

__device__ __forceinline__ void produce(Shared& s, const GroupedParams& p, const TensorMap& x, const TensorMap& w) {
  GroupedTiles tiles(s, p);
  Cursor<STAGES> at;
  const int half = tiles.rank * (kRows / kBlocks);
  while (tiles.advance())
    for (int k = 0; k < p.k; k += kStep, at.advance()) {
      wait(s.empty[at.stage], at.parity ^ 1);
      expect(s.full[at.stage], s.x[0].kBytes + s.w[0].kBytes);
      copy_in_all(s.x[at.stage].panel(0, half), x, s.full[at.stage], 3, k, tiles.row + half);
      copy_in(s.w[at.stage].at, w, s.full[at.stage], k, tiles.expert * p.weight_rows + tiles.column);
    }
}

// 64 staged rows by themselves, 16 bytes a thread: where the expert's rows end among them.
__device__ __forceinline__ void copy_rows(const GroupedParams& p, const TYPE* panel, int row, int row_end, int column) {
  const int chunk = threadIdx.x % 8;
  for (int r = threadIdx.x % kWarpgroup / 8; r < 64 && row + r < row_end; r += kWarpgroup / 8)
    if (column + chunk * 8 < p.columns)
      *(uint4*)(p.y + (size_t)(row + r) * p.columns + column + chunk * 8) =
          *(const uint4*)((const char*)panel + swizzled(r, chunk));
}

__device__ __forceinline__ void consume(Shared& s, const GroupedParams& p, const TensorMap& y) {
  GroupedTiles tiles(s, p);
  Cursor<STAGES> at;
  Accumulator<BN> d;
  const int me = warpgroup(), leads = threadIdx.x % kWarpgroup == 0;
  auto& staging = s.y[me];
  while (tiles.advance()) {
    multiply_tile<false, TYPE>(d, s, at, me, (p.k + kStep - 1) / kStep, [] {});
    const int row = tiles.row + 64 * me, column = tiles.column / (BN / kOutColumns);
#pragma unroll
    for (int first = 0; first < kPanels; first += kStaged) {
      if (leads) wait_copies_read();
      named_sync(1 + me, kWarpgroup);
#pragma unroll
      for (int i = 0; i < kStaged; i++) {
        if (column + (first + i) * 64 >= p.columns) continue;
        if constexpr (EPILOGUE == kSwiglu) swiglu(d, first + i);
        put_panel(staging.panel(i), d, first + i);
      }
      fence_async_shared();
      named_sync(1 + me, kWarpgroup);
      if (row + 64 > tiles.row_end) {
        for (int i = 0; i < kStaged; i++) copy_rows(p, staging.panel(i), row, tiles.row_end, column + (first + i) * 64);
      } else if (leads) {
        store(y, staging, column + first * 64, row), commit_copies();
      }
    }
  }
}

extern "C" __global__ void __cluster_dims__(kBlocks) __launch_bounds__(kWarpgroup * (kConsumers + 1), 1)
    grouped(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
            const __grid_constant__ TensorMap y, const __grid_constant__ GroupedParams p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *(Shared*)raw;
  if (shared_address(raw) % 1024) __trap();
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) init(s.full[i], 1), init(s.empty[i], 4 * kConsumers * kBlocks);
    fence_init();
  }
  if (threadIdx.x < 32) count_tiles(s, p);
  __syncthreads();
  cluster_sync();
  if (warpgroup() == kConsumers) {
    give_registers<40>();
    if (warp_of_warpgroup() == 0 && elected()) produce(s, p, x, w);
  } else {
    take_registers<232>();
    consume(s, p, y);
  }
  wait_copies_done();  // as in hopper.cu
  cluster_sync();
}
