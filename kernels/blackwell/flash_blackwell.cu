// FlashAttention's forward pass for sm_100a: scores and weighted sums in tensor memory (TMEM). Compiled and emulated;
// never run on the chip. docs/kernels/flash-blackwell.md shows its pipeline.
//
// Macros: TYPE (bf16, f16) and KIND (its MatrixKind), HEAD_DIM (64, 128), KEYS (of a block: 128), SLOTS (blocks of keys
// or values in flight), CAUSAL, WINDOW (0: none).
//
// A block of the grid works on tiles of 256 queries, one after the other. A tile has two halves of 128 queries. While
// the tensor cores multiply for one half, the other half's warps compute exponentials. Roles of warps:
//   warps 0 to 3, 4 to 7   softmax of half 0 and half 1: a thread has one query
//   warp 8                 one thread copies queries, keys and values into shared memory
//   warp 9                 takes TMEM and gives it back; one thread issues the products
//   warps 10, 11           idle: registers move from warpgroup to warpgroup
// Blocks of keys are visited from the last to the first. The ring holds K of the last block, then V of a block and K of
// the next one alternately.
//   barrier      arrivals a phase   means
//   full[s]      1, the bytes       slot s holds a block of keys or values
//   empty[s]     1, a commit        the products that read slot s have ended
//   q_full[h]    1, the bytes       the queries of half h are in shared memory
//   q_empty[h]   1, a commit        the last scores of half h in this tile are in TMEM
//   scores[h]    1, a commit        the scores of half h with a block are in TMEM
//   weights[h]   4 warps            their exponentials are in TMEM, and the sums so far are rescaled to their base
//   sums[h]      1, a commit        the values of that block are summed
#include "tcgen05_tiles.cuh"
#include "visible.cuh"
using namespace tiles;

constexpr int kRows = 128, kWarps = 4, kSoftmaxWarps = 2 * kWarps;  // queries and warps of a half
constexpr float kHeadroom = 8;  // a query's base is raised when an exponential would exceed 2^kHeadroom
using Queries = SharedTile<TYPE, kRows, HEAD_DIM>;
using Keys = SharedTile<TYPE, KEYS, HEAD_DIM>;

struct Shared {
  Queries q[2];
  Keys ring[SLOTS];
  SharedTile<TYPE, 32, 64> o[kSoftmaxWarps];
  Barrier full[SLOTS], empty[SLOTS], q_full[2], q_empty[2], scores[2], sums[2], weights[2];
  u32 tmem;
};
static_assert(sizeof(Shape) == PARAMS_BYTES, "flash_plan.SHAPE");
static_assert(BYTES_UP_TO(Shared, tmem) <= SHARED_BYTES, "flash_blackwell.shared_bytes");
static_assert(2 * (KEYS + HEAD_DIM) <= kTmemColumns, "columns of TMEM");

// Columns of TMEM: scores of both halves, then sums of both. Exponentials, two in a word, take the place of scores.
__device__ __forceinline__ u32 scores_of(u32 tmem, int half) { return tmem + half * KEYS; }
__device__ __forceinline__ u32 sums_of(u32 tmem, int half) { return tmem + 2 * KEYS + half * HEAD_DIM; }

// The blocks of keys [begin, end) that queries see: those of a half, or of both halves.
struct Blocks {
  int begin, end;
  __device__ __forceinline__ bool has(int block) const { return block >= begin && block < end; }
  __device__ __forceinline__ bool any() const { return begin < end; }
};
__device__ __forceinline__ Blocks blocks_of(const Shape& shape, int first, int rows = kRows) {
  if (first + rows <= 0) return {0, 0};  // queries before the first: a tile may begin there
  return {first_block(shape, first), end_block(shape, first + rows - 1)};
}

// Waits for the end of phase number `phase`, and orders products and TMEM loads behind it.
__device__ __forceinline__ void wait_for(Barrier& barrier, u32 phase) {
  wait(barrier, phase & 1);
  tcgen05_fence_after();
}

