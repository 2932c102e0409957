// The results of attention. ATTENTION merges the warps' results and publishes them as words of a split; OUT merges the
// splits into its input. Where OUT attends itself, it merges the warps' results directly.
#pragma once
#include "ring_keys.cuh"

// Dimensions [dim, dim + 4) of a head of the span: the sum over the warps that had keys of it, not normalised. `state`
// becomes (maximum, sum of weights).
__device__ __forceinline__ float4 merged(const AttentionScratch& a, const Span& span, int head, int dim,
                                         float2& state) {
  const int group = (span.head + head) / kGroup - span.head / kGroup, row = group ? (span.head + head) % kGroup : head;
  float2 states[kParts];
  state = make_float2(kLowest, 0.f);
#pragma unroll
  for (int u = 0; u < kParts; u++) {
    states[u] = a.state[group * kParts + u][row];
    state.x = fmaxf(state.x, states[u].x);
  }
  float4 sum = {};
#pragma unroll
  for (int u = 0; u < kParts; u++) {
    const float weight = states[u].x == kLowest ? 0.f : ex2_ftz(states[u].x - state.x);  // the SM may have no keys
    const float4 x = *(const float4*)&a.merged[group * kParts + u][row][dim];
    state.y += states[u].y * weight;
    sum.x += x.x * weight;
    sum.y += x.y * weight;
    sum.z += x.z * weight;
    sum.w += x.w * weight;
  }
  return sum;
}

// ATTENTION: publishes the result of the split.
__device__ __forceinline__ void publish_split(const Params& p, const Shared& s, const Instruction& in, u32 flag,
                                              const Span& span, int b) {
#pragma unroll 1
  for (int i = threadIdx.x * 4; i < span.heads * HEAD_DIM; i += kConsumers * 4) {
    const int head = i / HEAD_DIM, dim = i % HEAD_DIM;
    float2 state;
    const float4 x = merged(s.attention, span, head, dim, state);
    const size_t at = ((size_t)b * HEADS + span.head + head) * MAX_SPLITS + in.split;
    u64* to = p.attention + (at * HEAD_DIM + dim) / 2;
    publish(to, two_floats(x.x, x.y, flag));
    publish(to + 1, two_floats(x.z, x.w, flag));
    if (dim == 0) publish(p.attention_state + at * 2, one_value(__float_as_uint(state.x), flag));
    if (dim == 4) publish(p.attention_state + at * 2 + 1, one_value(__float_as_uint(state.y), flag));
  }
}

// ATTENTION of a split that has keys. Returns false when the SM has given up.
__device__ __forceinline__ bool attend_to_split(const Params& p, Shared& s, PipelineState<STAGES>& ring,
                                                const Instruction& in, int step) {
  const int position = position_of(p, in.sequence, step);
  const Span span = split_span(in, position);
  if constexpr (KEYS_IN_RING)
    attend_from_ring(p, s, ring, in, span, position, in.sequence);
  else
    attend<kTiles>(p, s, in, span, position, in.sequence);
  consumers_sync();
  mark(p, step, in.index, 2);
  publish_split(p, s, in, flag_at(step, in.layer), span, in.sequence);
  return !s.faulted;
}

// Four dimensions of a head, merged over splits.
struct FourMerged {
  float top = kLowest, total = 0;
  float4 value = {};

  // Adds a split, or a merge of splits, with its maximum and sum of weights.
  __device__ __forceinline__ void add(float peak, float weights, const float4& x) {
    const float most = fmaxf(top, peak);
    const float keep = top == kLowest ? 0.f : ex2_ftz(top - most),
                weight = peak == kLowest ? 0.f : ex2_ftz(peak - most);
    top = most;
    total = total * keep + weights * weight;
    value = make_float4(value.x * keep + x.x * weight, value.y * keep + x.y * weight, value.z * keep + x.z * weight,
                        value.w * keep + x.w * weight);
  }
  __device__ __forceinline__ void add(const ulonglong2& summed, const ulonglong2& part) {
    add(__uint_as_float(value_of(summed.x)), __uint_as_float(value_of(summed.y)),
        make_float4(first_float(part.x), second_float(part.x), first_float(part.y), second_float(part.y)));
  }
  __device__ __forceinline__ float4 mean() const {
    const float inverse = 1.f / total;
    return make_float4(value.x * inverse, value.y * inverse, value.z * inverse, value.w * inverse);
  }
};

