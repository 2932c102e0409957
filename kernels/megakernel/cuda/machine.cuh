// An SM's shared memory, and its waits for flagged words.
#pragma once
#include "parameters.cuh"

// Scratch of attention: the queries, each as the sum of two bf16; the newest keys and values; and for each warp and
// query head the weighted sum of values and (maximum, sum of weights). The input of an OUT that attends comes first.
struct AttentionScratch {
  alignas(16) __nv_bfloat16 input[OUT_INPUT * kColumns];
  alignas(16) __nv_bfloat16 query[ATTENDED_HEADS][2][HEAD_DIM], newest[ATTENDED_GROUPS][2][HEAD_DIM];
  alignas(16) float merged[WARPS][kGroupMost][HEAD_DIM];
  float2 state[WARPS][kGroupMost];
  float2 squares[QK_NORM == 2 ? WARPS : 1];
};

// What the other SM of a pair sends: for 4 columns of OUT's input weighted values and (maximum, sum of weights).
struct Exchange {
  alignas(16) float4 sum[OUT_INPUT / 4];
  float2 state[OUT_INPUT / 4];
  Barrier full;  // a phase a layer
};

struct ProductScratch {
  // [k tile][kColumns][16], in the order of the matrix units
  alignas(16) __nv_bfloat16 input[(kInputBytes + kUnitBytes) / 2];
  alignas(16) float warp_sums[2][kUnitBatch][WARPS][16 * BATCH];
};

// The search for the smallest logit that top-k and top-p keep (sampling.cuh): one round counts logits in bins.
constexpr int kBins = kColumns <= 2 ? 32 : 64 / kColumns;
constexpr int kBinWords = kBins * kColumns;
enum Goal : int { kFound = 0, kCount = 1, kMass = 2 };
struct Search {
  int goal;        // kFound; or the tokens above the threshold must reach a number (kCount) or a mass (kMass)
  float low, top;  // the threshold lies in [low, top), minus and plus infinity while unknown
  float2 above;    // mass and count of the tokens from `top` on
  float wanted, largest, threshold;
  float width;  // of a bin while `low` is unknown
};
struct SampleScratch {
  float2 part[WARPS][kBinWords], read[kConsumers * 2 / kBinWords][kBinWords];  // mass and count
  float edge[BATCH][kBins];
  Search search[BATCH];
};

struct Shared {
  alignas(128) char ring[STAGES][kChunk];
  Barrier full[STAGES], empty[STAGES];
  Barrier squared, scaled;  // of the RMS-scale warp: two phases a layer and one of HEAD
  int step;                 // tokens made so far in this launch
  int stop;                 // the consumers have ended or given up: the producer waits for its copies and ends
  union {                   // an instruction is a product, attention, or sampling
    ProductScratch product;
    AttentionScratch attention;
    SampleScratch sample;
  };
  alignas(16) float residual[BATCH * kResidual];
  float squares[SLICE ? WARPS * BATCH : WARPS];  // of the residual, by the warp that loaded it
  float scale[BATCH];                            // of RMSNorm: products of the residual are multiplied by it
#if NORM_AFTER
  alignas(16) float added[BATCH * HIDDEN];  // what the last product adds to the residual, not yet normed
  float added_squares[WARPS];               // of it, by the warp that loaded it
#endif
#if PAIRS
  Exchange exchange;
#endif
#if EXPERTS
  int experts[kSlots], distinct;  // the layer's, and how many
  float shares[kSlots][BATCH];    // of each expert in each sequence; 0: the sequence did not choose it
  unsigned char routes[kMany ? BATCH : 1][32];
  int routed;  // layers of this launch whose experts have been known so far
#endif
  u64 best[kConsumers / 16], chosen[BATCH];
  int token[BATCH], stopped[BATCH], cancelled;
  int head_first, head_count;  // this SM's tokens
  u32 round;                   // of the search, over the whole launch
  int program;                 // where this SM's instructions begin
  alignas(64) Instruction slots[2];
#if DEBUG
  u32* touched;  // of the current instruction
  const u64* words;
  u64 word_count;
#endif
  int faulted;
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "kernels.megakernel.host.device.shared_bytes");

__device__ __forceinline__ void mark(const Params& p, int step, int index, int what) {
#if TRACE
  if (threadIdx.x == 0 && step == p.count / 2)
    p.trace[((size_t)blockIdx.x * p.trace_length + index) * 8 + what] = nanoseconds();
#endif
}

// Its address is kept in a register. The compiler would otherwise derive it from the block's rank in the cluster at
// each use, by a special register whose read takes longer than that of shared memory.
__device__ __forceinline__ Shared& shared_memory() {
  extern __shared__ __align__(1024) char memory[];  // a Shared
  u32 address;
  asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(shared_address(memory)));
  return *(Shared*)__cvta_shared_to_generic(address);
}

#if DEBUG
// Notes the words that the instruction reads or writes; one outside of all buffers as the one behind the last.
__device__ __forceinline__ void note(const u64* at, int words, bool written) {
  const Shared& s = shared_memory();
  for (int i = 0; i < words; i++) {
    const u64 word = at + i - s.words < s.word_count ? at + i - s.words : s.word_count;
    atomicOr(s.touched + (written ? s.word_count / 32 + 1 : 0) + word / 32, 1u << word % 32);
  }
}
#endif

__device__ __forceinline__ void consumers_sync() { named_barrier_sync(1, kConsumers); }

