// The kernel of gemm.cu and grouped.cu on sm_100a: persistent, warp-specialised, sums in tensor memory
// (TMEM). Each of the two defines, before it includes this file, whose products these are: Params, Schedule and Tiles.
// Compiled and emulated; never run on the chip.
//
// A block computes tiles of 128 × BN, one after the other. With BLOCKS of 2 the two blocks of a cluster are a pair:
// they take tiles one below the other, each loads half of w, and the first one issues the products of both. The warps
// of a block have three roles:
//   warps 0 to 3   epilogue: 32 rows each, from TMEM through registers and shared memory to y
//   warp 4         one thread fills a ring of STAGES by the copy engine
//   warp 5         takes TMEM and gives it back; one thread issues the products
// A stage holds 128 bytes of K of x (128 rows) and of w (BN / BLOCKS rows), and the block scales of these rows of x and
// of all BN rows of w, which each block of a pair needs: with BN of 256 each sends half of them to both. TMEM holds two
// accumulators where there is room, so that one is read while the next is summed.
//   barrier      arrivals a phase                means
//   full[s]      1 of each block, the bytes      stage s holds one step of K; in a pair, that of both blocks
//   empty[s]     1, a commit                     the products that read stage s have ended
//   summed[a]    1, a commit                     accumulator a holds a whole tile
//   drained[a]   4 warps of each block           accumulator a has been read; in a pair, by both blocks
// A pair uses full and drained of its first block.
#pragma once
#include "epilogue.cuh"

// Of a stage: instructions, values of K (NVFP4: bytes).
constexpr int kInstructions = 4, kTileK = KIND == kBf16 || KIND == kF16 ? 64 : 128;
// Whether there are block scales, and whether each block of a pair sends half of w's to both.
constexpr bool kBlocks = is_block_scaled(KIND), kBoth = kBlocks && BLOCKS == 2 && BN == 2 * kRows;
// Of 128 rows and a stage: tiles of scales, their bytes, their columns of TMEM.
constexpr int kScaleTiles = KIND == kNvfp4 ? 4 : 1, kScaleBytes = kBlocks ? kScaleTiles * kScaleTileBytes : 0;
constexpr int kScaleColumns = kBlocks ? kScaleTiles * kScaleTileColumns : 0, kRowTiles = BN / kRows;
constexpr int kAccumulators = 2 * BN + (1 + kRowTiles) * kScaleColumns <= kTmemColumns ? 2 : 1;
constexpr u32 kOwn = BN / BLOCKS, kStageBytes = (kRows + kOwn) * 128 + (1 + kRowTiles) * kScaleBytes;

// Maps of the operands and of y; with block scales also of their tiles of 128 × 4, as words [row tile][tile][128].
struct Maps {
  TensorMap x, w, y, x_scales, w_scales;
};

struct Shared {
  SharedTile<e4m3, kRows, 128> x[STAGES];
  SharedTile<e4m3, kOwn, 128> w[STAGES];
  Staging y[kEpilogueWarps];
  alignas(128) unsigned char x_scales[STAGES][kBlocks ? kScaleBytes : 1];
  alignas(128) unsigned char w_scales[STAGES][kBlocks ? kRowTiles * kScaleBytes : 1];
  Barrier full[STAGES], empty[STAGES], summed[kAccumulators], drained[kAccumulators];
  ClusterQueue queue;
  Schedule schedule;
  u32 tmem;
};
static_assert(sizeof(Params) == PARAMS_BYTES, "gemm_tiles.PARAMS or grouped_tiles.PARAMS");
static_assert(BYTES_UP_TO(Shared, tmem) <= SHARED_BYTES, "Tile.shared_bytes of gemm_tiles.py");
static_assert(kAccumulators * BN + (1 + kRowTiles) * kScaleColumns <= kTmemColumns, "columns of TMEM");

__device__ __forceinline__ void produce(Shared& s, const Params& p, const Maps& maps) {
  PipelineState<STAGES> at;
  for (Tiles<1> tile(p, s); tile.advance();) {
    tile.cluster.try_cancel();
    for (int step = 0; step < p.steps; step++, at.advance()) {
      Barrier& full = s.full[at.stage];
      wait(s.empty[at.stage], at.parity ^ 1);
      arrive_expect_tx_first(full, kStageBytes);
      tma_load_first<BLOCKS>(s.x[at.stage].at, maps.x, full, step * kTileK, tile.row);
      tma_load_first<BLOCKS>(s.w[at.stage].at, maps.w, full, step * kTileK, tile.weights + tile.rank * kOwn);
      if (!kBlocks) continue;
      tma_load_first<BLOCKS>(s.x_scales[at.stage], maps.x_scales, full, 0, step * kScaleTiles, tile.row / kRows);
      tma_load_both<BLOCKS, kBoth>(s.w_scales[at.stage] + kBoth * tile.rank * kScaleBytes, maps.w_scales, full, 0,
                                   step * kScaleTiles, tile.column * kRowTiles + kBoth * tile.rank);
    }
  }
}

