// y rows of expert e = epilogue(x rows of expert e · w[e]ᵀ), rows sorted by expert: persistent, clusters of two blocks.
//
// A tile is transposed: yᵀ = w · xᵀ, 128 rows of w by up to 256 of an expert's rows of x, which are divided equally
// among its tiles. N of wgmma may be any multiple of 8, so few rows of padding are multiplied. The two blocks of a
// cluster take neighbouring rows of w: each loads its own rows of w, and half of x's rows for both; each of its two
// warpgroups multiplies 64. Only the device knows how many rows each expert has, so every block counts the tiles
// itself.
//
//   barrier   arrivals a phase                     means
//   full[s]   1, and the bytes of both operands    stage s holds one step of K
//   empty[s]  8 consumer warps of each block       no warp of the cluster reads stage s any more
#include "mainloops.cuh"
using namespace epilogue;

constexpr int kStep = 128 / sizeof(TYPE), kConsumers = 2, kMost = 256;
constexpr int kOutColumns = EPILOGUE == kSwiglu ? 32 : 64;   // of y, a warpgroup's of a tile
constexpr int kStagedRows = 128, kChunks = kOutColumns / 8;  // rows of y staged at a time; 8 columns each
struct GroupedParams {
  const int* ends;  // [EXPERTS]: where the rows of each expert end
  TYPE* y;
  int rows, columns, k, weight_rows, column_pairs;
};
struct Boxes {
  const TensorMap* of[4];  // x in boxes of 64, 32, 16 and 8 rows
};

struct Shared {
  SharedTile<TYPE, kRows, kStep> w[STAGES];
  SharedTile<TYPE, kMost, kStep> x[STAGES];
  alignas(1024) TYPE y[kConsumers][kStagedRows * kOutColumns];
  Barrier full[STAGES], empty[STAGES];
  // Of each expert: where its rows end, and how many rows a tile has. Then in order of falling tile width: the expert
  // at each place, and where its tiles of rows end.
  int row_ends[EXPERTS], widths[EXPERTS], order[EXPERTS], tile_ends[EXPERTS];
};
static_assert(sizeof(GroupedParams) == PARAMS_BYTES, "grouped_hopper.PARAMS");
static_assert(BYTES_UP_TO(Shared, tile_ends) <= SHARED_BYTES, "grouped_hopper.constants");

// Rows of x that a tile has room for: multiples of 16 up to 128, then of 8, as wgmma is instantiated.
__host__ __device__ constexpr int rounded(int rows) { return rows <= 128 ? (rows + 15) / 16 * 16 : (rows + 7) / 8 * 8; }

// The number of tiles that the rows of an expert take.
__device__ __forceinline__ int tiles_of(const Shared& s, int e) {
  return (s.row_ends[e] - (e ? s.row_ends[e - 1] : 0) + kMost - 1) / kMost;
}

// Computes row_ends (warp 0). Ends outside the rows, or out of order, are clamped.
__device__ __forceinline__ void find_rows(Shared& s, const GroupedParams& p) {
  int before = 0;
  for (int first = 0, lane = threadIdx.x; first < EXPERTS; first += 32) {
    const int e = first + lane;
    int end = e < EXPERTS ? min(max(p.ends[e], 0), p.rows) : 0;
    for (int o = 1; o < 32; o *= 2) end = max(end, __shfl_up_sync(~0u, end, o));
    end = max(end, before);
    if (e < EXPERTS) s.row_ends[e] = end;
    before = __shfl_sync(~0u, end, 31);
  }
}

// Divides each expert's rows among its tiles, and orders the experts by tile width (all threads).
__device__ __forceinline__ void sort_experts(Shared& s) {
  for (int e = threadIdx.x; e < EXPERTS; e += blockDim.x) {
    const int tiles = tiles_of(s, e), rows = s.row_ends[e] - (e ? s.row_ends[e - 1] : 0);
    s.widths[e] = tiles ? rounded((rows + tiles - 1) / tiles) : 0;
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
  int before = 0;
  for (int first = 0, lane = threadIdx.x; first < EXPERTS; first += 32) {
    const int place = first + lane;
    int tiles = place < EXPERTS ? tiles_of(s, s.order[place]) : 0;
    for (int o = 1; o < 32; o *= 2) {
      const int lower = __shfl_up_sync(~0u, tiles, o);
      tiles += lane >= o ? lower : 0;
    }
    if (place < EXPERTS) s.tile_ends[place] = before + tiles;
    before += __shfl_sync(~0u, tiles, 31);
  }
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
    int low = 0, high = EXPERTS - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      (s.tile_ends[middle] * p.column_pairs > next ? high : low) =
          middle + (s.tile_ends[middle] * p.column_pairs <= next);
    }
    const int first = low ? s.tile_ends[low - 1] : 0, tiles = s.tile_ends[low] - first;
    const int local = next - first * p.column_pairs;
    expert = s.order[low];
    width = s.widths[expert];
    row = (expert ? s.row_ends[expert - 1] : 0) + local % tiles * width, row_end = min(row + width, s.row_ends[expert]);
    column = (local / tiles * kBlocks + rank) * kRows;
    round++;
    return true;
  }
};

