// y [m, n] = epilogue(x [m, k] · w [n, k]ᵀ): persistent, warp-specialised, in clusters of two blocks.
//
// A block makes 128 × BN tiles. Two warpgroups multiply 64 rows each; one thread of a third keeps a ring of STAGES
// filled with 128 bytes of K of x (128 rows) and w (BN rows). The two blocks of a cluster take tiles one below the
// other: each fetches half of w's rows for both. While a tile leaves through the copy engine the ring is already being
// filled with the next one.
//
//   barrier     arrivals a phase                         means
//   full[s]     1, and the bytes of both operands        stage s holds one step of K
//   empty[s]    8 consumer warps of each block           nobody in the cluster reads stage s any more
//   residual[c] 1, and the bytes of 64 rows of residual  consumer c's staging holds them
#include "epilogues.cuh"
#include "mainloops.cuh"
using namespace epilogue;

// NORMALISE: each row is divided by the root mean square of its x. TWO_LEVELS: sums of 128 of k are added up apart.
// SCALES of e4m3 operands: 0 none, 1 one for each tensor, 2 one for each row, 3 one for each block.
constexpr int kStep = 128 / sizeof(TYPE), kConsumers = 2;
constexpr bool kIsResidual = EPILOGUE == kResidual;
constexpr int kOutColumns = EPILOGUE == kSwiglu ? BN / 2 : BN;  // columns of y in a tile
constexpr int kPanelColumns = 128 / sizeof(OUT), kPanels = kOutColumns / kPanelColumns;
constexpr int kStaged = PANELS < kPanels ? PANELS : kPanels;  // panels of y a warpgroup writes at a time
static_assert(kPanels % kStaged == 0 && (!kIsResidual || kStaged == kPanels), "whole rounds");

struct Shared {
  SharedTile<TYPE, kRows, kStep> x[STAGES];
  SharedTile<TYPE, BN, kStep> w[STAGES];
  SharedTile<OUT, 64, kStaged * kPanelColumns> y[kConsumers];
  float w_scales[kConsumers][SCALES == 2 ? BN : 1];
  OUT bias[kConsumers][EPILOGUE == kBias ? BN : 2];
  Barrier full[STAGES], empty[STAGES], residual[kConsumers];
};

__device__ __forceinline__ void produce(Shared& s, const Params& p, const TensorMap& x, const TensorMap& w) {
  Tiles tiles(p);
  Cursor<STAGES> at;
  const int half = tiles.rank * (BN / kBlocks);
  while (tiles.advance())
    for (int k = 0; k < p.k; k += kStep, at.advance()) {
      wait(s.empty[at.stage], at.parity ^ 1);
      expect(s.full[at.stage], s.x[0].kBytes + s.w[0].kBytes);
      copy_in(s.x[at.stage].at, x, s.full[at.stage], k, tiles.row);
      copy_in_all(s.w[at.stage].panel(0, half), w, s.full[at.stage], 3, k, tiles.column * BN + half);
    }
}

// One panel of y, columns from `column` on: made of kShare times 64 columns of the accumulator.
template <Kind E, typename T>
__device__ __forceinline__ void put(T* panel, Accumulator<BN>& d, int part, Shared& s, int me, const Params& p, int row,
                                    int column) {
  constexpr int kShare = BN / 64 / kPanels;
#pragma unroll
  for (int i = 0; i < kShare; i++)
    if (SCALES == 2) scale_columns(d, part * kShare + i, s.w_scales[me]);
  if constexpr (E == kBias) add_bias(d, part, s.bias[me]);
  if constexpr (E == kSwiglu) swiglu(d, part);
  if constexpr (E == kResidual) add_panel(d, panel, part);
  if constexpr (E == kQuantise)
    quantise(panel, d, part, p.y_scales + column / 128, row, p.rows, p.y_scale_stride);
  else
    put_panel(panel, d, part);
}

__device__ __forceinline__ void consume(Shared& s, const Params& p, const TensorMap& y, const TensorMap& residual) {
  Tiles tiles(p);
  Cursor<STAGES> at;
  Accumulator<BN> d;
  const int me = warpgroup(), leads = threadIdx.x % kWarpgroup == 0;
  auto& staging = s.y[me];
  Rows by = {1.f, 1.f};
  if (SCALES == 1) by = one_scale(p.x_scales, p.w_scales);
  for (u32 parity = 0; tiles.advance(); parity ^= 1) {
    const int row = tiles.row + 64 * me, column = tiles.column * kOutColumns;
    const auto early = [&] {
      if (EPILOGUE == kBias) fetch_columns(s.bias[me], (const OUT*)p.bias, column, p.columns);
      if (SCALES == 2) by = scales_of(p.x_scales, row, p.rows);
      if (SCALES == 2) fetch_columns(s.w_scales[me], p.w_scales, tiles.column * BN, p.columns * (BN / kOutColumns));
      if (kIsResidual && leads) {
        wait_copies_read();
        expect(s.residual[me], staging.kBytes);
        load(staging, residual, s.residual[me], column, row);
      }
    };
    if constexpr (TWO_LEVELS) {
      multiply_tile_in_two_levels<SCALES == 3, TYPE>(d, s, at, me, p, row, tiles.column * BN, early);
    } else {
      const float sum = multiply_tile<NORMALISE, TYPE>(d, s, at, me, p.k, early);
      if (NORMALISE) scale_rows(d, root_mean_squares(sum, p.k, p.epsilon));
    }
    if (SCALES == 1 || SCALES == 2) scale_rows(d, by);
    if (kIsResidual) wait(s.residual[me], parity);
    wait_words();
#pragma unroll
    for (int first = 0; first < kPanels; first += kStaged) {
      if (!kIsResidual && leads) wait_copies_read();
      named_sync(1 + me, kWarpgroup);
#pragma unroll
      for (int i = 0; i < kStaged; i++) {
        const int c = column + (first + i) * kPanelColumns;
        if (c < p.columns) put<EPILOGUE>(staging.panel(i), d, first + i, s, me, p, row, c);
      }
      fence_async_shared();
      named_sync(1 + me, kWarpgroup);
      if (leads) store(y, staging, column + first * kPanelColumns, row), commit_copies();
    }
  }
}

extern "C" __global__ void __cluster_dims__(kBlocks) __launch_bounds__(kWarpgroup * (kConsumers + 1), 1)
    gemm(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap y,
         const __grid_constant__ TensorMap residual, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *(Shared*)raw;
  if (shared_address(raw) % 1024) __trap();
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) init(s.full[i], 1), init(s.empty[i], 4 * kConsumers * kBlocks);
    for (int i = 0; i < kConsumers; i++) init(s.residual[i], 1);
    fence_init();
  }
  cluster_sync();
  if (warpgroup() == kConsumers) {
    give_registers<40>();
    if (warp_of_warpgroup() == 0 && elected()) produce(s, p, x, w);
  } else {
    take_registers<232>();
    consume(s, p, y, residual);
  }
  wait_copies_done();  // here, not at the end of `consume`: there ptxas would grant it 168 registers, not 232
  cluster_sync();
}