// The scales of a stage in TMEM: for instruction i, those of x, or for each 128 rows of w those of w, in four columns
// each. MXFP8 has one tile for all four instructions.
__device__ __forceinline__ void copy_scales(const Shared& s, int stage, u32 x_scales, u32 w_scales) {
  for (int i = 0; i < kScaleTiles; i++) {
    const u32 from = i * kScaleTileBytes;
    tmem_copy_scales<BLOCKS>(x_scales + i * kScaleTileColumns,
                             scales_descriptor(shared_address(s.x_scales[stage]) + from));
    for (int t = 0; t < kRowTiles; t++)
      tmem_copy_scales<BLOCKS>(w_scales + (i * kRowTiles + t) * kScaleTileColumns,
                               scales_descriptor(shared_address(s.w_scales[stage]) + t * kScaleBytes + from));
  }
}

__device__ __forceinline__ void multiply(Shared& s, const Params& p) {
  const u32 x_scales = s.tmem + kAccumulators * BN, w_scales = x_scales + kScaleColumns;
  PipelineState<STAGES> at;
  PipelineState<kAccumulators> sum;
  for (Tiles<1> tile(p, s); tile.advance(); sum.advance()) {
    wait(s.drained[sum.stage], sum.parity ^ 1);
    const u32 d = s.tmem + sum.stage * BN;
    for (int step = 0; step < p.steps; step++, at.advance()) {
      wait(s.full[at.stage], at.parity);
      tcgen05_fence_after();
      const u64 a = operand_descriptor(shared_address(s.x[at.stage].at));
      const u64 b = operand_descriptor(shared_address(s.w[at.stage].at));
      if (kBlocks) copy_scales(s, at.stage, x_scales, w_scales);
#pragma unroll
      for (int i = 0; i < kInstructions; i++) {
        const u32 next = i * kNextInstruction, keep = step + i > 0, word = KIND == kNvfp4 ? i : 0;
        const u32 instruction = instruction_descriptor(KIND, kRows * BLOCKS, BN, KIND == kMxfp8 ? i : 0);
        tcgen05_mma<KIND, BLOCKS>(d, a + next, b + next, instruction, keep, x_scales + word * kScaleTileColumns,
                                  w_scales + word * kRowTiles * kScaleTileColumns);
      }
      tcgen05_commit<BLOCKS>(s.empty[at.stage]);
    }
    tcgen05_commit<BLOCKS>(s.summed[sum.stage]);
  }
}

// One warp: rows 32 · warp to 32 · warp + 31 of each tile.
__device__ __forceinline__ void finish(Shared& s, const Params& p, const TensorMap& y, int warp) {
  PipelineState<kAccumulators> sum;
  PipelineState<2> to;
  for (Tiles<32> tile(p, s); tile.advance(); sum.advance()) {
    const u32 sums = tmem_lane(s.tmem + sum.stage * BN, 32 * warp);
    wait(s.summed[sum.stage], sum.parity);
    tcgen05_fence_after();
    for (int panel = 0; panel < BN / kWide / kPanelColumns; panel++, to.advance())
      store_panel(s.y[warp][to.stage].at, tile, y, sums, panel, tile.row + 32 * warp);
    tcgen05_fence_before();
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive_remote(s.drained[sum.stage], 0);
  }
  if (threadIdx.x % 32 == 0) tma_store_wait();
}

extern "C" __global__ void __cluster_dims__(BLOCKS) __launch_bounds__(32 * (kEpilogueWarps + 2), 1)
    gemm(const __grid_constant__ Maps maps, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *(Shared*)raw;
  const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
  if (warp == 0) s.schedule.begin(p);
  if (threadIdx.x == 0) {
    init_ring(s.full, BLOCKS);
    init_ring(s.empty, 1);
    init_ring(s.summed, 1);
    init_ring(s.drained, kEpilogueWarps * BLOCKS);
    if (DYNAMIC) s.queue.begin((kEpilogueWarps + 1) * BLOCKS + 1);
    fence_init();
  }
  if (warp == kEpilogueWarps + 1) tmem_take<BLOCKS>(&s.tmem);
  tcgen05_cluster_sync();
  if (warp < kEpilogueWarps)
    finish(s, p, maps.y, warp);
  else if (elect_one()) {
    if (warp == kEpilogueWarps) produce(s, p, maps);
    if (warp == kEpilogueWarps + 1 && cluster_rank() == 0) multiply(s, p);
  }
  __syncwarp();
  tcgen05_cluster_sync();
  if (warp == kEpilogueWarps + 1) tmem_free<BLOCKS>(s.tmem);
}
