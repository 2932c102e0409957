// y [m, n] = epilogue(x [m, k] · w [n, k]ᵀ): persistent, warp-specialised, in clusters of two blocks.
//
// A block computes tiles of 128 × BN. Two consumer warpgroups multiply 64 rows each. One producer thread fills a ring
// of STAGES; a stage holds 128 bytes of K of x (128 rows) and of w (BN rows). After the last step of a tile the
// producer loads the residual in two halves. The two blocks of a cluster take tiles one below the other, and each loads
// half of w's rows for both. A tile is stored in two halves. The first is stored at once. The second waits in registers
// and is stored while the first products of the next tile run.
//   barrier     arrivals a phase                          means
//   full[s]     1, the bytes, 1 more with block scales    stage s holds one step of K, or half of the residual
//   empty[s]    8 consumer warps of each block            no warp of the cluster reads stage s any more
#include "promotion.cuh"
using namespace epilogue;

// NORMALISE: each row is divided by the root mean square of its x. PROMOTE: sums over 128 of k are added to a second
// accumulator. SCALES of e4m3 operands: 0 none, 1 one for each tensor, 2 one for each row, 3 one for each block.
constexpr int kTileK = 128 / sizeof(TYPE), kConsumers = 2;
constexpr bool kIsResidual = EPILOGUE == kResidual, kBlockScales = SCALES == 3;
constexpr int kOutColumns = EPILOGUE == kSwiglu ? BN / 2 : BN;  // columns of y in a tile
constexpr int kPanelColumns = 128 / sizeof(OUT), kPanels = kOutColumns / kPanelColumns;
constexpr int kStaged = (kPanels + 1) / 2,
              kResidualSteps = kIsResidual ? 2 : 0;  // panels of y that are stored together
constexpr bool kHolds = !PROMOTE && EPILOGUE != kQuantise && kPanels > 1;
static_assert(!kIsResidual || kStaged * 2 == kPanels, "a half of the residual fills the place of w");

struct Shared {
  SharedTile<TYPE, kRows, kTileK> x[STAGES];
  SharedTile<TYPE, BN, kTileK> w[STAGES];
  SharedTile<OUT, 64, kStaged * kPanelColumns> y[kConsumers];
  float w_scales[kConsumers][SCALES == 2 ? BN : 1], scales[STAGES][kBlockScales ? kRows + BN / 128 : 1];
  OUT bias[kConsumers][EPILOGUE == kBias ? BN : 2];
  Barrier full[STAGES], empty[STAGES];
  __device__ __forceinline__ OUT* residual(int stage, int i) { return (OUT*)w[stage].at + i * 64 * kPanelColumns; }
};
static_assert(sizeof(Params) == PARAMS_BYTES, "hopper_call.PARAMS");
static_assert(BYTES_UP_TO(Shared, empty) <= SHARED_BYTES, "Tile.shared_bytes of hopper_tiles.py");

__device__ __forceinline__ void produce(Shared& s, const Params& p, const TensorMap& x, const TensorMap& w,
                                        const TensorMap& residual) {
  Tiles tiles(p);
  PipelineState<STAGES> at;
  const int half = tiles.rank * (BN / kBlocks);
  while (tiles.advance()) {
    for (int k = 0; k < p.k; k += kTileK, at.advance()) {
      wait(s.empty[at.stage], at.parity ^ 1);
      arrive_expect_tx(s.full[at.stage], s.x[0].kBytes + s.w[0].kBytes);
      tma_load(s.x[at.stage].at, x, s.full[at.stage], k, tiles.row);
      tma_load_multicast(s.w[at.stage].panel(0, half), w, s.full[at.stage], 3, k, tiles.column * BN + half);
    }
    for (int part = 0; part < kResidualSteps; part++, at.advance()) {
      wait(s.empty[at.stage], at.parity ^ 1);
      arrive_expect_tx(s.full[at.stage], kConsumers * s.y[0].kBytes);
      for (int i = 0; i < kConsumers * kStaged; i++)
        tma_load(s.residual(at.stage, i), residual, s.full[at.stage],
                 tiles.column * BN + (part * kStaged + i % kStaged) * kPanelColumns, tiles.row + i / kStaged * 64);
    }
  }
}

// A consumer warpgroup: its 64 rows of one tile after the other.
struct Consumer {
  Shared& s;
  const Params& p;
  const TensorMap& y;
  const int me;
  Tiles tiles;
  PipelineState<STAGES> at;
  Accumulator<BN> d;
  u32 held[kHolds ? kPanels - kStaged : 1][4][4];  // the half of the last tile that is not stored yet
  int row, column;                                 // first row and column of that tile

