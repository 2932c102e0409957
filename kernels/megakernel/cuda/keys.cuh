// Keys and values as tensor-core operands: what attends to what, how a warp loads rows, both products.
#pragma once
#include "gemv.cuh"

constexpr float kLog2E = 1.4426950408889634f;
// cap * tanh(x / cap); cap carries whatever factor x has.
__device__ __forceinline__ float soft_capped(float x, float cap) {
  return cap * (1.f - __fdividef(2.f, 1.f + ex2_ftz(x * (2.f * kLog2E / cap))));
}

#define kLowest __int_as_float(0xff800000)  // minus infinity: NVRTC has no INFINITY

// Whether a layer attends to a window of keys; whether it rotates by the second of two tables.
__device__ __forceinline__ bool windowed(int layer) {
  return WINDOW && (!FULL_EVERY || (layer + 1) % (FULL_EVERY ? FULL_EVERY : 1));
}
__device__ __forceinline__ bool uses_second_rope(int layer) {
  return UNROTATED_EVERY ? (layer + 1) % (UNROTATED_EVERY ? UNROTATED_EVERY : 1) == 0 : windowed(layer);
}
// The first key that the token at `position` attends to in a layer, and how many those are.
__device__ __forceinline__ int first_key(int layer, int position) {
  return windowed(layer) ? max(0, position + 1 - WINDOW) : 0;
}
__device__ __forceinline__ int keys_of(int layer, int position) { return position + 1 - first_key(layer, position); }

__device__ __forceinline__ int splits_of(int length) {
  const int wanted = (length + SPLIT_KEYS - 1) / SPLIT_KEYS;
  return wanted < MAX_SPLITS ? wanted : MAX_SPLITS;
}

// The splits of the longest sequence in a layer.
__device__ __forceinline__ int most_splits(const Params& p, int layer, int step) {
  int longest = position_of(p, 0, step);
#pragma unroll
  for (int b = 1; b < BATCH; b++) longest = max(longest, position_of(p, b, step));
  return splits_of(keys_of(layer, longest));
}

// The heads and keys of one instruction.
struct Span {
  int head, heads;  // query heads [head, head + heads)
  int begin, end;   // keys
  int appends;      // SMs append the newest row of the key-value heads from this query head on; HEADS: none
};
__device__ __forceinline__ Span split_span(const Instruction& in, int position) {
  const int low = first_key(in.layer, position), length = position + 1;
  const int splits = splits_of(length - low), share = (length - low + splits - 1) / splits;
  const int begin = low + in.split * share, end = min(begin + share, length);
  return {in.head, in.heads, begin, end, begin < end && end == length ? in.head : HEADS};
}
__device__ __forceinline__ Span whole_span(const Instruction& in, int position) {
  const int low = in.k_tile * 16, high = low + in.k_tiles * 16, head = low / HEAD_DIM;
  const int appends = in.tile ? HEADS : (low + HEAD_DIM - 1) / HEAD_DIM;
  return {head, (high + HEAD_DIM - 1) / HEAD_DIM - head, first_key(in.layer, position), position + 1, appends};
}

// A warp's part of a span: every kParts-th tile of the SM's 16 keys, with the query heads of one key-value head. Where
// OUT attends, the two SMs of a pair take alternate tiles.
constexpr bool kShared = PAIRS && MAX_SPLITS == 0;
constexpr int kSharing = kShared ? 2 : 1;
constexpr int kParts = WARPS / ATTENDED_GROUPS, kStride = kParts * kSharing * 16;
struct Part {
  int group, first, heads;  // the key-value head; query heads [first, first + heads), both from the span's first on
  size_t base;              // row of key 0 in the caches; the next key lies KV_HEADS rows on
};
__device__ __forceinline__ int groups_of(const Span& span) {
  return (span.head + span.heads - 1) / kGroup - span.head / kGroup + 1;
}
__device__ __forceinline__ Part part_of(const Params& p, const Instruction& in, const Span& span, int b) {
  const int group =
      min((int)threadIdx.x / 32 / kParts, groups_of(span) - 1);  // a surplus warp repeats the work of its neighbour
  const int kv_head = span.head / kGroup + group, first = max(span.head, kv_head * kGroup);
  return {group, first - span.head, min(span.head + span.heads, (kv_head + 1) * kGroup) - first,
          ((size_t)in.layer * BATCH + b) * p.capacity * KV_HEADS + kv_head};
}

