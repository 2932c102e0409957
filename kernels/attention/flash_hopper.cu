// FlashAttention's forward pass for Hopper. docs/kernels/flash-hopper.md shows its pipeline.
//
// Macros: TYPE (bf16, f16), HEAD_DIM (64, 128), CONSUMERS (warpgroups of 64 queries), KEYS (of a block), SLOTS (blocks
// of keys or values in flight), CAUSAL, WINDOW (0: none).
#include "softmax.cuh"
#include "visible.cuh"
using namespace tiles;

constexpr int kRows = 64 * CONSUMERS;
using Queries = SharedTile<TYPE, 64, HEAD_DIM>;
using Keys = SharedTile<TYPE, KEYS, HEAD_DIM>;

// Blocks of keys (K) and values (V) go through the ring in the order of their use: K0, K1, V0, K2, V1 and so on. K0 is
// the last block of keys; blocks are visited from the last to the first.
struct Shared {
  Queries q[CONSUMERS], o[CONSUMERS];
  Keys ring[SLOTS];
  Barrier full[SLOTS], empty[SLOTS], q_full[CONSUMERS], q_empty[CONSUMERS];
  Tile tile[CONSUMERS];
};
static_assert(sizeof(Shape) == PARAMS_BYTES, "flash_plan.SHAPE");
static_assert(BYTES_UP_TO(Shared, tile) + 1024 <= SHARED_BYTES,
              "flash_hopper.shared_bytes, with room to align to 1024");

// Sets scores to -infinity where a query does not see a key of the block. The warpgroup's 64 queries begin at `first`.
template <int N>
__device__ __forceinline__ void apply_mask(Accumulator<N>& s, const Shape& shape, int first, int block) {
  const int key = block * KEYS, row = first + own_row();
  if (key >= first_key(shape, first + 63) && key + KEYS <= end_key(shape, first)) return;
  const int begin[2] = {first_key(shape, row), first_key(shape, row + 8)};
  const int end[2] = {end_key(shape, row), end_key(shape, row + 8)};
#pragma unroll
  for (int i = 0; i < N / 2; i++) {
    const int r = i / 2 % 2, at = key + own_column() + i / 4 * 8 + i % 2;
    if ((unsigned)(at - begin[r]) >= (unsigned)(end[r] - begin[r])) s.at[i] = -CUDART_INF_F;
  }
}

__device__ __forceinline__ void load_queries(Shared& shared, const Shape& shape, const TensorMap& q) {
  u32 parity = 1;
  for (int round = 0;; round++, parity ^= 1) {
    const Tile tile = tile_at(shape, round);
    for (int w = 0; w < CONSUMERS; w++) {
      wait(shared.q_empty[w], parity);
      shared.tile[w] = tile;
      const bool inside = tile.is_one && tile.row + 64 * w >= 0;
      arrive_expect_tx(shared.q_full[w], inside ? Queries::kBytes : 0);
      if (inside) tma_load_tile(shared.q[w], q, shared.q_full[w], 0, tile.head, tile.row + 64 * w, tile.batch);
    }
    if (!tile.is_one) return;
  }
}

__device__ __forceinline__ void load_keys(Shared& shared, const Shape& shape, const TensorMap& k, const TensorMap& v) {
  PipelineState<SLOTS> slot;
  Tile tile = tile_at(shape, 0);
  const auto put = [&](const TensorMap& map, int block) {
    wait(shared.empty[slot.stage], slot.parity ^ 1);
    arrive_expect_tx(shared.full[slot.stage], Keys::kBytes);
    tma_load_tile(shared.ring[slot.stage], map, shared.full[slot.stage], 0, tile.head / shape.group, block * KEYS,
                  tile.batch);
    slot.advance();
  };
  for (int round = 1; tile.is_one; tile = tile_at(shape, round++)) {
    const int begin = first_block(shape, tile.row), end = end_block(shape, tile.row + kRows - 1);
    for (int block = end - 1; block >= begin; block--) {
      put(k, block);
      if (block + 1 < end) put(v, block + 1);
    }
    if (begin < end) put(v, begin);
  }
}

