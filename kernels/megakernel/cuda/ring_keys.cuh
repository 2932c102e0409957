// Attention to keys and values from the ring, loaded by the producer while the consumers wait for q.
#pragma once
#include "attention.cuh"

// A chunk has kChunkKeys rows of one key-value head, keys or values, in boxes of kBoxKeys rows and 64 dimensions. A row
// of a box has 128 bytes, in the 128-byte swizzle. A pass has the keys of up to kPassKeys rows, then their values.
constexpr int kChunkKeys = 8192 / HEAD_DIM, kBoxKeys = 32, kPassKeys = kTiles * kStride;
constexpr int kStripes = HEAD_DIM / 64, kStripeBytes = kChunkKeys * 128, kBoxBytes = kBoxKeys * 128;
static_assert(!KEYS_IN_RING ||
                  (HEAD_DIM >= 64 && ATTENDED_GROUPS == 1 && kStride % kChunkKeys == 0 && kChunkKeys % 16 == 0),
              "each tile of a chunk belongs to one warp");
static_assert(!KEYS_IN_RING || kChunkKeys * HEAD_DIM * 2 <= kChunk, "a slot holds a chunk of rows");

template <int LANES, int N>
__device__ __forceinline__ void take_ring_row(const char* chunk, int key, int lane, u32 (&to)[N]) {
  const u32 line = shared_address(chunk) / 128 + key;
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const u32 piece = piece_of<LANES>(i, lane);
    const uint4 x = *(const uint4*)(chunk + piece / 8 * kStripeBytes + key * 128 + ((piece ^ line) & 7) * 16);
    to[i] = x.x;
    to[i + 1] = x.y;
    to[i + 2] = x.z;
    to[i + 3] = x.w;
  }
}

// Loads the pass from key `first` on out of the ring, up to `end`: this warp's tiles of keys (Rows = 2) or values (4),
// in the order of fetch_keys and fetch_values. Rows from `written` on become 0. Loading: other warps may have loads in
// flight.
template <bool Loading, int Rows, int N>
__device__ __forceinline__ void take_pass(const Params& p, Shared& s, PipelineState<STAGES>& ring,
                                          const Instruction& in, int first, int end, int written,
                                          u32 (&rows)[kTiles][Rows][N]) {
  constexpr bool kKeys = Rows == 2;
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * 16;
#pragma unroll
  for (int j = 0; j < kTiles; j++) {
#pragma unroll
    for (int i = 0; i < Rows; i++)
#pragma unroll
      for (int w = 0; w < N; w++) rows[j][i][w] = 0;
#pragma unroll
    for (int c = 0; c < kStride; c += kChunkKeys) {
      const int begin = first + j * kStride + c;
      if (begin >= end) break;
      wait_chunk(p, s, in, s.full[ring.stage], ring.parity);
      const char* chunk = s.ring[ring.stage];
      if (kStride == kChunkKeys || own / kChunkKeys * kChunkKeys == c) {
#pragma unroll
        for (int i = 0; i < Rows; i++) {
          const int key = own % kChunkKeys + (kKeys ? i * 8 + lane / 4 : i / 2 * 8 + lane % 4 * 2 + i % 2);
          if (begin + key < written) take_ring_row<kKeys ? 4 : 8>(chunk, key, kKeys ? lane % 4 : lane / 4, rows[j][i]);
        }
      }
      if (Loading) fence_proxy_async_shared();
      release_chunk(s, ring);
    }
  }
}

// All warps attend to the span. The results of each warp stay in `s.attention`, as with `attend`. The first keys leave
// the ring before q has arrived, which frees slots for more.
__device__ __forceinline__ void attend_from_ring(const Params& p, Shared& s, PipelineState<STAGES>& ring,
                                                 const Instruction& in, const Span& span, int position, int b) {
  const Part part = part_of(p, in, span, b);
  AttentionScratch& a = s.attention;
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * 16, written = min(span.end, position);
  int first = span.begin;
  u32 keys[kTiles][2][kKeyWords];
  take_pass<true>(p, s, ring, in, first, span.end, written, keys);
  float most, total;  // of head g
  begin_softmax(p, in, span, part, most, total);
  load_heads(p, s, in, span, position, b);
  consumers_sync();
  mark(p, s.step, in.index, 1);
  float sums[kValueWords][4] = {};  // of heads 2t and 2t + 1
#pragma unroll 1
  for (;;) {
    const int newest = position < span.end ? position - first - own : -1;
    float scores[kTiles][2][4] = {};
    place_newest_key(a.newest[0][0], newest, keys);
    score_tiles(a, part, keys, scores);
    const float keep = softmax_block(scores, span.end - first - own - lane % 4 * 2, most, total);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float left = __shfl_sync(~0u, keep, lane % 4 * 8 + e * 4);
#pragma unroll
      for (int w = 0; w < kValueWords; w++) {
        sums[w][e] *= left;
        sums[w][e + 2] *= left;
      }
    }
    u32 values[kTiles][4][kValueWords];
    take_pass<false>(p, s, ring, in, first, span.end, written, values);
    place_newest_value(a.newest[0][1], newest, values);
    add_values(scores, values, sums);
    first += kPassKeys;
    if (first >= span.end) break;
    take_pass<false>(p, s, ring, in, first, span.end, written, keys);
  }
#pragma unroll
  for (int e = 0; e < 2; e++) {
    if (lane % 4 * 2 + e >= part.heads) continue;
#pragma unroll
    for (int w = 0; w < kValueWords; w += 2)
      *partial_sums_at(a, e, w) = make_float4(sums[w][e], sums[w][e + 2], sums[w + 1][e], sums[w + 1][e + 2]);
  }
  leave_state(a, part, most, total);
}
