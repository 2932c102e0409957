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
#include "grouped_schedule.cuh"

struct Boxes {
  const TensorMap* of[4];  // x in boxes of 64, 32, 16 and 8 rows
};

__device__ __forceinline__ void produce(Shared& s, const GroupedParams& p, const Boxes& x, const TensorMap& w) {
  GroupedTiles tiles(s, p);
  PipelineState<STAGES> at;
  while (tiles.advance()) {
    const int half = (tiles.width + 15) / 16 * 8, mine = tiles.rank * half;
    for (int k = 0; k < p.k; k += kTileK, at.advance()) {
      wait(s.empty[at.stage], at.parity ^ 1);
      arrive_expect_tx(s.full[at.stage], s.w[0].kBytes + 2 * half * kTileK * sizeof(TYPE));
      const int first = tiles.expert * p.weight_rows + tiles.column;
      if (TILED)  // w is [k / 8][rows / 16][128]: core_matrices.py
        tma_load(s.w[at.stage].at, w, s.full[at.stage], 0, first / 16, k / 8);
      else
        tma_load(s.w[at.stage].at, w, s.full[at.stage], k, first);
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
      if constexpr (TILED)
        multiply_cores<kRows>(d, s.w[stage].at + 64 * me * 8, s.x[stage].panel(0), !first);
      else
        multiply(d, s.w[stage].panel(0, 64 * me), s.x[stage].panel(0), !first);
      wgmma_commit();
    };
    each_stage(d, s, at, p.k, kTileK, product, [] {});
  }

  // Byte offset of 8 columns of y in a staged row.
  static __device__ __forceinline__ u32 staged(u32 row, u32 chunk) {
    return kChunks == 8 ? swizzled(row, chunk) : row * 64 + ((chunk ^ (row / 2 & 3)) << 4);
  }

  // Writes the 8×8 matrices [first, first + Count) of a warp's part of y; without a gate two for each 8 rows.
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
    for (int i = 0; i < STAGES; i++) {
      init(s.full[i], 1);
      init(s.empty[i], 4 * kConsumers * kBlocks);
    }
    fence_init();
  }
  find_tiles(s, p);
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