// Whether a warp that is no consumer, the RMS-scale warp, adds up the squares of the residual while the consumers
// multiply. It begins when all warps have left their squares (`squared`); the consumers wait for its result (`scaled`)
// before they use the sums of their first units. Larger models gain nothing; beside splits there are too few registers.
constexpr bool kRmsScaleWarp = BATCH == 1 && WEIGHT_BITS == 16 && !MAX_SPLITS && !SLICE && !EXPERTS && !NORM_AFTER && HIDDEN < 2048;

// With DEBUG, words are noted for this instruction from here on.
__device__ __forceinline__ void note_instruction(const Params& p, Shared& s, int index) {
#if DEBUG
  consumers_sync();
  if (threadIdx.x == 0) {
    s.touched = p.touched + ((size_t)blockIdx.x * p.trace_length + index) * 2 * (p.words / 32 + 1);
    s.words = p.qkv;
    s.word_count = p.words;
  }
  consumers_sync();
#endif
}

// The flag of all words that the instructions of one layer of one token publish. A buffer is written once with each
// flag, so an old word has another flag. Buffers are zero at launch, and no flag is 0.
__device__ __forceinline__ u32 flag_at(int step, int layer) { return (u32)(step * (LAYERS + 1) + layer) % 0xffffu + 1; }

// The same place in the memory of another rank: the words of all ranks lie alike.
#if RANKS > 1
__device__ __forceinline__ u64* of_peer(const Params& p, u64* at, int peer) {
  return (u64*)((char*)at + p.peers[peer]);
}
#endif
// Publishes a word in the memory of every rank. The way to the others is longer, so they come first.
__device__ __forceinline__ void publish_to_all(const Params& p, u64* to, u64 word) {
#if RANKS > 1
#pragma unroll
  for (int peer = 0; peer < RANKS - 1; peer++) store_word(of_peer(p, to, peer), word);
#endif
  publish(to, word);
}
// The SMs of all ranks, and this one's number among them.
__device__ __forceinline__ u32 all_sms() { return gridDim.x * RANKS; }
__device__ __forceinline__ u32 own_sm(const Params& p) {
#if RANKS > 1
  return p.rank * gridDim.x + blockIdx.x;
#else
  return blockIdx.x;
#endif
}

// Gives up: the first SM of all ranks that does leaves its rank, number and instruction in every rank's fault word.
__device__ __forceinline__ void give_up(const Params& p, const Instruction& in) {
  const u64 who = 1ull << 63 | (u64)blockIdx.x << 32 | ((u32)in.index << 8 | (u32)in.op);
#if RANKS > 1
  const u64 which = who | (u64)p.rank << 56;
  atomicCAS_system(p.fault, 0ull, which);
#pragma unroll 1  // Unrolled, it makes callers' loops too large to be unrolled. Their arrays then lie in memory.
  for (int peer = 0; peer < RANKS - 1; peer++) atomicCAS_system(of_peer(p, p.fault, peer), 0ull, which);
#else
  atomicCAS(p.fault, 0ull, who);
#endif
}

// Whether a wait must end after `spin` tries: it has taken too long, or another SM has given up.
__device__ __forceinline__ bool given_up(const Params& p, Shared& s, const Instruction& in, u32 spin, u64& began) {
  if ((spin & 1023) != 1023) return false;
  const u64 now = nanoseconds();
  if (!began) began = now;
  if (now - began > p.timeout_ns) give_up(p, in);
  if (!*(volatile u64*)p.fault) return false;
  s.faulted = 1;
  return true;
}

// Issues the loads of N pairs of words, `from` words behind `base`; whole warps call it, and `poll` after it. With
// Watch, one lane polls its first word before the others load, where a warp waits for many words or for long: waiting
// SMs then leave the memory system to the weights.
template <bool Watch, int N>
__device__ __forceinline__ void issue_loads(const Params& p, Shared& s, const Instruction& in, u32 flag,
                                            const u64* base, const u32 (&from)[N], ulonglong2 (&words)[N]) {
  u64 began = 0;
  if (Watch && threadIdx.x % 32 == 0)
    for (u32 spin = 0; flag_of(load_pair(base + from[0]).x) != flag && !given_up(p, s, in, spin, began); spin++) {
    }
  if (Watch) __syncwarp();
#pragma unroll
  for (int i = 0; i < N; i++) words[i] = load_pair(base + from[i]);
}

// Waits until all words carry `flag`; a lane loads those again that do not. When this takes too long or another SM has
// given up, `faulted` is set, which the caller reads after the next barrier.
template <int N>
__device__ __forceinline__ void poll(const Params& p, Shared& s, const Instruction& in, u32 flag, const u64* base,
                                     const u32 (&from)[N], ulonglong2 (&words)[N]) {
  u64 began = 0;
  for (u32 spin = 0;; spin++) {
    bool ready = true, missed[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
      missed[i] = flag_of(words[i].x) != flag || flag_of(words[i].y) != flag;
      ready &= !missed[i];
    }
#pragma unroll
    for (int i = 0; i < N; i++) reload_if(words[i], base + from[i], missed[i]);
    if (__all_sync(~0u, ready)) return;
    if ((spin & 1023) == 1023 && __any_sync(~0u, given_up(p, s, in, spin, began))) return;  // all lanes or none
  }
}

template <bool Watch, int N>
__device__ __forceinline__ void load_flagged(const Params& p, Shared& s, const Instruction& in, u32 flag,
                                             const u64* base, const u32 (&from)[N], ulonglong2 (&words)[N]) {
  issue_loads<Watch>(p, s, in, flag, base, from, words);
  poll(p, s, in, flag, base, from, words);
}
