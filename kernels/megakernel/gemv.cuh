// Matrix-vector products on the matrix units: 16-row tiles of streamed weights times up to 8 input vectors.
#pragma once
#include "weights.cuh"

// Where element k of an input vector lies in its 16-element tile: lane t of a fragment holds k = 2t, 2t+1, 2t+8, 2t+9.
__device__ __forceinline__ int permuted(int k) { return ((k & 7) >> 1) * 4 + (k >> 3 & 1) * 2 + (k & 1); }

// Input elements k .. k + 3 (k a multiple of 4) of sequence b.
__device__ __forceinline__ void store_input(Shared& s, int k, int b, const float4& x) {
  __nv_bfloat16* tile = s.product.input + ((k >> 4) * kColumns + b) * 16;
  *(__nv_bfloat162*)(tile + permuted(k & 15)) = __floats2bfloat162_rn(x.x, x.y);
  *(__nv_bfloat162*)(tile + permuted((k & 15) + 2)) = __floats2bfloat162_rn(x.z, x.w);
}

__device__ __forceinline__ float sum_over_warps(const Shared& s, int buffer, int unit, int at) {
  float sums[WARPS];
#pragma unroll
  for (int w = 0; w < WARPS; w++) sums[w] = s.product.partial[buffer][unit][w][at];
#pragma unroll
  for (int o = 1; o < WARPS; o *= 2)
#pragma unroll
    for (int w = 0; w + o < WARPS; w += 2 * o) sums[w] += sums[w + o];
  return sums[0];
}

// Leaves a warp's sums of a unit for the sum over warps. `undo` belongs to the sequences of columns 2t and 2t + 1.
__device__ __forceinline__ void leave_sums(float (&mine)[16 * BATCH], const float (&sum)[kChains][4], float2 row_scale,
                                           float2 undo) {
  const int column = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
  if constexpr (kDiagonal) {
    const float low = (sum[0][0] + sum[0][1]) * row_scale.x, high = (sum[0][2] + sum[0][3]) * row_scale.y;
    constexpr int kLanes = kDiagonal ? 4 / BATCH : 1;  // that have columns of one sequence
    const bool odd = quad % 2;  // even lanes sum row g, odd ones row g + 8
    float kept = (odd ? high : low) + __shfl_xor_sync(~0u, odd ? low : high, 1);
    if (kLanes == 4) kept += __shfl_xor_sync(~0u, kept, 2);
    if (quad % kLanes < 2) mine[quad / kLanes * 16 + column + odd * 8] = kept;
    return;
  }
  const float by[2] = {undo.x, undo.y};
#pragma unroll
  for (int c = 0; c < 2; c++) {
    if (quad * 2 + c >= BATCH) break;
    const float low = (sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c]);
    const float high = (sum[0][c + 2] + sum[1][c + 2]) + (sum[2][c + 2] + sum[3][c + 2]);
    mine[(quad * 2 + c) * 16 + column] = low * (row_scale.x * by[c]);
    mine[(quad * 2 + c) * 16 + column + 8] = high * (row_scale.y * by[c]);
  }
}

constexpr int kHeldMost = 32;  // tiles whose inputs a warp keeps in registers

// The codes of the chunk at hand, which is then free, and the scales of its rows, the same in all chunks of a unit. Loading:
// loads from memory are in flight.
template <bool Loading>
__device__ __forceinline__ void take_chunk(const Params& p, Shared& s, RingPlace& ring, const Instruction& in, int tiles,
                                           Codes& codes, float2& row_scale) {
  static_assert(!Loading || WEIGHT_BITS == 16, "nothing but the codes is waited for");
  const int lane = threadIdx.x % 32;
  wait_chunk(p, s, in, &s.full[ring.slot], ring.phase);
  const char* chunk = s.ring[ring.slot];
  load_codes(codes, chunk, tiles);
  if (WEIGHT_BITS < 16) {
    const float* scales = (const float*)chunk + lane / 4;
    row_scale = make_float2(scales[0] * kUndo, scales[8] * kUndo);
  }
  u32 read = 0;
#pragma unroll
  for (int i = 0; Loading && i < kEach; i++) read |= codes.codes[i].x;
  give_back(s, ring, read & (u32)(p.count >> 31));  // a count is positive, which the compiler does not know
}

