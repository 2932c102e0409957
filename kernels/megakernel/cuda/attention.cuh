// Decode attention. An ATTENTION instruction attends with some query heads to one split of the keys. Where MAX_SPLITS
// is 0 there are no such instructions: OUT attends to all keys with the heads of its columns.
#pragma once
#include "keys.cuh"

// The scales of RMSNorms over all rows of q, and over all of k, of a sequence (OLMoE).
__device__ __forceinline__ float2 whole_norms(const Params& p, Shared& s, const Instruction& in, int b) {
  constexpr int kPairs = (HEADS + KV_HEADS) * HEAD_DIM / 4, kOfQueries = HEADS * HEAD_DIM / 4;
  constexpr int kEach = (kPairs + kConsumers - 1) / kConsumers, kTogether = kEach < 4 ? kEach : 4;
  float2 squares = {};
#pragma unroll 1
  for (int first = threadIdx.x; first - threadIdx.x % 32 < kPairs; first += kConsumers * kTogether) {
    u32 from[kTogether];
    ulonglong2 words[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; i++)
      from[i] = b * (kQkvRows / 2) + min(first + i * kConsumers, kPairs - 1) * 2;
    load_flagged<false>(p, s, in, flag_at(s.step, in.layer), p.qkv + copy_read() * kQkvWords, from, words);
#pragma unroll
    for (int i = 0; i < kTogether; i++) {
      const int pair = first + i * kConsumers;
      const float4 x = make_float4(first_float(words[i].x), second_float(words[i].x), first_float(words[i].y),
                                   second_float(words[i].y));
      const float sum = x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
      if (pair < kOfQueries) squares.x += sum;
      else if (pair < kPairs) squares.y += sum;
    }
  }
  squares = make_float2(warp_sum(squares.x), warp_sum(squares.y));
  if (threadIdx.x % 32 == 0) s.attention.squares[threadIdx.x / 32] = squares;
  consumers_sync();
  float2 sum = {};
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    sum.x += s.attention.squares[w].x;
    sum.y += s.attention.squares[w].y;
  }
  return make_float2(rsqrtf(sum.x / (HEADS * HEAD_DIM) + NORM_EPS), rsqrtf(sum.y / (KV_HEADS * HEAD_DIM) + NORM_EPS));
}