// input = columns [in.k_tile, in.k_tile + in.k_tiles) · 16 of the attention's output, merged over the splits, `most` of
// the longest sequence. A thread has the words of kItems groups of 4 columns and kSplitsInFlight splits in flight
// together.
template <int kItems, int kSplitsInFlight>
__device__ __forceinline__ void load_splits(const Params& p, Shared& s, const Instruction& in, u32 flag, int step,
                                            int most) {
  const int columns = in.k_tiles * 16, length = columns * BATCH;
  const u32 state = (u32)(p.attention_state - p.attention);
#pragma unroll 1
  for (int round = threadIdx.x * 4; round - threadIdx.x % 32 * 4 < length; round += kConsumers * 4 * kItems) {
    u32 at[kItems];
    int dim[kItems], splits[kItems];
    FourMerged sum[kItems];
#pragma unroll
    for (int n = 0; n < kItems; n++) {
      const int i = min(round + n * kConsumers * 4, length - 4), row = in.k_tile * 16 + i % columns;
      at[n] = ((i / columns) * HEADS + row / HEAD_DIM) * MAX_SPLITS;
      dim[n] = row % HEAD_DIM;
      splits[n] = kMany && most > 1 ? splits_of(keys_of(in.layer, position_of(p, i / columns, step))) : most;
    }
#pragma unroll 1
    for (int group = 0; group < most; group += kSplitsInFlight) {
      u32 from[2 * kSplitsInFlight * kItems];
      ulonglong2 words[2 * kSplitsInFlight * kItems];
#pragma unroll
      for (int n = 0; n < kItems; n++)
#pragma unroll
        for (int j = 0; j < kSplitsInFlight; j++) {
          const u32 split = at[n] + min(group + j, splits[n] - 1);
          from[2 * (n * kSplitsInFlight + j)] = state + split * 2;
          from[2 * (n * kSplitsInFlight + j) + 1] = (split * HEAD_DIM + dim[n]) / 2;
        }
      load_flagged<kMany>(p, s, in, flag, p.attention, from, words);
#pragma unroll
      for (int n = 0; n < kItems; n++)
#pragma unroll
        for (int j = 0; j < kSplitsInFlight; j++) {
          if (group + j >= splits[n]) break;
          sum[n].add(words[2 * (n * kSplitsInFlight + j)], words[2 * (n * kSplitsInFlight + j) + 1]);
        }
    }
#pragma unroll
    for (int n = 0; n < kItems; n++) {
      const int i = round + n * kConsumers * 4;
      if (i >= length) break;
      store_input(s, i % columns, i / columns, sum[n].mean());
    }
  }
}

#if PAIRS
// Merges the values of both SMs of a pair for columns [column, column + 4) of the input, with their states. The buffer
// is free: an SM that comes here has read results of the layer before from all SMs, so both have read the buffer.
__device__ __forceinline__ float4 shared_sum(const Params& p, Shared& s, const Instruction& in, int column, float4 x,
                                             float2& state) {
  Exchange& e = s.exchange;
  const u32 neighbour = blockIdx.x % 2 ^ 1;
  st_async(&e.sum[column / 4], neighbour, x, e.full);
  st_async(&e.state[column / 4], neighbour, state, e.full);
  wait_chunk(p, s, in, e.full, (s.step * LAYERS + in.layer) & 1);
  const float4 y = e.sum[column / 4];
  const float2 its = e.state[column / 4];
  const float most = fmaxf(state.x, its.x), mine = ex2_ftz(state.x - most), others = ex2_ftz(its.x - most);
  state = make_float2(most, state.y * mine + its.y * others);
  return make_float4(x.x * mine + y.x * others, x.y * mine + y.y * others, x.z * mine + y.z * others,
                     x.w * mine + y.w * others);
}
// Announces the bytes that the other SM will send.
__device__ __forceinline__ void expect_shared(Shared& s, const Instruction& in) {
  if (threadIdx.x == 0) arrive_expect_tx(s.exchange.full, in.k_tiles * 4 * (sizeof(float4) + sizeof(float2)));
}
static_assert(BATCH == 1 && OUT_INPUT <= kConsumers * 4,
              "a thread has 4 columns, and all are sent before any is waited for");