// Streams `in.units` tiles of 16 rows x in.k_tiles * 16 columns through the ring and multiplies them by the input, which
// a warp keeps in registers from unit to unit if it fits. There are Tiles column tiles; if not Even, some SMs have one less.
// False when the machine has given up. `load` brings the input. Of GATE_UP, whose wait finds the ring full, the first
// unit's first chunks leave it meanwhile.
// `epilogue.row_of<Which>(valid, unit, row, b, value, above)` is called by whole warps, once for each output row, neighbouring rows
// in neighbouring lanes; for GATE_UP, for rows 0 to 7, with row + 8 as `above`.
template <Op Which, int Tiles, bool Even, class Load, class Epilogue>
__device__ __forceinline__ bool product(const Params& p, Shared& s, RingPlace& ring, const Instruction& in, int step,
                                        Load load, Epilogue epilogue) {
  constexpr bool Paired = Which == kGateUp;
  constexpr int kChunks = (Tiles + kChunkTiles - 1) / kChunkTiles, kRows = Paired ? 8 : 16;
  constexpr int kAhead = Which != kGateUp ? 0 : AHEAD_CHUNKS < kChunks ? AHEAD_CHUNKS : kChunks;
  constexpr int kChunkInput = kChunkTiles * kColumns * 32;
  constexpr bool kHeld = kChunks * kEach / kTogether * kBlockTiles <= kHeldMost;
  const int warp = threadIdx.x / 32;
  const int tiles = Even ? Tiles : in.k_tiles;
  const auto here = [&](int c) { return tiles - c * kChunkTiles; };
  float2 row_scale = make_float2(1.f, 1.f);
  Codes ahead[kAhead ? kAhead : 1];
  const auto meanwhile = [&] {
    if (!in.units) return;
#pragma unroll
    for (int c = 0; c < kAhead; c++) take_chunk<(kAhead > 0)>(p, s, ring, in, here(c), ahead[c], row_scale);
  };
  load.template input<Which>(meanwhile);
  if (!in.units) return !s.faulted;
  char* input = (char*)s.product.input;
  float2 undo = make_float2(1.f, 1.f);
  if constexpr (WEIGHT_BITS == 8) undo = halve_inputs<Tiles>(input, tiles);
  Inputs held[kHeld ? kChunks : 1], fresh;
#pragma unroll
  for (int c = 0; kHeld && c < kChunks; c++) load_inputs(held[c], input + c * kChunkInput, here(c));
  if (s.faulted) return false;  // asked while the inputs come, for which everyone waits
  int buffer = 0;
  float sum[kChains][4] = {};
#pragma unroll
  for (int c = 0; c < kAhead; c++) {
    if (!kHeld) load_inputs(fresh, input + c * kChunkInput, here(c));
    multiply(sum, ahead[c], kHeld ? held[kHeld ? c : 0] : fresh, here(c));
  }
#pragma unroll 1
  for (int unit = 0; unit < in.units; unit++) {
#pragma unroll(kHeld ? kChunks : 1)
    for (int c = 0; c < kChunks; c++) {
      if (!Even && here(c) <= 0) break;
      if (c < kAhead && unit == 0) continue;
      Codes codes;
      take_chunk<false>(p, s, ring, in, here(c), codes, row_scale);
      if (!kHeld) load_inputs(fresh, input + c * kChunkInput, here(c));
      multiply(sum, codes, kHeld ? held[kHeld ? c : 0] : fresh, here(c));
    }
    const int u = unit % kUnitBatch;
    leave_sums(s.product.partial[buffer][u][warp], sum, row_scale, undo);
#pragma unroll
    for (int i = 0; i < kChains * 4; i++) sum[i / 4][i % 4] = 0.f;
    if (u == kUnitBatch - 1 || unit == in.units - 1) {
      if (unit == in.units - 1) mark(p, step, in.index, 2);
      consumers_sync();
      const int outputs = (u + 1) * BATCH * kRows;
      for (int i = threadIdx.x; i - threadIdx.x % 32 < outputs; i += kConsumers) {
        const int at = min(i, outputs - 1), row = at % kRows, b = at / kRows % BATCH, done = at / kRows / BATCH;
        const float value = sum_over_warps(s, buffer, done, b * 16 + row);
        const float above = Paired ? sum_over_warps(s, buffer, done, b * 16 + row + 8) : 0.f;
        epilogue.template row_of<Which>(i < outputs, unit - u + done, row, b, value, above);
      }
      buffer ^= 1;
    }
  }
  return true;
}