// Polls the span's rows of q, k and v, normalises q and k (Qwen3), applies RoPE, and stores queries, each as the sum of
// two bf16, and the newest rows in `s.attention`. One SM appends the newest rows to the caches.
__device__ __forceinline__ void load_heads(const Params& p, Shared& s, const Instruction& in, const Span& span,
                                           int position, int b) {
  constexpr int kHalf = HEAD_DIM / 2, kEach = kHalf / 2 < 32 ? kHalf / 2 : 32,  // threads of a row: each has 2
      kPieces = kHalf / 2 / kEach, kPairs = 2 * kPieces;  // dimensions and their RoPE partners, or twice so many
  AttentionScratch& a = s.attention;
  const int kv = span.head / kGroup, items = (span.heads + 2 * groups_of(span)) * kEach;
  const float2 whole = QK_NORM == 2 ? whole_norms(p, s, in, b) : make_float2(1.f, 1.f);
#pragma unroll 1
  for (int item = threadIdx.x; item - threadIdx.x % 32 < items; item += kConsumers) {
    const int row = min(item, items - 1) / kEach, d = item % kEach * 2;
    const bool is_query = row < span.heads, is_value = !is_query && (row - span.heads) % 2;
    const int group = is_query ? 0 : (row - span.heads) / 2;
    const int from = (is_query ? span.head + row : HEADS + is_value * KV_HEADS + kv + group) * HEAD_DIM + d;
    const auto apart = [](int i) { return i / 2 * kEach * 2 + i % 2 * kHalf; };  // from `d` to the pair's dimensions
    const size_t table = ROPES > 1 ? (size_t)position * ROPES + uses_second_rope(in.layer) : (size_t)position;
    float4 angles[kPieces];  // cosine and sine of two angles
#pragma unroll
    for (int i = 0; i < kPieces; i++)
      angles[i] = __ldg((const float4*)(p.rope + table * kHalf + d + apart(2 * i)));
    float2 bias[kPairs] = {}, weight[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; i++) {
      if (QKV_BIAS) bias[i] = __ldg((const float2*)(p.bias + in.layer * kQkvRows + from + apart(i)));
      const int rows = QK_NORM == 2 ? (HEADS + KV_HEADS) * HEAD_DIM : 2 * HEAD_DIM;
      const int own = QK_NORM == 2 ? min(from, rows - HEAD_DIM + d) : !is_query * HEAD_DIM + d;
      if (QK_NORM) weight[i] = __ldg((const float2*)(p.qk_norm + in.layer * rows + own + apart(i)));
    }
    const u32 first = (u32)(b * kQkvRows + from) / 2;  // the word; a thread reads its neighbour's too
    u32 at[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; i++) at[i] = (first + apart(i) / 2) & ~1u;
    ulonglong2 words[kPairs];
    load_flagged<false>(p, s, in, flag_at(s.step, in.layer), p.qkv + copy_read() * kQkvWords, at, words);
    float2 x[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; i++) {
      const u64 word = first & 1 ? words[i].y : words[i].x;
      x[i] = make_float2(first_float(word) + bias[i].x, second_float(word) + bias[i].y);
    }
    float scale = is_query ? kLog2E * (SCORE_SCALE > 0 ? SCORE_SCALE : rsqrtf((float)HEAD_DIM)) : 1.f;
    if (QK_NORM == 2) {
      scale *= is_query ? whole.x : whole.y;
#pragma unroll
      for (int i = 0; i < kPairs && !is_value; i++) x[i] = make_float2(x[i].x * weight[i].x, x[i].y * weight[i].y);
    } else if (QK_NORM) {
      float squares = x[0].x * x[0].x + x[0].y * x[0].y + x[1].x * x[1].x + x[1].y * x[1].y;
#pragma unroll
      for (int i = 2; i < kPairs; i++) squares += x[i].x * x[i].x + x[i].y * x[i].y;
#pragma unroll
      for (int o = kEach / 2; o; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
      scale *= rsqrtf(squares / HEAD_DIM + NORM_EPS);
#pragma unroll
      for (int i = 0; i < kPairs && !is_value; i++) x[i] = make_float2(x[i].x * weight[i].x, x[i].y * weight[i].y);
    }
    if (!is_value) {
#pragma unroll
      for (int i = 0; i < kPairs; i += 2) {
        const float2 low = x[i], high = x[i + 1];
        const float4 by = angles[i / 2];
        x[i] = make_float2((low.x * by.x - high.x * by.y) * scale, (low.y * by.z - high.y * by.w) * scale);
        x[i + 1] = make_float2((high.x * by.x + low.x * by.y) * scale, (high.y * by.z + low.y * by.w) * scale);
      }
    }
    if (item >= items) continue;
#pragma unroll
    for (int i = 0; i < kPairs; i++) {
      const u32 rounded = pack<bf16>(x[i].x, x[i].y);
      const float2 high = unpack<bf16>(rounded);
      const int dim = d + apart(i);
      if (is_query) {
        *(u32*)&a.query[row][0][dim] = rounded;
        *(u32*)&a.query[row][1][dim] = pack<bf16>(x[i].x - high.x, x[i].y - high.y);
      } else {
        *(u32*)&a.newest[group][is_value][dim] = rounded;
        const size_t to = (((size_t)in.layer * BATCH + b) * p.capacity + position) * KV_HEADS + kv + group;
        if ((kv + group) * kGroup >= span.appends)
          *(u32*)((is_value ? p.v_cache : p.k_cache) + to * HEAD_DIM + dim) = rounded;
      }
    }
  }
}

// The address of the warp's partial sums of head 2t + e, from this lane's dimension 2w on.
__device__ __forceinline__ float4* partial_sums_at(AttentionScratch& a, int e, int w) {
  const int lane = threadIdx.x % 32, dim = w / 4 * 64 + lane / 4 * (kValueWords < 4 ? 4 : 8) + w % 4 * 2;
  return (float4*)&a.merged[threadIdx.x / 32][min(lane % 4 * 2 + e, kGroupMost - 1)][dim];
}

// Maximum and this lane's sum of head g before any keys: its sink's, in the first part of split 0, else none.
__device__ __forceinline__ void begin_softmax(const Params& p, const Instruction& in, const Span& span,
                                              const Part& part, float& most, float& total) {
  most = kLowest, total = 0;
  if (!SINKS || in.split || threadIdx.x / 32 % kParts || (kShared && blockIdx.x % 2)) return;
  const int lane = threadIdx.x % 32, head = span.head + part.first + min(lane / 4, part.heads - 1);
  most = __ldg(p.sinks + in.layer * HEADS + head) * kLog2E;
  if (lane % 4 == 0 && most != kLowest) total = 1;
}

// Online softmax of a block of scores. The lane's first `left` keys exist. Scores become weights; `most` (maximum) and
// `total` (sum of weights) of head g are updated. Returns the factor for the sums of earlier passes.
template <int Tiles>
__device__ __forceinline__ float softmax_block(float (&scores)[Tiles][2][4], int left, float& most, float& total) {
  float top = most;
#pragma unroll
  for (int j = 0; j < Tiles; j++)
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const bool exists = j * kStride + i * 8 + e < left;
        const float score = scores[j][i][e] + scores[j][i][e + 2];
        scores[j][i][e] = !exists ? kLowest : SCORE_CAP > 0 ? soft_capped(score, SCORE_CAP * kLog2E) : score;
        top = fmaxf(top, scores[j][i][e]);
      }
  top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
  top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
  const float keep = most == kLowest ? 0.f : ex2_ftz(most - top);
  const float least = top == kLowest ? 0.f : top;  // where all scores are minus infinity no key has a weight
  most = top;
  total *= keep;
#pragma unroll
  for (int j = 0; j < Tiles; j++)
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int e = 0; e < 2; e++) total += scores[j][i][e] = ex2_ftz(scores[j][i][e] - least);
  return keep;
}