  template <int Half>
  __device__ __forceinline__ void store_half() {
    constexpr int kFrom = Half * kStaged;
    const int from = column + kFrom * kPanelColumns;
    store_panels<Half ? kPanels - kStaged : kStaged>(s.y[me], y, 1 + me, from, row, [&](OUT* panel, int i) {
      const int c = from + i * kPanelColumns;
      if (EPILOGUE == kQuantise && c < p.columns)
        quantise(panel, d, kFrom + i, p.y_scales + c / 128, row, p.rows, p.y_scale_stride);
      if constexpr (kHolds && Half)
        put_panel(panel, held[i]);
      else if constexpr (EPILOGUE != kQuantise)
        put_panel(panel, d, kFrom + i);
    });
  }

  __device__ __forceinline__ void apply(int i) {  // the epilogue of panel i of y
    constexpr int kShare = BN / 64 / kPanels;
#pragma unroll
    for (int j = 0; j < kShare; j++)
      if (SCALES == 2) scale_columns(d, i * kShare + j, s.w_scales[me]);
    if constexpr (EPILOGUE == kBias) add_bias(d, i, s.bias[me]);
    if constexpr (EPILOGUE == kSwiglu) swiglu(d, i);
    if constexpr (kIsResidual) {
      if (i % kStaged == 0) wait(s.full[at.stage], at.parity);
      add_panel(d, s.residual(at.stage, me * kStaged + i % kStaged), i);
      if (i % kStaged == kStaged - 1) {
        release(s.empty[at.stage]);
        at.advance();
      }
    }
  }

  __device__ __forceinline__ void run() {
    bool more = tiles.advance();
    if (PROMOTE && me == 1) warp_scheduler_barrier_arrive(0);
    for (row = -1; more;) {
      Rows by = {1.f, 1.f};
      float sum = 0.f;
      const auto overlapped_prologue = [&] {
        if (kHolds && row >= 0) store_half<1>();
        if (EPILOGUE == kBias) fetch_columns(s.bias[me], (const OUT*)p.bias, tiles.column * kOutColumns, p.columns);
        if (SCALES == 1) by = one_scale(p.x_scales, p.w_scales);
        if (SCALES == 2) by = scales_of(p.x_scales, tiles.row + 64 * me, p.rows);
        if (SCALES == 2) fetch_columns(s.w_scales[me], p.w_scales, tiles.column * BN, p.columns * (BN / kOutColumns));
      };
      if constexpr (PROMOTE) {
        overlapped_prologue();
        multiply_tile_promoted<kBlockScales, TYPE>(d, s, at, me, p.steps(kTileK));
      } else {
        sum = multiply_tile<NORMALISE, TYPE>(d, s, at, me, p.steps(kTileK), overlapped_prologue);
      }
      if (NORMALISE) by = root_mean_squares(sum, p.k, p.epsilon);
      if (NORMALISE || SCALES == 1 || SCALES == 2) scale_rows(d, by);
      if (EPILOGUE == kBias || SCALES == 2) {
        cp_async_wait_all();
        named_barrier_sync(1 + me, kWarpgroup);
      }
      row = tiles.row + 64 * me;
      column = tiles.column * kOutColumns;
#pragma unroll
      for (int i = 0; i < kPanels; i++) apply(i);
      store_half<0>();
#pragma unroll
      for (int i = kStaged; kHolds && i < kPanels; i++) convert_panel<OUT>(held[i - kStaged], d, i);
      if (!kHolds && kPanels > 1) store_half<1>();
      more = tiles.advance();
      if (kHolds && !more) store_half<1>();  // after the loop, ptxas would grant 168 registers instead of 232
    }
  }
};

extern "C" __global__ void __cluster_dims__(kBlocks) __launch_bounds__(kWarpgroup*(kConsumers + 1), 1)
    gemm(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap y,
         const __grid_constant__ TensorMap residual, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *(Shared*)raw;
  if (shared_address(raw) % 1024) __trap();
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      init(s.full[i], 1 + kBlockScales);
      init(s.empty[i], 4 * kConsumers * kBlocks);
    }
    fence_init();
  }
  cluster_sync();
  if (warpgroup() == kConsumers) {
    setmaxnreg_dec<40>();
    if (warp_of_warpgroup() == 0 && elect_one()) produce(s, p, x, w, residual);
    if (kBlockScales && warp_of_warpgroup() == 1) put_scales<BN, STAGES>(s, p, p.steps(kTileK) + kResidualSteps);
  } else {
    setmaxnreg_inc<232>();
    Consumer{s, p, y, warpgroup(), Tiles(p)}.run();
  }
  tma_store_wait();  // here and not at the end of Consumer::run, where ptxas would grant 168 registers instead of 232
  cluster_sync();
}
