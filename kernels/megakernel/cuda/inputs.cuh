// The input vectors of products: polled word by word and stored in shared memory in the order of the tensor cores.
#pragma once
#include "machine.cuh"

// The place of element k of an input in its 16: lane t of a fragment holds k = 2t, 2t + 1, 2t + 8, 2t + 9.
__device__ __forceinline__ int permuted(int k) { return ((k & 7) >> 1) * 4 + (k >> 3 & 1) * 2 + (k & 1); }

// Input elements k .. k + 3 (k a multiple of 4) of sequence b.
__device__ __forceinline__ void store_input(Shared& s, int k, int b, const float4& x) {
  __nv_bfloat16* tile = s.product.input + ((k >> 4) * kColumns + b) * 16;
  *(__nv_bfloat162*)(tile + permuted(k & 15)) = __floats2bfloat162_rn(x.x, x.y);
  *(__nv_bfloat162*)(tile + permuted((k & 15) + 2)) = __floats2bfloat162_rn(x.z, x.w);
}

constexpr int kSequenceWarps = WARPS / BATCH, kSequenceThreads = kSequenceWarps * 32;  // that load one sequence's input
constexpr int kSquares = SLICE ? WARPS : kSequenceWarps;                               // sums of one sequence's squares
static_assert(kSequenceWarps > 0, "a sequence has a warp of its own");
constexpr int kNormSteps = (HIDDEN + kSequenceThreads * 4 - 1) / (kSequenceThreads * 4);

// The threads' sums of squares for the RMS-scale warp, where units' sums come only once the scale is known.
__device__ __forceinline__ float* thread_squares(Shared& s) { return &s.product.warp_sums[1][0][0][0]; }
// This warp has written its squares.
__device__ __forceinline__ void arrive_squared(Shared& s) {
  __syncwarp();
  if (DEBUG || threadIdx.x % 32 == 0) arrive(s.squared);
}

#if NORM_AFTER
// added = the partials of the last product. Returns the scale of its norm.
template <int Partials, class Prologue>
__device__ __forceinline__ float sum_added(const Params& p, Shared& s, const Instruction& in, u32 flag,
                                           const u64* partials, Prologue overlapped_prologue) {
  constexpr int kMost = Partials > 4 ? 1 : 8 / Partials, kTogether = kNormSteps < kMost ? kNormSteps : kMost;
  const int b = threadIdx.x / kSequenceThreads, own = threadIdx.x % kSequenceThreads;
  float squares = 0;
#pragma unroll 1
  for (int first = 0; first < kNormSteps && b < BATCH; first += kTogether) {
    u32 from[kTogether * Partials];
    ulonglong2 words[kTogether * Partials];
#pragma unroll
    for (int i = 0; i < kTogether * Partials; i++)
      from[i] = (i / kTogether * BATCH + b) * (HIDDEN / 2) +
                min(((first + i % kTogether) * kSequenceThreads + own) * 4, HIDDEN - 4) / 2;
    issue_loads<kMany>(p, s, in, flag, partials, from, words);
    if (first == 0) overlapped_prologue();
    poll(p, s, in, flag, partials, from, words);
#pragma unroll
    for (int i = 0; i < kTogether; i++) {
      const int at = ((first + i) * kSequenceThreads + own) * 4;
      if (at >= HIDDEN) break;
      float4 x = {};
#pragma unroll
      for (int n = i; n < kTogether * Partials; n += kTogether) {
        x.x += first_float(words[n].x);
        x.y += second_float(words[n].x);
        x.z += first_float(words[n].y);
        x.w += second_float(words[n].y);
      }
      *(float4*)(s.added + b * HIDDEN + at) = x;
      squares += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) s.added_squares[threadIdx.x / 32] = squares;
  consumers_sync();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kSequenceWarps; w++) sum += s.added_squares[min(b, BATCH - 1) * kSequenceWarps + w];
  return rsqrtf(sum / HIDDEN + NORM_EPS);
}
#endif

// residual += the partials of the last product, or residual = the embedding of the new token. The input is residual ·
// norm weight; its division by the root mean square is left out, and `scale` multiplies the products instead. Sequences
// are loaded side by side. `overlapped_prologue` runs after the first loads have been issued.
template <int Partials, class Prologue>
__device__ __forceinline__ void load_normed(const Params& p, Shared& s, const Instruction& in, u32 flag, int step,
                                            const u64* partials, const float* norm, Prologue overlapped_prologue) {
#if NORM_AFTER
  float by = 0;  // the scale of the norm of what is added
  const float* after = norm + 2 * LAYERS * HIDDEN;  // its weight: that of the half before lies one row less behind
  if (partials != nullptr) by = sum_added<Partials>(p, s, in, flag, partials, overlapped_prologue);
#endif
  constexpr int kPairs = HIDDEN > 4096 ? 8 : 16;  // pairs of words in flight together; more would spill registers
  constexpr int kMost = Partials > kPairs / 2 ? 1 : Partials > 1 ? kPairs / Partials : 8;  // the same in steps
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
      if (partials == nullptr) {
        const uint2 raw = __ldg((const uint2*)(p.embedding + (size_t)s.token[b] * HIDDEN + at[i]));
        const float2 low = unpack<bf16>(raw.x), high = unpack<bf16>(raw.y);
        x[i] = make_float4(low.x, low.y, high.x, high.y);
      } else {
        x[i] = *(const float4*)(s.residual + b * HIDDEN + at[i]);
#if NORM_AFTER
        const float4 y = *(const float4*)(s.added + b * HIDDEN + at[i]), g = __ldg((const float4*)(after + at[i]));
        x[i] = make_float4(x[i].x + y.x * by * g.x, x[i].y + y.y * by * g.y, x[i].z + y.z * by * g.z,
                           x[i].w + y.w * by * g.w);
#endif
      }
    }