// Rows as operands of the tensor cores. In the product of scores lane 4g + t holds, of keys g and g + 8 of a tile, the
// dimensions that it also holds of query g. In the product of values it holds dimensions of g of keys 2t, 2t + 1, 2t +
// 8 and 2t + 9.
constexpr int kTiles =
    HEAD_DIM == 256 ? 1 : (HEAD_DIM == 128 || KEYS_IN_RING ? 2 : 3) - kShared;  // tiles of 16 keys that a warp has in registers
constexpr int kTilesOfFew = kShared && kStride >= 256 ? 1 : kTiles;  // for contexts that so many tiles cover
constexpr int kKeyWords = HEAD_DIM / 8, kValueWords = HEAD_DIM / 16;

// The index of the 16 bytes of a row that hold words [w, w + 4) of `lane` of LANES. In chunks of the ring a lane has
// two neighbouring pieces, so that 8 lanes read from all banks.
template <int LANES>
__device__ __forceinline__ int piece_of(int w, int lane) {
  return KEYS_IN_RING && LANES == 4 ? w / 8 * 8 + lane * 2 + w / 4 % 2 : w / 4 * LANES + lane;
}

// Loads words of a row, from `first` on, for `lane` of LANES: 16 bytes at a time, or 8 where rows are short.
template <int LANES, int N>
__device__ __forceinline__ void take_row(const __nv_bfloat16* row, int lane, u32 (&to)[N], int first = 0) {
  if constexpr (N < 4) {
    const uint2 x = *(const uint2*)(row + lane * 4);
    to[0] = x.x;
    to[1] = x.y;
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const uint4 x = *(const uint4*)(row + piece_of<LANES>(first + i, lane) * 8);
      to[i] = x.x;
      to[i + 1] = x.y;
      to[i + 2] = x.z;
      to[i + 3] = x.w;
    }
  }
}

// All SMs together bring a layer's rows into the L2, few each: many would delay the words of others.
constexpr int kRowsOfSm = 16;
__device__ __forceinline__ void prefetch_rows_l2(const Params& p, int layer) {
  if (KEYS_IN_RING || threadIdx.x != kConsumers - 32) return;
  const int first = blockIdx.x * kRowsOfSm;
#pragma unroll 1
  for (int b = 0; b < BATCH; b++) {
    const int rows = min(position_of(p, b, 0) - first, kRowsOfSm);
    if (rows <= 0) continue;
    const size_t from = (((size_t)layer * BATCH + b) * p.capacity + first) * KV_HEADS * HEAD_DIM;
    bulk_prefetch_l2(p.k_cache + from, rows * KV_HEADS * HEAD_DIM * 2);
    bulk_prefetch_l2(p.v_cache + from, rows * KV_HEADS * HEAD_DIM * 2);
  }
}

