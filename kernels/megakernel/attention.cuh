// Decode attention, split along the keys: one instruction is up to 4 query heads of one KV head over one split.
#pragma once
#include "gemv.cuh"

#define kLowest __int_as_float(0xff800000)  // minus infinity: NVRTC has no INFINITY
constexpr int kLanesPerKey = HEAD_DIM / 8;  // 16 bytes of a key a lane
constexpr int kKeysPerWarp = 32 / kLanesPerKey;
constexpr int kRounds = 8;                 // keys a lane has in flight

__device__ __forceinline__ int splits_of(int length) {
  const int wanted = (length + SPLIT_KEYS - 1) / SPLIT_KEYS;
  return wanted < MAX_SPLITS ? wanted : MAX_SPLITS;
}

__device__ __forceinline__ void unpack8(const uint4& raw, float (&x)[8]) {
  const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 pair = unpack_bf16(words[i]);
    x[2 * i] = pair.x;
    x[2 * i + 1] = pair.y;
  }
}
__device__ __forceinline__ uint4 pack8(const float (&x)[8]) {
  __nv_bfloat162 pair[4];
#pragma unroll
  for (int i = 0; i < 4; i++) pair[i] = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
  return *(uint4*)pair;
}

// The keys one warp attends to with one query head, and this lane's place among them.
struct Range {
  int begin, end, first, stride;  // the split's keys [begin, end); this lane takes first, first + stride, ...
  int head, part, parts;          // the head (from the instruction's first) and the warp's part of its keys
  bool active;                    // the split has keys, and the warp a head
  size_t base;                    // row of key 0 in the caches; the next key lies KV_HEADS rows on
  int dim;                        // this lane holds dimensions [dim, dim + 8)
};

__device__ __forceinline__ Range range_of(const Params& p, const Instruction& in, int position, int b) {
  Range r;
  const int length = position + 1, splits = splits_of(length), share = (length + splits - 1) / splits;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  r.parts = WARPS / in.heads;
  r.head = warp / r.parts;
  r.part = warp % r.parts;
  r.active = in.split < splits && r.head < in.heads;
  r.begin = in.split * share;
  r.end = min(r.begin + share, length);
  r.first = r.begin + r.part * kKeysPerWarp + lane / kLanesPerKey;
  r.stride = r.parts * kKeysPerWarp;
  r.base = ((size_t)in.layer * BATCH + b) * p.capacity * KV_HEADS + in.kv_head;
  r.dim = lane % kLanesPerKey * 8;
  return r;
}

// Where this lane's part of a key lies in the caches, in elements.
__device__ __forceinline__ size_t row_of(const Range& r, int key) {
  return (r.base + (size_t)key * KV_HEADS) * HEAD_DIM + r.dim;
}

// The rows of `cache` that this lane meets from `key` on. A row is never read before it is written for good, so that
// the first-level cache, which the heads share, cannot hold a stale one.
__device__ __forceinline__ void fetch_rows(const __nv_bfloat16* cache, const Range& r, int key, int last,
                                           uint4 (&rows)[kRounds]) {
#pragma unroll
  for (int i = 0; i < kRounds; i++)
    rows[i] = *(const uint4*)(cache + row_of(r, max(min(key + i * r.stride, last), 0)));
}

// 8 dimensions of N rows of q, k or v: the bias, which is fetched before they have come, and the products.
template <int N>
__device__ __forceinline__ void load_rows(const Params& p, Shared& s, const Instruction& in, u32 tag, int b,
                                          const int (&row)[N], float (&x)[N][8]) {
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int i = 0; i < 2; i++)
      *(float4*)&x[n][4 * i] = QKV_BIAS ? __ldg((const float4*)(p.bias + in.layer * kQkvRows + row[n]) + i) : float4{};
  u32 from[2 * N];
  ulonglong2 words[2 * N];
#pragma unroll
  for (int n = 0; n < N; n++) {
    from[2 * n] = (b * kQkvRows + row[n]) / 2;
    from[2 * n + 1] = from[2 * n] + 2;
  }
  await<false>(p, s, in, tag, p.qkv, from, words);
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const ulonglong2 w = words[2 * n + i];
      const float y[4] = {first_float(w.x), second_float(w.x), first_float(w.y), second_float(w.y)};
#pragma unroll
      for (int e = 0; e < 4; e++) x[n][4 * i + e] += y[e];
    }
}

// Normalises (when the family does), rotates and scales a head's vector that a group of lanes holds.
__device__ __forceinline__ void rotate(float (&x)[8], const float (&turn)[16], int dim, const float* norm, float scale) {
  if (QK_NORM) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) squares += x[i] * x[i];