#if !NORM_AFTER
    u32 from[kNormTogether * Partials];
    ulonglong2 words[kNormTogether * Partials];
#pragma unroll
    for (int i = 0; i < kNormTogether * Partials; i++)
      from[i] = (i / kNormTogether * BATCH + b) * (HIDDEN / 2) + min(at[i % kNormTogether], HIDDEN - 4) / 2;
    if (partials != nullptr) issue_loads<kMany>(p, s, in, flag, partials, from, words);
    if (first == 0) overlapped_prologue();
    if (partials != nullptr) {
      poll(p, s, in, flag, partials, from, words);
#pragma unroll
      for (int i = 0; i < kNormTogether * Partials; i++) {
        x[i % kNormTogether].x += first_float(words[i].x);
        x[i % kNormTogether].y += second_float(words[i].x);
        x[i % kNormTogether].z += first_float(words[i].y);
        x[i % kNormTogether].w += second_float(words[i].y);
      }
    }
#endif
#pragma unroll
    for (int i = 0; i < kNormTogether; i++) {
      if (at[i] >= HIDDEN) break;
      *(float4*)(s.residual + b * HIDDEN + at[i]) = x[i];
#if DEBUG
      const int version = in.layer * 2 + (in.op == kAfterAttention);
      if (blockIdx.x == 0)
        *(float4*)(p.residuals + (((size_t)step * (2 * LAYERS + 1) + version) * BATCH + b) * HIDDEN + at[i]) = x[i];
#endif
      squares += x[i].x * x[i].x + x[i].y * x[i].y + x[i].z * x[i].z + x[i].w * x[i].w;
      const float4 g = weight[i];
      store_input(s, at[i], b, make_float4(x[i].x * g.x, x[i].y * g.y, x[i].z * g.z, x[i].w * g.w));
    }
  }
  if constexpr (kRmsScaleWarp) {
    thread_squares(s)[threadIdx.x] = squares;
    arrive_squared(s);
    return;
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) s.squares[threadIdx.x / 32] = squares;
}

// Computes RMSNorm's scales from the warps' squares. The caller synchronises the consumers before the call, and again
// before it uses the scales. Without NORM_BEFORE only HEAD's product is of a norm.
__device__ __forceinline__ void set_scale(Shared& s, const Instruction& in) {
  if (threadIdx.x >= BATCH) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kSquares; w++) sum += s.squares[threadIdx.x * kSquares + w];
  s.scale[threadIdx.x] = NORM_BEFORE || in.op == kHead ? rsqrtf(sum / HIDDEN + NORM_EPS) : 1.f;
}

// The RMS-scale warp computes these scales for every product until the consumers stop.
__device__ __forceinline__ void run_rms_scale_warp(Shared& s) {
  for (u32 phase = 0;; phase ^= 1) {
    while (!try_wait(s.squared, phase)) {
    }
    if (*(volatile int*)&s.stop) return;
    float sums[WARPS], sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sums[w] = warp_sum(thread_squares(s)[w * 32 + threadIdx.x % 32]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += sums[w];
    __syncwarp();
    if (threadIdx.x % 32 != 0) continue;
    s.scale[0] = rsqrtf(sum / HIDDEN + NORM_EPS);
    arrive(s.scaled);
  }
}
// The consumers wait for the scale. This wait ends, because the RMS-scale warp waits for the consumers only, and all of
// them have written their squares. Every SM executes every such product: an odd number per token, QKV and GATE_UP in
// alternation.
template <Op Which>
__device__ __forceinline__ void wait_rms_scale(Shared& s, int step) {
  while (!try_wait(s.scaled, (step + (Which == kGateUp)) & 1)) {
  }
}

// Loads `k_tiles` tiles of words from `base` as input, 8 elements in three words; sums the fourth words.
__device__ __forceinline__ float load_eights(const Params& p, Shared& s, const Instruction& in, u32 flag,
                                             const u64* base, int k_tiles) {
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
      const int unpadded = group / kColumns * BATCH + min(group % kColumns, BATCH - 1);
      from[2 * n] = (BATCH == kColumns ? group : unpadded) * 4;
      from[2 * n + 1] = from[2 * n] + 2;
    }
    load_flagged<kWatchGated>(p, s, in, flag, base, from, words);
#pragma unroll
    for (int n = 0; n < kItems; n++) {
      const int group = round + n * kConsumers;  // 8 elements of one sequence
      if (group >= groups) break;
      const int k8 = group / kColumns, b = group % kColumns;
      u32* tile =
          (u32*)(s.product.input + ((k8 >> 1) * kColumns + b) * 16) + (k8 & 1);  // pairs 2t, 2t+1 lie 8 bytes apart
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

// input = columns [in.k_tile, in.k_tile + in.k_tiles) · 16 of the group's gated vector, whose fourth words are empty.
__device__ __forceinline__ void load_gated(const Params& p, Shared& s, const Instruction& in, u32 flag) {
  const int first = (GROUPS > 1 ? in.group * (INTER / 16) : 0) + in.k_tile;
  load_eights(p, s, in, flag, p.gated + copy_read() * kGatedWords + (size_t)first * 2 * BATCH * 4, in.k_tiles);
}