__device__ __forceinline__ void produce(Shared& s, const GroupedParams& p, const Boxes& x, const TensorMap& w) {
  GroupedTiles tiles(s, p);
  PipelineState<STAGES> at;
  while (tiles.advance()) {
    const int half = (tiles.width + 15) / 16 * 8, mine = tiles.rank * half;
    for (int k = 0; k < p.k; k += kStep, at.advance()) {
      wait(s.empty[at.stage], at.parity ^ 1);
      arrive_expect_tx(s.full[at.stage], s.w[0].kBytes + 2 * half * kStep * sizeof(TYPE));
      tma_load(s.w[at.stage].at, w, s.full[at.stage], k, tiles.expert * p.weight_rows + tiles.column);
      int row = mine;
#pragma unroll
      for (int i = 0; i < 4; i++)
        for (const int box = 64 >> i; mine + half - row >= box; row += box)
          tma_load_multicast(s.x[at.stage].panel(0, row), *x.of[i], s.full[at.stage], 3, k, tiles.row + row);
    }
  }
}

// A consumer warpgroup: its 64 rows of w of one tile after the other.
struct Consumer {
  Shared& s;
  const GroupedParams& p;
  const int me;
  GroupedTiles tiles;
  PipelineState<STAGES> at;

  template <int N>
  __device__ __forceinline__ void multiply_rows(Accumulator<N>& d) {
    const auto product = [&](int stage, bool first) {
      multiply(d, s.w[stage].panel(0, 64 * me), s.x[stage].panel(0), !first);
      wgmma_commit();
    };
    each_stage(d, s, at, p.k, kStep, product, [] {});
  }

  // Byte offset of 8 columns of y in a staged row.
  static __device__ __forceinline__ u32 staged(u32 row, u32 chunk) {
    return kChunks == 8 ? swizzled(row, chunk) : row * 64 + ((chunk ^ (row / 2 & 3)) << 4);
  }

  // Writes the 8×8 matrices [first, first + Count) of a warp's part of y into the staging buffer. Without a gate a warp
  // has
// two for each 8 rows.
  template <int Count, int N>
  __device__ __forceinline__ void stage(const Accumulator<N>& d, int first, int row) {
    const u32 warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, matrix = first + lane / 8 % Count;
    u32 values[Count];
#pragma unroll
    for (int i = 0; i < Count; i++) {
      if constexpr (EPILOGUE == kSwiglu) {
        const float *gate = d.at + 4 * (first + i), *up = gate + 2;
        values[i] = pack<TYPE>(gate[0] * sigmoid(gate[0]) * up[0], gate[1] * sigmoid(gate[1]) * up[1]);
      } else {
        values[i] = pack<TYPE>(d.at[2 * (first + i)], d.at[2 * (first + i) + 1]);
      }
    }
    const u32 to = EPILOGUE == kSwiglu ? staged(8 * matrix + lane % 8 - row, warp)
                                       : staged(matrix / 2 * 8 + lane % 8 - row, 2 * warp + matrix % 2);
    stmatrix_transposed(shared_address(s.y[me]) + to, values);
  }

  template <int N>
  __device__ __forceinline__ void make() {
    constexpr int kMatrices = kStagedRows * kChunks / 32;  // of a warp, staged at a time
    Accumulator<N> d;
    multiply_rows(d);
    const int chunk = threadIdx.x % kChunks;
    const int from = tiles.column / (64 / kOutColumns) + me * kOutColumns + chunk * 8;
#pragma unroll
    for (int first = 0; first < N; first += kStagedRows) {
      constexpr int kAll = N * kChunks / 32;
      named_barrier_sync(1 + me, kWarpgroup);
#pragma unroll
      for (int i = first * kChunks / 32; i < kAll && i < first * kChunks / 32 + kMatrices; i += 4) {
        if (kAll - i >= 4) {
          stage<4>(d, i, first);
        } else {
          if (kAll - i >= 2) stage<2>(d, i, first);
          if (kAll % 2) stage<1>(d, kAll - 1, first);
        }
      }
      named_barrier_sync(1 + me, kWarpgroup);
      for (int r = threadIdx.x % kWarpgroup / kChunks; r < kStagedRows && tiles.row + first + r < tiles.row_end;
           r += kWarpgroup / kChunks)
        if (from < p.columns)
          *(uint4*)(p.y + (size_t)(tiles.row + first + r) * p.columns + from) =
              *(const uint4*)((const char*)s.y[me] + staged(r, chunk));
    }
  }

  template <int N = 16>
  __device__ __forceinline__ void make_any() {
    if (tiles.width == N)
      make<N>();
    else if constexpr (N < kMost)
      make_any<rounded(N + 1)>();
  }
};

extern "C" __global__ void __cluster_dims__(kBlocks) __launch_bounds__(kWarpgroup*(kConsumers + 1), 1)
    grouped(const __grid_constant__ TensorMap x64, const __grid_constant__ TensorMap x32,
            const __grid_constant__ TensorMap x16, const __grid_constant__ TensorMap x8,
            const __grid_constant__ TensorMap w, const __grid_constant__ GroupedParams p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *(Shared*)raw;
  if (shared_address(raw) % 1024) __trap();
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) init(s.full[i], 1), init(s.empty[i], 4 * kConsumers * kBlocks);
    fence_init();
  }
  if (threadIdx.x < 32) find_rows(s, p);
  __syncthreads();
  sort_experts(s);
  __syncthreads();
  if (threadIdx.x < 32) count_tiles(s);
  __syncthreads();
  cluster_sync();
  if (warpgroup() == kConsumers) {
    setmaxnreg_dec<40>();
    if (warp_of_warpgroup() == 0 && elect_one()) produce(s, p, {{&x64, &x32, &x16, &x8}}, w);
  } else {
    setmaxnreg_inc<232>();
    Consumer consumer{s, p, warpgroup(), GroupedTiles(s, p)};
    while (consumer.tiles.advance()) consumer.make_any();
  }
  cluster_sync();
}