#endif

// The same for one sequence and few columns: each half of the threads has all columns and merges half of the SM's
// splits (in a pair, of a half of all splits). The words of up to kSplitsEach splits are in flight together. The lanes
// of a head have the state of one split each.
constexpr int kMergers = kConsumers / 2, kHeadLanes = HEAD_DIM / 4, kMerging = 2 * PAIRS + 2;
constexpr int kSplitsMost = kHeadLanes < 16 ? kHeadLanes : 16, kSplitsShare = (MAX_SPLITS + kMerging - 1) / kMerging;
constexpr int kSplitsEach = kSplitsShare < 1 ? 1 : kSplitsShare < kSplitsMost ? kSplitsShare : kSplitsMost;
constexpr int kOutTiles = HEADS * HEAD_DIM / 16, kOutColumns = (kOutTiles + kOutParts - 1) / kOutParts * 16;
constexpr bool kOutAligned = kOutTiles % kOutParts == 0 && kOutColumns % HEAD_DIM == 0;  // no head lies in two parts
constexpr bool kHalves = BATCH == 1 && kHeadLanes <= 32 && kOutColumns + (kOutAligned ? 0 : HEAD_DIM - 16) <= kMergers * 4;
static_assert(sizeof(FourMerged) * kMergers <= sizeof(ProductScratch::warp_sums),
              "the second half leaves its sums there");
static_assert(!PAIRS || MAX_SPLITS == 0 || kHalves, "pairs merge in halves");