// A product's column tiles, cut into parts that differ by one at most.
template <Op Which, int Tiles, int Parts, class Load, class Epilogue>
__device__ __forceinline__ bool part_product(const Params& p, Shared& s, RingPlace& ring, const Instruction& in, int step,
                                             Load load, Epilogue epilogue) {
  return product<Which, (Tiles + Parts - 1) / Parts, Tiles % Parts == 0>(p, s, ring, in, step, load, epilogue);
}

// The product of an instruction; false when the machine has given up.
template <class Load, class Epilogue>
__device__ __forceinline__ bool gemv(const Params& p, Shared& s, RingPlace& ring, const Instruction& in, int step,
                                     Load load, Epilogue epilogue) {
  if (in.op == kGateUp) return product<kGateUp, HIDDEN / 16, true>(p, s, ring, in, step, load, epilogue);
  if (in.op == kOut) return part_product<kOut, HEADS * HEAD_DIM / 16, OUT_PLANES>(p, s, ring, in, step, load, epilogue);
  if (in.op == kDown) return part_product<kDown, INTER / 16, DOWN_PLANES>(p, s, ring, in, step, load, epilogue);
  return product<kQkv, HIDDEN / 16, true>(p, s, ring, in, step, load, epilogue);
}

constexpr int kSequenceWarps = WARPS / BATCH, kSequenceThreads = kSequenceWarps * 32;  // that load one sequence's input
constexpr int kSquares = SLICE ? WARPS : kSequenceWarps;                              // sums of one sequence's squares
static_assert(kSequenceWarps > 0, "a sequence has a warp of its own");
constexpr int kNormSteps = (HIDDEN + kSequenceThreads * 4 - 1) / (kSequenceThreads * 4);

// residual += the planes of the last product (or = the embedding of the new token); input = residual * norm weight,
// not yet divided by its root mean square: that is one number, `scale`, and multiplies the products instead. Sequences
// are loaded side by side. `meanwhile` is done when the first words are asked for.
template <int Planes, class Meanwhile>
__device__ __forceinline__ void load_normed(const Params& p, Shared& s, const Instruction& in, u32 tag, int step,
                                            const u64* planes, const float* norm, Meanwhile meanwhile) {
  constexpr int kMost = Planes > 8 ? 1 : Planes > 1 ? 16 / Planes : 8;  // steps whose words a thread has in flight
  constexpr int kNormTogether = kNormSteps < kMost ? kNormSteps : kMost;
  const int b = threadIdx.x / kSequenceThreads;
  if (WARPS % BATCH && b >= BATCH) return;
  float squares = 0;
#pragma unroll 1
  for (int first = 0; first < kNormSteps; first += kNormTogether) {
    float4 x[kNormTogether], weight[kNormTogether];
    int at[kNormTogether];
#pragma unroll
    for (int i = 0; i < kNormTogether; i++) {
      at[i] = ((first + i) * kSequenceThreads + (int)threadIdx.x % kSequenceThreads) * 4;
      x[i] = weight[i] = float4{};
      if (at[i] >= HIDDEN) continue;
      weight[i] = __ldg((const float4*)(norm + at[i]));
      if (planes == nullptr) {
        const uint2 raw = __ldg((const uint2*)(p.embedding + (size_t)s.token[b] * HIDDEN + at[i]));
        const float2 low = unpack_bf16(raw.x), high = unpack_bf16(raw.y);
        x[i] = make_float4(low.x, low.y, high.x, high.y);
      } else {
        x[i] = *(const float4*)(s.residual + b * HIDDEN + at[i]);
      }
    }
    u32 from[kNormTogether * Planes];
    ulonglong2 words[kNormTogether * Planes];
#pragma unroll
    for (int i = 0; i < kNormTogether * Planes; i++)
      from[i] = (i / kNormTogether * BATCH + b) * (HIDDEN / 2) + min(at[i % kNormTogether], HIDDEN - 4) / 2;
    if (planes != nullptr) ask<kMany>(p, s, in, tag, planes, from, words);
    if (first == 0) meanwhile();
    if (planes != nullptr) {
      settle(p, s, in, tag, planes, from, words);
#pragma unroll
      for (int i = 0; i < kNormTogether * Planes; i++) {
        x[i % kNormTogether].x += first_float(words[i].x);
        x[i % kNormTogether].y += second_float(words[i].x);
        x[i % kNormTogether].z += first_float(words[i].y);
        x[i % kNormTogether].w += second_float(words[i].y);
      }
    }
#pragma unroll
    for (int i = 0; i < kNormTogether; i++) {
      if (at[i] >= HIDDEN) break;
      *(float4*)(s.residual + b * HIDDEN + at[i]) = x[i];
#if DEBUG
      const int version = in.layer * 2 + (in.op == kGateUp);
      if (blockIdx.x == 0)
        *(float4*)(p.residuals + (((size_t)step * (2 * LAYERS + 1) + version) * BATCH + b) * HIDDEN + at[i]) = x[i];
#endif
      squares += x[i].x * x[i].x + x[i].y * x[i].y + x[i].z * x[i].z + x[i].w * x[i].w;
      const float4 g = weight[i];
      store_input(s, at[i], b, make_float4(x[i].x * g.x, x[i].y * g.y, x[i].z * g.z, x[i].w * g.w));
    }
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) s.squares[threadIdx.x / 32] = squares;
}