#pragma unroll
    for (int o = kLanesPerKey / 2; o; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
    scale *= rsqrtf(squares / HEAD_DIM + NORM_EPS);
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] *= __ldg(norm + dim + i);
  }
  const float sign = dim < HEAD_DIM / 2 ? -scale : scale;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const float other = __shfl_xor_sync(~0u, x[i], kLanesPerKey / 2);
    x[i] = x[i] * turn[2 * i] * scale + other * turn[2 * i + 1] * sign;
  }
}

// One warp: attention of one query head over the warp's keys, left in `scratch`.
__device__ __forceinline__ void attend_warp(const Params& p, Shared& s, const Instruction& in, u32 tag, const Range& r,
                                            int position, int b) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float* norm = p.qk_norm + in.layer * 2 * HEAD_DIM;
  uint4 keys[kRounds], values[kRounds];
  fetch_rows(p.k_cache, r, r.first, position - 1, keys);  // before this layer's q, k and v are there
  fetch_rows(p.v_cache, r, r.first, position - 1, values);
  float turn[16];
  const float4* rope = (const float4*)(p.rope + (size_t)position * (HEAD_DIM / 2) + r.dim % (HEAD_DIM / 2));
#pragma unroll
  for (int i = 0; i < 4; i++) ((float4*)turn)[i] = __ldg(rope + i);

  float rows[3][8];  // the query, the newest key and the newest value
  const int at[3] = {(in.head + r.head) * HEAD_DIM + r.dim, (HEADS + in.kv_head) * HEAD_DIM + r.dim,
                     (HEADS + KV_HEADS + in.kv_head) * HEAD_DIM + r.dim};
  load_rows(p, s, in, tag, b, at, rows);
  rotate(rows[1], turn, r.dim, norm + HEAD_DIM, 1.f);
  rotate(rows[0], turn, r.dim, norm, 1.4426950408889634f * rsqrtf((float)HEAD_DIM));
  const uint4 new_key = pack8(rows[1]), new_value = pack8(rows[2]);
  const bool meets = r.end == position + 1 && position >= r.first && (position - r.first) % r.stride == 0;
  if (meets && in.head + r.head == in.kv_head * kGroup) {  // one query head of the group appends
    const size_t to = row_of(r, position);
    *(uint4*)(p.k_cache + to) = new_key;
    *(uint4*)(p.v_cache + to) = new_value;
  }

  float out[8] = {}, most = kLowest, sum = 0;
#pragma unroll 1
  for (int key = r.first; key - lane / kLanesPerKey < r.end; key += kRounds * r.stride) {
    const bool more = key - lane / kLanesPerKey + kRounds * r.stride < r.end;
    float score[kRounds], top = most;
#pragma unroll
    for (int i = 0; i < kRounds; i++) {
      float k[8];
      unpack8(key + i * r.stride == position ? new_key : keys[i], k);
      score[i] = 0;
#pragma unroll
      for (int e = 0; e < 8; e++) score[i] = fmaf(rows[0][e], k[e], score[i]);
#pragma unroll
      for (int o = kLanesPerKey / 2; o; o >>= 1) score[i] += __shfl_xor_sync(~0u, score[i], o);
      if (key + i * r.stride >= r.end) score[i] = kLowest;
      top = fmaxf(top, score[i]);
    }
    if (more) fetch_rows(p.k_cache, r, key + kRounds * r.stride, position - 1, keys);
    const float keep = top == kLowest ? 1.f : exp2f(most - top);
    most = top;
    sum *= keep;
#pragma unroll
    for (int e = 0; e < 8; e++) out[e] *= keep;
#pragma unroll
    for (int i = 0; i < kRounds; i++) {
      float v[8];
      unpack8(key + i * r.stride == position ? new_value : values[i], v);
      const float weight = score[i] == kLowest ? 0.f : exp2f(score[i] - top);
      sum += weight;
#pragma unroll
      for (int e = 0; e < 8; e++) out[e] = fmaf(weight, weight == 0.f ? 0.f : v[e], out[e]);
    }
    if (more) fetch_rows(p.v_cache, r, key + kRounds * r.stride, position - 1, values);
  }
  float top = most;
#pragma unroll
  for (int o = kLanesPerKey; o < 32; o <<= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  const float keep = sum > 0 ? exp2f(most - top) : 0.f;
  sum *= keep;
#pragma unroll
  for (int e = 0; e < 8; e++) out[e] *= keep;
#pragma unroll
  for (int o = kLanesPerKey; o < 32; o <<= 1) {
    sum += __shfl_xor_sync(~0u, sum, o);
#pragma unroll
    for (int e = 0; e < 8; e++) out[e] += __shfl_xor_sync(~0u, out[e], o);
  }
  if (lane < kLanesPerKey) {
    *(float4*)&s.attention.merged[warp][r.dim] = make_float4(out[0], out[1], out[2], out[3]);
    *(float4*)&s.attention.merged[warp][r.dim + 4] = make_float4(out[4], out[5], out[6], out[7]);
  }
  if (lane == 0) s.attention.state[warp] = make_float2(top, sum);
}