__device__ __forceinline__ void load(Shared& s, const Shape& shape, const TensorMap& q, const TensorMap& k,
                                     const TensorMap& v) {
  PipelineState<SLOTS> slot;
  u32 loaded[2] = {0, 0};  // queries of each half
  Tile tile;
  for (int round = 0; tile = tile_at(shape, round), tile.is_one; round++) {
    const auto put = [&](const TensorMap& map, int block) {
      wait(s.empty[slot.stage], slot.parity ^ 1);
      arrive_expect_tx(s.full[slot.stage], Keys::kBytes);
      tma_load_tile(s.ring[slot.stage], map, s.full[slot.stage], 0, tile.head / shape.group, block * KEYS, tile.batch);
      slot.advance();
    };
    for (int half = 0; half < 2; half++) {
      const int first = tile.row + half * kRows;
      if (!blocks_of(shape, first).any()) continue;
      wait(s.q_empty[half], ++loaded[half] & 1);
      arrive_expect_tx(s.q_full[half], Queries::kBytes);
      tma_load_tile(s.q[half], q, s.q_full[half], 0, tile.head, first, tile.batch);
    }
    const Blocks all = blocks_of(shape, tile.row, 2 * kRows);
    for (int block = all.end - 1; block >= all.begin; block--) {
      put(k, block);
      put(v, block);
    }
  }
}

__device__ __forceinline__ void multiply(Shared& s, const Shape& shape) {
  PipelineState<SLOTS> slot;
  u32 queries[2] = {0, 0}, weights[2] = {0, 0};  // phases that were waited for
  const auto next = [&]() {                      // waits for the next block of the ring and returns its slot
    const int stage = slot.stage;
    wait_for(s.full[stage], slot.parity);
    slot.advance();
    return stage;
  };
  Tile tile;
  for (int round = 0; tile = tile_at(shape, round), tile.is_one; round++) {
    const Blocks all = blocks_of(shape, tile.row, 2 * kRows);
    for (int block = all.end - 1; all.any() && block >= all.begin - 1; block--) {
      const bool last = block == all.end - 1, first = block < all.begin;  // no values yet; no keys any more
      const int values = last ? 0 : next(), keys = first ? 0 : next();
      for (int half = 0; half < 2; half++) {
        const Blocks mine = blocks_of(shape, tile.row + half * kRows);
        if (mine.has(block + 1)) {  // in the order of issue: the scores below overwrite these weights
          wait_for(s.weights[half], weights[half]++);
          multiply_columns<KIND>(sums_of(s.tmem, half), scores_of(s.tmem, half), s.ring[values], block + 2 < mine.end);
          tcgen05_commit(s.sums[half]);
        }
        if (mine.has(block)) {
          if (block == mine.end - 1) wait_for(s.q_full[half], queries[half]++);
          multiply_rows<KIND>(scores_of(s.tmem, half), s.q[half], s.ring[keys]);
          tcgen05_commit(s.scores[half]);
          if (block == mine.begin) tcgen05_commit(s.q_empty[half]);
        }
      }
      if (!last) tcgen05_commit(s.empty[values]);
      if (!first) tcgen05_commit(s.empty[keys]);
    }
  }
}

// Scores of query `row` with a block of keys that it does not see become -infinity. `first` is its half's first query.
__device__ __forceinline__ void mask(float (&x)[KEYS], const Shape& shape, int first, int row, int block) {
  const int key = block * KEYS;
  if (key >= first_key(shape, first + kRows - 1) && key + KEYS <= end_key(shape, first)) return;
  const int begin = first_key(shape, row) - key, end = end_key(shape, row) - key;
#pragma unroll
  for (int i = 0; i < KEYS; i++)
    if (i < begin || i >= end) x[i] = -CUDART_INF_F;
}