// Loads the warp's tiles from key `first` on, 0 from `end` on. Rows are final, so the L1 cache is never stale.
template <int Tiles>
__device__ __forceinline__ void fetch_keys(const __nv_bfloat16* cache, const Part& part, int first, int end,
                                           u32 (&rows)[Tiles][2][kKeyWords]) {
  const int lane = threadIdx.x % 32;
  const __nv_bfloat16* from = cache + (part.base + (size_t)(first + lane / 4) * KV_HEADS) * HEAD_DIM;
  const int left = end - first - lane / 4;
#pragma unroll
  for (int j = 0; j < Tiles; j++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int w = 0; w < kKeyWords; w++) rows[j][i][w] = 0;
      const int key = j * kStride + i * 8;
      if (key < left) take_row<4>(from + key * KV_HEADS * HEAD_DIM, lane % 4, rows[j][i]);
    }
}
template <int Tiles>
__device__ __forceinline__ void fetch_values(const __nv_bfloat16* cache, const Part& part, int first, int end,
                                             u32 (&rows)[Tiles][4][kValueWords]) {
  const int lane = threadIdx.x % 32;
  const __nv_bfloat16* from = cache + (part.base + (size_t)(first + lane % 4 * 2) * KV_HEADS) * HEAD_DIM;
  const int left = end - first - lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < Tiles; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int w = 0; w < kValueWords; w++) rows[j][i][w] = 0;
      const int key = j * kStride + i / 2 * 8 + i % 2;
      if (key < left) take_row<8>(from + key * KV_HEADS * HEAD_DIM, lane / 4, rows[j][i]);
    }
}

// Inserts the newest row, which no cache holds yet, into the rows in this lane's registers, `at` keys after the first.
template <int Tiles>
__device__ __forceinline__ void place_newest_key(const __nv_bfloat16* newest, int at,
                                                 u32 (&keys)[Tiles][2][kKeyWords]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < Tiles; j++) {
    if (at < j * kStride || at >= j * kStride + 16) continue;
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (at == j * kStride + i * 8 + lane / 4) take_row<4>(newest, lane % 4, keys[j][i]);
  }
}
template <int Tiles>
__device__ __forceinline__ void place_newest_value(const __nv_bfloat16* newest, int at,
                                                   u32 (&values)[Tiles][4][kValueWords]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < Tiles; j++) {
    if (at < j * kStride || at >= j * kStride + 16) continue;
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (at == j * kStride + i / 2 * 8 + lane % 4 * 2 + i % 2) take_row<8>(newest, lane / 4, values[j][i]);
  }
}

// scores[j][i]: scores of head g with keys 2t and 2t + 1 of half i of tile j.
template <int Tiles>
__device__ __forceinline__ void score_tiles(const AttentionScratch& a, const Part& part,
                                            const u32 (&keys)[Tiles][2][kKeyWords], float (&scores)[Tiles][2][4]) {
  const int lane = threadIdx.x % 32, row = part.first + min(lane / 4, part.heads - 1);
#pragma unroll
  for (int w = 0; w < kKeyWords; w += 4) {
    u32 high[4], low[4];
    take_row<4>(a.query[row][0], lane % 4, high, w);
    take_row<4>(a.query[row][1], lane % 4, low, w);
#pragma unroll
    for (int h = 0; h < 4; h += 2)
#pragma unroll
      for (int j = 0; j < Tiles; j++)
#pragma unroll
        for (int i = 0; i < 2; i++)
          mma_sync<bf16>(scores[j][i], {high[h], low[h], high[h + 1], low[h + 1]}, keys[j][i][w + h],
                         keys[j][i][w + h + 1]);
  }
}

// sums[w]: sums of heads 2t and 2t + 1 for this lane's dimension 2w, then 2w + 1.
template <int Tiles>
__device__ __forceinline__ void add_values(const float (&weights)[Tiles][2][4],
                                           const u32 (&values)[Tiles][4][kValueWords], float (&sums)[kValueWords][4]) {
#pragma unroll
  for (int j = 0; j < Tiles; j++) {
    const uint2 weight =
        make_uint2(pack<bf16>(weights[j][0][0], weights[j][0][1]), pack<bf16>(weights[j][1][0], weights[j][1][1]));
#pragma unroll
    for (int w = 0; w < kValueWords; w++)
      mma_sync<bf16>(
          sums[w],
          {__byte_perm(values[j][0][w], values[j][1][w], 0x5410), __byte_perm(values[j][0][w], values[j][1][w], 0x7632),
           __byte_perm(values[j][2][w], values[j][3][w], 0x5410),
           __byte_perm(values[j][2][w], values[j][3][w], 0x7632)},
          weight.x, weight.y);
  }
}