// Merges the warps of each head and hands the split's result on.
__device__ __forceinline__ void merge_warps(const Params& p, const Shared& s, const Instruction& in, u32 tag, int b) {
  const int parts = WARPS / in.heads;
  for (int i = threadIdx.x; i < in.heads * HEAD_DIM; i += kConsumers) {
    const int h = i / HEAD_DIM, d = i % HEAD_DIM;
    float top = kLowest, total = 0, value = 0;
#pragma unroll 1
    for (int u = h * parts; u < (h + 1) * parts; u++) {
      const float2 state = s.attention.state[u];
      if (state.y <= 0) continue;
      const float most = fmaxf(top, state.x), keep = exp2f(top - most), weight = exp2f(state.x - most);
      top = most;
      total = total * keep + state.y * weight;
      value = value * keep + s.attention.merged[u][d] * weight;
    }
    const size_t at = ((size_t)b * HEADS + in.head + h) * MAX_SPLITS + in.split;
    const float next = __shfl_down_sync(~0u, value, 1);
    if (d % 2 == 0) store_word(p.attention + (at * HEAD_DIM + d) / 2, two_floats(value, next, tag));
    if (d < 2) store_word(p.attention_state + at * 2 + d, one_value(__float_as_uint(d ? total : top), tag));
  }
}

// input = k tiles [in.k_tile, + in.k_tiles) of the attention's output, merged over the splits. A thread's words of
// kItems groups of 4 elements and kAhead splits are all in flight at once.
template <int kItems, int kAhead>
__device__ __forceinline__ void load_splits(const Params& p, Shared& s, const Instruction& in, u32 tag, int splits) {
  const int columns = in.k_tiles * 16, length = columns * BATCH;
  const u32 state = (u32)(p.attention_state - p.attention);
#pragma unroll 1
  for (int round = threadIdx.x * 4; round - threadIdx.x % 32 * 4 < length; round += kConsumers * 4 * kItems) {
    u32 at[kItems];
    int dim[kItems];
    float top[kItems], total[kItems] = {}, value[kItems][4] = {};
#pragma unroll
    for (int n = 0; n < kItems; n++) {
      const int i = min(round + n * kConsumers * 4, length - 4), row = in.k_tile * 16 + i % columns;
      at[n] = ((i / columns) * HEADS + row / HEAD_DIM) * MAX_SPLITS;
      dim[n] = row % HEAD_DIM;
      top[n] = kLowest;
    }
#pragma unroll 1
    for (int group = 0; group < splits; group += kAhead) {
      u32 from[2 * kAhead * kItems];
      ulonglong2 words[2 * kAhead * kItems];
#pragma unroll
      for (int n = 0; n < kItems; n++)
#pragma unroll
        for (int j = 0; j < kAhead; j++) {
          const u32 split = at[n] + min(group + j, splits - 1);
          from[2 * (n * kAhead + j)] = state + split * 2;
          from[2 * (n * kAhead + j) + 1] = (split * HEAD_DIM + dim[n]) / 2;
        }
      await<true>(p, s, in, tag, p.attention, from, words);
#pragma unroll
      for (int n = 0; n < kItems; n++)
#pragma unroll
        for (int j = 0; j < kAhead; j++) {
          if (group + j >= splits) break;
          const ulonglong2 summed = words[2 * (n * kAhead + j)], part = words[2 * (n * kAhead + j) + 1];
          const float peak = __uint_as_float(value_of(summed.x)), most = fmaxf(top[n], peak);
          const float keep = exp2f(top[n] - most), weight = exp2f(peak - most);
          top[n] = most;
          total[n] = total[n] * keep + __uint_as_float(value_of(summed.y)) * weight;
          value[n][0] = value[n][0] * keep + first_float(part.x) * weight;
          value[n][1] = value[n][1] * keep + second_float(part.x) * weight;
          value[n][2] = value[n][2] * keep + first_float(part.y) * weight;
          value[n][3] = value[n][3] * keep + second_float(part.y) * weight;
        }
    }
#pragma unroll
    for (int n = 0; n < kItems; n++) {
      const int i = round + n * kConsumers * 4;
      if (i >= length) break;
      const float inverse = 1.f / total[n];
      store_input(s, i % columns, i / columns,
                  make_float4(value[n][0] * inverse, value[n][1] * inverse, value[n][2] * inverse, value[n][3] * inverse));
    }
  }
}

__device__ __forceinline__ void load_attended(const Params& p, Shared& s, const Instruction& in, u32 tag, int position) {
  constexpr bool kLong = HEADS * HEAD_DIM / OUT_PLANES * BATCH > kConsumers * 4;
  const int splits = splits_of(position + 1);
  if (BATCH > 1 && splits == 1)
    load_splits<kLong ? 4 : 1, 1>(p, s, in, tag, splits);
  else
    load_splits<kLong ? 2 : 1, kLong ? 3 : 6>(p, s, in, tag, splits);
}