// After a barrier: what the products of the residual are multiplied by. Another barrier comes before it is used.
__device__ __forceinline__ void set_scale(Shared& s) {
  if (threadIdx.x >= BATCH) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kSquares; w++) sum += s.squares[threadIdx.x * kSquares + w];
  s.scale[threadIdx.x] = rsqrtf(sum / HIDDEN + NORM_EPS);
}

// input = `k_tiles` tiles from `base` on: 8 elements lie in three words. The sum of what the fourth words have.
__device__ __forceinline__ float load_eights(const Params& p, Shared& s, const Instruction& in, u32 tag, const u64* base,
                                             int k_tiles) {
  constexpr int kEach = (INPUT_LENGTH / 8 * kColumns + kConsumers - 1) / kConsumers, kItems = kEach < 8 ? kEach : 8;
  const int groups = k_tiles * 2 * kColumns;
  float sum = 0;
#pragma unroll 1
  for (int round = threadIdx.x; round - threadIdx.x % 32 < groups; round += kConsumers * kItems) {
    u32 from[2 * kItems];
    ulonglong2 words[2 * kItems];
#pragma unroll
    for (int n = 0; n < kItems; n++) {
      const int group = min(round + n * kConsumers, groups - 1);
      const int there = group / kColumns * BATCH + min(group % kColumns, BATCH - 1);
      from[2 * n] = (BATCH == kColumns ? group : there) * 4;
      from[2 * n + 1] = from[2 * n] + 2;
    }
    await<kWatchGated>(p, s, in, tag, base, from, words);
#pragma unroll
    for (int n = 0; n < kItems; n++) {
      const int group = round + n * kConsumers;  // 8 elements of one sequence
      if (group >= groups) break;
      const int k8 = group / kColumns, b = group % kColumns;
      u32* tile = (u32*)(s.product.input + ((k8 >> 1) * kColumns + b) * 16) + (k8 & 1);  // pairs 2t, 2t+1 lie 8 bytes apart
      const u64 a = words[2 * n].x, c = words[2 * n].y, d = words[2 * n + 1].x;
      tile[0] = (u32)(a >> 48) | (u32)(a >> 32 & 0xffff) << 16;
      tile[2] = (u32)(a >> 16 & 0xffff) | (u32)(c >> 48) << 16;
      tile[4] = (u32)(c >> 32 & 0xffff) | (u32)(c >> 16 & 0xffff) << 16;
      tile[6] = (u32)(d >> 48) | (u32)(d >> 32 & 0xffff) << 16;
      sum += __uint_as_float(value_of(words[2 * n + 1].y));
    }
  }
  return sum;
}

// input = k tiles [in.k_tile, + in.k_tiles) of the gated vector, whose fourth words are empty.
__device__ __forceinline__ void load_gated(const Params& p, Shared& s, const Instruction& in, u32 tag) {
  load_eights(p, s, in, tag, p.gated + copy_read() * kGatedWords + (size_t)in.k_tile * 2 * BATCH * 4, in.k_tiles);
}