// One warp's 32 queries of o, from `row` on: the sums in TMEM times `by`, by way of a panel in shared memory.
__device__ __forceinline__ void store(const TensorMap& o, TYPE* panel, u32 sums, float by, const Tile& tile, int row) {
  const int lane = threadIdx.x % 32;
  for (int column = 0; column < HEAD_DIM; column += 64) {
    if (lane == 0) tma_store_wait_read();
    __syncwarp();
    put_row_of_tmem<64>(panel, sums + column, by);
    fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0 && row >= 0) {
      tma_store(o, panel, column, tile.head, row, tile.batch);
      tma_store_commit();
    }
  }
}

// The softmax of one warp's queries in a half, a query a thread. Exponentials are 2^(score · scale - base), `sum` is
// their sum. Scores are read from TMEM, exponentials written there.
__device__ __forceinline__ void attend(Shared& s, const Shape& shape, const TensorMap& o, int half, int warp) {
  const u32 scores = tmem_lane(scores_of(s.tmem, half), 32 * warp), sums = tmem_lane(sums_of(s.tmem, half), 32 * warp);
  const int lane = threadIdx.x % 32;
  u32 phase = 0;  // of `scores` and `sums`: one for each block
  Tile tile;
  for (int round = 0; tile = tile_at(shape, round), tile.is_one; round++) {
    const int first = tile.row + half * kRows, row = first + 32 * warp;
    const Blocks mine = blocks_of(shape, first);
    float base = -CUDART_MAX_NORMAL_F, sum = 0, x[KEYS];
    for (int block = mine.end - 1; block >= mine.begin; block--, phase++) {
      wait_for(s.scores[half], phase);
      tmem_load(x, scores);
      mask(x, shape, first, row + lane, block);
      const float top = largest(x) * shape.scale;
      if (__any_sync(~0u, top > base + kHeadroom)) {  // only then it waits for the values of the block before
        const float raised = fmaxf(base, top), scores_scale = ex2_ftz(base - raised);
        base = raised;
        sum *= scores_scale;
        if (block + 1 < mine.end) {
          wait_for(s.sums[half], phase - 1);
          tmem_scale<HEAD_DIM>(sums, scores_scale);
        }
      }
#pragma unroll
      for (int i = 0; i < KEYS; i++) x[i] = ex2_ftz(fmaf(x[i], shape.scale, -base));
      sum += total(x);
      tmem_store_packed<TYPE>(scores, x);
      tcgen05_fence_before();
      __syncwarp();
      if (lane == 0) arrive(s.weights[half]);
    }
    if (mine.any()) wait_for(s.sums[half], phase - 1);
    if (!mine.any()) tmem_zero<HEAD_DIM>(sums);
    store(o, s.o[half * kWarps + warp].at, sums, sum == 0 ? 0 : __fdividef(1, sum), tile, row);
  }
  if (lane == 0) tma_store_wait();
}

extern "C" __global__ void __launch_bounds__(3 * kWarpgroup, 1)
    flash_blackwell(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                    const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap o, const Shape shape) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *(Shared*)raw;
  const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0);
  if (threadIdx.x == 0) {
    for (Barrier* each = s.full; each < s.weights; each++) init(*each, 1);
    for (Barrier& each : s.weights) init(each, kWarps);
    fence_init();
  }
  if (warp == kSoftmaxWarps + 1) tmem_take(&s.tmem);
  tcgen05_cluster_sync();
  if (warp < kSoftmaxWarps) {
    setmaxnreg_inc<232>();
    attend(s, shape, o, warp / kWarps, warp % kWarps);
  } else {
    setmaxnreg_dec<40>();
    if (warp == kSoftmaxWarps && elect_one()) load(s, shape, q, k, v);
    if (warp == kSoftmaxWarps + 1 && elect_one()) multiply(s, shape);
  }
  __syncwarp();
  tcgen05_cluster_sync();
  if (warp == kSoftmaxWarps + 1) tmem_free(s.tmem);
}