// Stores the largest score and the sum of weights of the warp's heads for the merge.
__device__ __forceinline__ void leave_state(AttentionScratch& a, const Part& part, float most, float total) {
  const int lane = threadIdx.x % 32;
  total += __shfl_xor_sync(~0u, total, 1);
  total += __shfl_xor_sync(~0u, total, 2);
  if (lane % 4 == 0 && lane / 4 < part.heads) a.state[threadIdx.x / 32][lane / 4] = make_float2(most, total);
}

// Adds a pass's weighted values to earlier passes' sums times `keep` of head g; the first pass has none.
template <int Tiles>
__device__ __forceinline__ void add_pass(AttentionScratch& a, const Part& part, bool first, float keep,
                                         const float (&weights)[Tiles][2][4],
                                         const u32 (&values)[Tiles][4][kValueWords]) {
  const int lane = threadIdx.x % 32;
  float sums[kValueWords][4] = {};
  add_values(weights, values, sums);
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const float left = __shfl_sync(~0u, keep, lane % 4 * 8 + e * 4);
    if (lane % 4 * 2 + e >= part.heads) continue;
#pragma unroll
    for (int w = 0; w < kValueWords; w += 2) {
      float4 x = make_float4(sums[w][e], sums[w][e + 2], sums[w + 1][e], sums[w + 1][e + 2]);
      if (!first) {
        const float4 before = *partial_sums_at(a, e, w);
        x = make_float4(x.x + before.x * left, x.y + before.y * left, x.z + before.z * left, x.w + before.w * left);
      }
      *partial_sums_at(a, e, w) = x;
    }
  }
}

// All warps attend to the span. The results of each warp stay in `s.attention`. The first keys are loaded before q has
// arrived. Values are not, because q would queue behind them.
template <int Tiles>
__device__ __forceinline__ void attend(const Params& p, Shared& s, const Instruction& in, const Span& span,
                                       int position, int b) {
  const Part part = part_of(p, in, span, b);
  AttentionScratch& a = s.attention;
  const int lane = threadIdx.x % 32, rows = min(span.end, position);
  int first = span.begin + (threadIdx.x / 32 % kParts * kSharing + (kShared ? blockIdx.x % 2 : 0)) * 16;
  u32 keys[Tiles][2][kKeyWords], values[Tiles][4][kValueWords];
  fetch_keys(p.k_cache, part, first, rows, keys);
  float most, total;  // of head g
  begin_softmax(p, in, span, part, most, total);
  load_heads(p, s, in, span, position, b);
  fetch_values(p.v_cache, part, first, rows, values);
  consumers_sync();
  bool begun = false;
#pragma unroll 1
  for (;;) {
    const int newest = position < span.end ? position - first : -1;
    place_newest_key(a.newest[part.group][0], newest, keys);
    float scores[Tiles][2][4] = {};
    score_tiles(a, part, keys, scores);
    first += Tiles * kStride;
    const bool more = first < span.end;
    if (more) fetch_keys(p.k_cache, part, first, rows, keys);
    const float keep = softmax_block(scores, span.end - first + Tiles * kStride - lane % 4 * 2, most, total);
    place_newest_value(a.newest[part.group][1], newest, values);
    add_pass(a, part, !begun, keep, scores, values);
    begun = true;
    if (!more) break;
    fetch_values(p.v_cache, part, first, rows, values);
  }
  leave_state(a, part, most, total);
}