__device__ __forceinline__ void attend(Shared& shared, const Shape& shape, const TensorMap& map_o, int me) {
  PipelineState<SLOTS> slot;
  u32 parity = 0;
  const bool leads_warp = threadIdx.x % 32 == 0, leads = threadIdx.x % kWarpgroup == 0;
  const auto release = [&](int stage) {
    __syncwarp();
    if (leads_warp) arrive(shared.empty[stage]);
  };
  const auto next = [&]() {  // waits for the next block of the ring and returns its stage
    const int stage = slot.stage;
    wait(shared.full[stage], slot.parity);
    slot.advance();
    return stage;
  };
  // Warpgroups issue products in turn: while those of one run, the others compute exponentials.
  const auto warp_scheduler_barrier_sync = [&]() { named_barrier_sync(1 + me, 2 * kWarpgroup); };
  const auto warp_scheduler_barrier_arrive = [&]() { named_barrier_arrive(1 + (me + 1) % CONSUMERS, 2 * kWarpgroup); };
  if (me == CONSUMERS - 1) warp_scheduler_barrier_arrive();

  for (;; parity ^= 1) {
    wait(shared.q_full[me], parity);
    const Tile tile = shared.tile[me];
    if (!tile.is_one) break;
    const int first = tile.row + 64 * me;
    const int begin = first_block(shape, tile.row), end = end_block(shape, tile.row + kRows - 1);
    const int mine =
        first >= 0 ? end_block(shape, first + 63) : begin;  // the first block that only other warpgroups see
    Accumulator<HEAD_DIM> o;
    Accumulator<KEYS> s;
    u32 p[KEYS / 16][4];
    RowSoftmax rows[2];
    zero(o);

    const auto issue_scores = [&](int stage) {
      fence_operand(s);
      wgmma_fence();
#pragma unroll
      for (int panel = 0; panel < Keys::kPanels; panel++)
        multiply<TYPE>(s, shared.q[me].panel(panel), shared.ring[stage].panel(panel), panel);
      wgmma_commit();
    };
    const auto issue_values = [&](int stage) {
      const u64 values = n_major(shared.ring[stage].at, KEYS * 128);
      fence_operand(o);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < KEYS / 16; k++) Product<TYPE, HEAD_DIM>::template run<true>(o, p[k], values + k * kNextRows);
      wgmma_commit();
    };
    const auto softmax_block =
        [&](int block) {  // scores become exponentials while the values of the block before are multiplied
          apply_mask(s, shape, first, block);
          exponentials(s, rows, shape.scale, [&](const float(&scores_scale)[2]) {
            wgmma_wait<0>();
            fence_operand(o);
            scale_rows(o, scores_scale);
            fence_operand(o);
          });
        };
    const auto convert_all = [&]() {
#pragma unroll
      for (int k = 0; k < KEYS / 16; k++) convert<TYPE>(p[k], s, k);
    };

    int block = end - 1;
    for (; block >= mine; block--) {
      warp_scheduler_barrier_sync();
      warp_scheduler_barrier_arrive();
      release(next());
      if (block + 1 < end) release(next());
    }
    if (block >= begin) {
      const int keys = next();
      warp_scheduler_barrier_sync();
      issue_scores(keys);
      warp_scheduler_barrier_arrive();
      wgmma_wait<0>();
      fence_operand(s);
      release(keys);
      if (block + 1 < end) release(next());
      softmax_block(block);
      convert_all();
    }
    for (block--; block >= begin; block--) {
      const int keys = next();
      warp_scheduler_barrier_sync();
      issue_scores(keys);
      const int values = next();
      issue_values(values);
      warp_scheduler_barrier_arrive();
      wgmma_wait<1>();
      fence_operand(s);
      release(keys);
      softmax_block(block);
      wgmma_wait<0>();
      fence_operand(o);
      release(values);
      convert_all();
    }
    __syncwarp();
    if (leads_warp) arrive(shared.q_empty[me]);
    if (begin < end) {
      const int values = next();
      if (begin < mine) {
        issue_values(values);
        wgmma_wait<0>();
        fence_operand(o);
      }
      release(values);
    }

    const float inverse[2] = {rows[0].inverse(), rows[1].inverse()};
    scale_rows(o, inverse);
    if (leads) tma_store_wait_read();
    named_barrier_sync(1 + CONSUMERS + me, kWarpgroup);
#pragma unroll
    for (int panel = 0; panel < Queries::kPanels; panel++) put_panel(shared.o[me].panel(panel), o, panel);
    fence_proxy_async_shared();
    named_barrier_sync(1 + CONSUMERS + me, kWarpgroup);
    if (leads && first >= 0) {
      tma_store_tile(map_o, shared.o[me], 0, tile.head, first, tile.batch);
      tma_store_commit();
    }
  }
  if (leads) tma_store_wait_read();
}

extern "C" __global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
    flash_hopper(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                 const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap o, const Shape shape) {
  extern __shared__ unsigned char raw[];
  Shared& shared = *(Shared*)(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < SLOTS; i++) {
      init(shared.full[i], 1);
      init(shared.empty[i], 4 * CONSUMERS);
    }
    for (int i = 0; i < CONSUMERS; i++) {
      init(shared.q_full[i], 1);
      init(shared.q_empty[i], 4);
    }
    fence_init();
  }
  __syncthreads();
  const int me = warpgroup();
  if (me < CONSUMERS) {
    setmaxnreg_inc<CONSUMERS == 2 ? 232 : 160>();
    attend(shared, shape, o, me);
    return;
  }
  setmaxnreg_dec<CONSUMERS == 2 ? 40 : 32>();
  if (warp_of_warpgroup() == 0 && elect_one()) load_keys(shared, shape, k, v);
  if (warp_of_warpgroup() == 1 && elect_one()) load_queries(shared, shape, q);
}