// Adds `splits` [x, y), at most kSplitsEach, to `sum`. The lanes of a head have the state of one split each.
__device__ __forceinline__ void merge_splits(const Params& p, Shared& s, const Instruction& in, u32 flag, int head,
                                             int row, int2 splits, FourMerged& sum) {
  const int first = splits.x, lane = threadIdx.x % kHeadLanes, last = splits.y - first - 1;
  const u64* sums = p.attention + ((row / HEAD_DIM * MAX_SPLITS + first) * HEAD_DIM + row % HEAD_DIM) / 2;
  u32 from[1 + kSplitsEach];
  ulonglong2 words[1 + kSplitsEach];
  from[0] = (u32)(p.attention_state - sums) + (head * MAX_SPLITS + first + min(lane % kSplitsEach, last)) * 2;
#pragma unroll
  for (int j = 0; j < kSplitsEach; j++) from[1 + j] = min(j, last) * (HEAD_DIM / 2);
  load_flagged<false>(p, s, in, flag, sums, from, words);
  const bool inside = lane < kSplitsEach && lane <= last;
  const float peak = inside ? __uint_as_float(value_of(words[0].x)) : kLowest;
  float top = peak;
#pragma unroll
  for (int o = kHeadLanes / 2; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  const float weight = peak == kLowest ? 0.f : ex2_ftz(peak - top);
  float total = inside ? __uint_as_float(value_of(words[0].y)) * weight : 0.f;
#pragma unroll
  for (int o = kHeadLanes / 2; o; o >>= 1) total += __shfl_xor_sync(~0u, total, o);
  float4 x = {};
#pragma unroll
  for (int j = 0; j < kSplitsEach; j++) {
    const float by = __shfl_sync(~0u, weight, j, kHeadLanes);
    const ulonglong2 part = words[1 + j];
    if (j > last) break;
    x.x += first_float(part.x) * by;
    x.y += second_float(part.x) * by;
    x.z += first_float(part.y) * by;
    x.w += second_float(part.y) * by;
  }
  sum.add(top, total, x);
}

__device__ __forceinline__ void load_splits_in_halves(const Params& p, Shared& s, const Instruction& in, u32 flag,
                                                      int splits) {
  const int low = in.k_tile * 16, high = low + in.k_tiles * 16, i = threadIdx.x % kMergers;
  const int column = low / HEAD_DIM * HEAD_DIM + i * 4, row = min(max(column, low), high - 4);
  const int half = threadIdx.x / kMergers, at = (PAIRS ? blockIdx.x % 2 * 2 : 0) + half;
  const int share = (splits + kMerging - 1) / kMerging, begin = min(at * share, splits);
  const int end = min(begin + share, splits), head = min(column, high - 4) / HEAD_DIM;
  FourMerged sum, *others = (FourMerged*)s.product.warp_sums;
  const bool has_columns = low / HEAD_DIM * HEAD_DIM + i / 32 * 128 < high;
  if constexpr (MAX_SPLITS <= kMerging * kSplitsEach) {
    if (has_columns && begin < end) merge_splits(p, s, in, flag, head, row, make_int2(begin, end), sum);
  } else {
#pragma unroll 1
    for (int first = begin; has_columns && first < end; first += kSplitsEach)
      merge_splits(p, s, in, flag, head, row, make_int2(first, min(first + kSplitsEach, end)), sum);
  }
#if PAIRS
  expect_shared(s, in);
#endif
  if (half) others[i] = sum;
  consumers_sync();
  if (half || column != row) return;
  sum.add(others[i].top, others[i].total, others[i].value);
#if PAIRS
  float2 state = make_float2(sum.top, sum.total);
  sum.value = shared_sum(p, s, in, row - low, sum.value, state);
  sum.total = state.y;
#endif
  store_input(s, row - low, 0, sum.mean());
}

__device__ __forceinline__ void load_attended(const Params& p, Shared& s, const Instruction& in, u32 flag, int step) {
  constexpr bool kLong = HEADS * HEAD_DIM / kOutParts * BATCH > kConsumers * 4;
  const int splits = most_splits(p, in.layer, step);
  if (BATCH > 1 && splits == 1)
    load_splits<kLong ? 4 : 1, 1>(p, s, in, flag, step, splits);
  else if (PAIRS || (kHalves && splits > 6))
    load_splits_in_halves(p, s, in, flag, splits);
  else
    load_splits<kLong ? 2 : 1, kLong ? 3 : 6>(p, s, in, flag, step, splits);
}

// OUT that attends itself: its columns of the attention's output become its input.
__device__ __forceinline__ void attend_for_input(const Params& p, Shared& s, const Instruction& in, int step) {
#pragma unroll 1
  for (int b = 0; b < BATCH; b++) {
    const int position = position_of(p, b, step);
    const Span span = whole_span(in, position);
    if (b) consumers_sync();
#if PAIRS
    expect_shared(s, in);
#endif
    if (kTilesOfFew < kTiles && span.end <= kTilesOfFew * kStride)
      attend<kTilesOfFew>(p, s, in, span, position, b);
    else
      attend<kTiles>(p, s, in, span, position, b);
    consumers_sync();
#pragma unroll 1
    for (int i = threadIdx.x * 4; i < in.k_tiles * 16; i += kConsumers * 4) {
      const int row = in.k_tile * 16 + i;
      float2 state;
      float4 x = merged(s.attention, span, row / HEAD_DIM - span.head, row % HEAD_DIM, state);
#if PAIRS
      x = shared_sum(p, s, in, i, x, state);
#endif
      const float inverse = 1.f / state.y;
      store_input(s, i, b, make_float4(x.x * inverse, x.y * inverse, x.z * inverse, x.w * inverse));
    }
  }
}
