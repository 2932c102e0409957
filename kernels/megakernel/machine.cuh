// The machine that every SM is: its shared memory, the weight ring, and the instruction it is working on.
#pragma once
#include "flagged_words.cuh"

// Compile-time facts of the model and the launch, from `kernels.megakernel.compile`:
// HIDDEN INTER HEADS KV_HEADS HEAD_DIM LAYERS VOCAB BATCH (1 to 8) QKV_BIAS QK_NORM NORM_EPS ROWS_PER_HEAD_GROUP
// WARPS STAGES IN_FLIGHT PREFETCHED_IN_FLIGHT (chunks, when memory or the second-level cache has them)
// INPUT_LENGTH (largest input vector of one instruction) MAX_SPLITS (of the keys; 0: OUT attends) SPLIT_KEYS
// ATTENDED_HEADS ATTENDED_GROUPS (query and key-value heads of one instruction) OUT_INPUT (of OUT that attends)
// OUT_PARTIALS DOWN_PARTIALS TRACE PAIRS (of SMs, that share the keys to which OUT attends, or the splits that it
// merges) COPIES (of qkv, out_partials, down_partials and gated, one after the other: an SM writes all and reads one)
// WEIGHT_BITS (16: bf16, 8: fp8, 4: nvfp4) CHUNK_BLOCKS (32, or 24, of a chunk of weights: weights.py)
// PROLOGUE_CHUNKS (that leave the ring while GATE_UP's partials come; bf16, one sequence, no SLICE)
// LONG_IN_FLIGHT (chunks, from memory, while all SMs are within GATE_UP or HEAD, or this one's consumers wait for
// chunks) PREFETCH_BYTES (of weights beyond the ring, in the second-level cache) PREFETCH_CYCLES (for each 4 KB of
// them) KEYS_IN_RING (splits' keys and values come through the ring: keys.cuh) SLICE (columns of the residual that an
// SM keeps; 0: all)
constexpr int kConsumers = WARPS * 32;
constexpr int kThreads = kConsumers + 128;  // one more warpgroup: a thread produces, and a warp may add squares
// Of a thread: those that the block was launched with, dealt anew. A producer of rows, in a pair, needs more than 40.
constexpr int kProducerRegisters = PAIRS && KEYS_IN_RING ? 48 : 40,
              kConsumerRegisters = PAIRS && KEYS_IN_RING ? 224 : 232;
// How weights lie in a chunk of the ring: kernels/megakernel/weights.py.
constexpr int kBlockTiles = 16 / WEIGHT_BITS;  // 16 x 16 tiles of a block
constexpr int kBlockCodes = 512;               // bytes of their codes: 16 a lane
constexpr int kBlock = kBlockCodes + (WEIGHT_BITS == 4 ? 64 : 0);
constexpr int kChunkHeader = WEIGHT_BITS == 16 ? 0 : 64;
constexpr int kChunkBlocks = CHUNK_BLOCKS;
constexpr int kChunkTiles = kChunkBlocks * kBlockTiles;
constexpr int kChunk = (kChunkHeader + kChunkBlocks * kBlock + 127) / 128 * 128;
// Who says that a chunk is free: each warp, or, for racecheck, which does not see that __syncwarp orders a lane's reads
// before another lane's arrival, each lane.
constexpr int kArrivals = DEBUG ? kConsumers : WARPS;
// Input vectors of a product in shared memory: the sequences, filled up to a power of two. Nobody looks at what comes
// of the others, of which there are no words.
constexpr int kColumns = BATCH > 4 ? 8 : BATCH > 2 ? 4 : BATCH;
constexpr int kUnitBatch = kColumns == 8 ? 2 : kColumns == 4 ? 4 : 8;  // row tiles that are reduced together
constexpr bool kMany = BATCH > 1;
// Whether one lane of a warp watches for DOWN's input: not where most of a layer lies in the ring, as in small models.
constexpr bool kWatchGated = kMany || (WEIGHT_BITS == 16 && COPIES == 1);
constexpr int kQkvRows = (HEADS + 2 * KV_HEADS) * HEAD_DIM;
constexpr int kGroup = HEADS / KV_HEADS;
// Words of one copy. A product writes the partials of DOWN for one layer in two.
constexpr int kQkvWords = BATCH * kQkvRows / 2, kOutWords = OUT_PARTIALS * BATCH * HIDDEN / 2;
constexpr int kDownWords = DOWN_PARTIALS * BATCH * HIDDEN / 2, kGatedWords = INTER / 8 * BATCH * 4;
__device__ __forceinline__ int copy_read() { return blockIdx.x % COPIES; }
constexpr int kResidual = SLICE ? SLICE : HIDDEN;  // columns of the residual in shared memory
constexpr int kGroupMost = kGroup < ATTENDED_HEADS ? kGroup : ATTENDED_HEADS;  // of an instruction, with the same keys
static_assert(kGroupMost <= 8 && ATTENDED_GROUPS <= WARPS, "query heads are columns of a matrix unit's tile");

enum Op : int { kEnd = 0, kQkv = 1, kAttention = 2, kOut = 3, kGateUp = 4, kDown = 5, kHead = 6, kAdd = 7 };

// One instruction: 16 words, laid out by kernels.megakernel.instructions.FIELDS.
struct Instruction {
  int op, layer, units, tile, k_tile, k_tiles, partial, kv_head, head, heads, split, index, sequence, unused[3];
};
constexpr u32 kWords = sizeof(Instruction) / 4;
static_assert(kWords == 16, "kernels.megakernel.instructions.WORDS");

// How one sequence's tokens are chosen: greedy when `inverse_temperature` is 0; top_k 0 and top_p 1 keep every token.
struct Sampling {
  float inverse_temperature, top_p;
  int top_k;
  u32 stream;
  u64 seed;
};

struct Params {
  TensorMap key_map, value_map;    // of the caches as [rows of all sequences, KV_HEADS, HEAD_DIM], in boxes of kBoxKeys
                                   // rows; KEYS_IN_RING
  const char* weights;             // every SM's fragments in the order it uses them
  const u64* weight_offset;        // [SMs + 1] bytes into weights
  const Instruction* program;      // all SMs' instructions
  const int* program_start;        // [SMs]
  const __nv_bfloat16* embedding;  // [VOCAB, HIDDEN]
  const float* norms;              // [2 * LAYERS + 1, HIDDEN]
  const float* bias;               // [LAYERS, kQkvRows]
  const float* qk_norm;            // [LAYERS, 2, HEAD_DIM]
  const float2* rope;              // [positions, HEAD_DIM / 2] cosine, sine
  __nv_bfloat16* k_cache;          // [LAYERS, BATCH, capacity, KV_HEADS, HEAD_DIM]
  __nv_bfloat16* v_cache;
  u64* qkv;              // [BATCH, kQkvRows / 2] two floats a word; this and the next of products COPIES times
  u64* attention;        // [BATCH, HEADS, MAX_SPLITS, HEAD_DIM / 2] two floats a word, not normalised
  u64* attention_state;  // [BATCH, HEADS, MAX_SPLITS, 2] running maximum (base 2) and sum, a word each; follows
                         // attention
  u64* out_partials;     // [partials, BATCH, HIDDEN / 2] two floats a word
  u64* down_partials;    // [2, partials, BATCH, HIDDEN / 2] two floats a word; layers take turns
  u64* gated;            // [INTER / 8, BATCH, 4] three bf16 a word; the fourth word is not used
  u64* normed;           // [2, HIDDEN / 8, BATCH, 4] three bf16 a word, in the fourth their sum of squares; SLICE
  u64* candidates;       // [SMs, BATCH, 2] best logit (ordered bits) and its token, a word each
  u64* counts;           // [2, SMs, kColumns, kBins] mass and count of a bin of logits
  u64* fault;            // 0 while all is well, else bit 63, SM << 32, instruction << 8, op
  const long long* first_token;  // [BATCH]
  const long long* forced;       // [count + 1, BATCH] tokens to take instead of the chosen ones, or null
  float* logits;  // [BATCH, VOCAB] for each step, `logits_stride` apart (0 when only the last matters), or null
  volatile int* host_tokens;        // [count, BATCH] pinned, -1 until written
  const volatile int* host_cancel;  // pinned: not 0 ends the launch after the token at hand
  u64* trace;                       // [SMs, trace_length, 8] clocks, when TRACE
  u32* touched;      // [SMs, trace_length, 2, words / 32 + 1] bits of words read, and written, when DEBUG
  float* residuals;  // [count, 2 * LAYERS + 1, BATCH, HIDDEN] of SM 0, when DEBUG
  u64 timeout_ns, logits_stride, words;                     // `words` from qkv on
  int position, count, capacity, trace_length, first_made;  // first_made: not of the prompt
  int stop[4];           // tokens, or -1; the launch ends when every sequence has met one
  Sampling sampling[8];  // of each sequence
};
static_assert(sizeof(Params) == PARAMS_BYTES, "kernels.megakernel.device.PARAMS");

// Attention's queries, each the sum of two bf16, the newest keys and values, and what the warps merge: sums of values,
// and (maximum, sum of weights) of each query head. OUT, when it attends, keeps its input before them.
struct AttentionScratch {
  alignas(16) __nv_bfloat16 input[OUT_INPUT * kColumns];
  alignas(16) __nv_bfloat16 query[ATTENDED_HEADS][2][HEAD_DIM], newest[ATTENDED_GROUPS][2][HEAD_DIM];
  alignas(16) float merged[WARPS][kGroupMost][HEAD_DIM];
  float2 state[WARPS][kGroupMost];
};

// Of each 4 columns of OUT's input, sums over the values of the other SM's keys or splits, and their maximum and sum of
// weights.
struct Exchange {
  alignas(16) float4 sum[OUT_INPUT / 4];
  float2 state[OUT_INPUT / 4];
  Barrier full;  // a phase a layer
};

struct ProductScratch {
  alignas(16) __nv_bfloat16 input[INPUT_LENGTH * kColumns];  // [k tile][kColumns][16], in the order of the matrix units
  alignas(16) float warp_sums[2][kUnitBatch][WARPS][16 * BATCH];
};

// The search for what top-k and top-p keep (sampling.cuh): bins of logits of each sequence, counted in one round.
constexpr int kBins = kColumns <= 2 ? 32 : 64 / kColumns;
constexpr int kBinWords = kBins * kColumns;
enum Goal : int { kFound = 0, kCount = 1, kMass = 2 };
struct Search {
  int goal;        // the threshold is found, or lies where a count, or a mass, of tokens is reached
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
  Barrier squared, scaled;  // two phases a layer and one of the head; kRmsScaleWarp
  int step;                 // tokens made
  int stop;                 // consumers are done or have given up: the producer must drain
  union {                   // an instruction is a product, attention or the choice of a token
    ProductScratch product;
    AttentionScratch attention;
    SampleScratch sample;
  };
  alignas(16) float residual[BATCH * kResidual];
  float squares[SLICE ? WARPS * BATCH : WARPS],
      scale[BATCH];  // of the residual, by the warp that loaded it; what products of it are multiplied by
#if PAIRS
  Exchange exchange;
#endif
  u64 best[kConsumers / 16], chosen[BATCH];
  int token[BATCH], stopped[BATCH], cancelled;
  int head_first, head_count;  // this SM's tokens
  u32 round;                   // of the search, over the whole launch
  int program;                 // where this SM's instructions begin
  alignas(64) Instruction slots[2];
#if DEBUG
  u32* touched;  // of the instruction at hand
  const u64* words;
  u64 word_count;
#endif
  int faulted;
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "kernels.megakernel.device.shared_bytes");

__device__ __forceinline__ void mark(const Params& p, int step, int index, int what) {
#if TRACE
  if (threadIdx.x == 0 && step == p.count / 2)
    p.trace[((size_t)blockIdx.x * p.trace_length + index) * 8 + what] = nanoseconds();
#endif
}

extern __shared__ __align__(1024) char memory[];  // a Shared
// Its address is kept in a register: the compiler would work it out of the block's place in its cluster again and
// again, by a read of a special register that takes longer than the read of shared memory that follows.
__device__ __forceinline__ Shared& shared_memory() {
  u32 address;
  asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(shared_address(memory)));
  return *(Shared*)__cvta_shared_to_generic(address);
}

#if DEBUG
// Notes words that the instruction at hand reads or writes; one outside of all buffers as the word after the last.
__device__ __forceinline__ void note(const u64* at, int words, bool written) {
  const Shared& s = *(const Shared*)memory;
  for (int i = 0; i < words; i++) {
    const u64 word = at + i - s.words < s.word_count ? at + i - s.words : s.word_count;
    atomicOr(s.touched + (written ? s.word_count / 32 + 1 : 0) + word / 32, 1u << word % 32);
  }
}
#endif

__device__ __forceinline__ void consumers_sync() { named_barrier_sync(1, kConsumers); }

// Whether a warp that does not consume works out what products of the residual are multiplied by, while they run: from
// when all warps' squares are there (`squared`) until the first units' sums are (`scaled`). Larger models gain nothing
// from it, and beside splits registers are few.
constexpr bool kRmsScaleWarp = BATCH == 1 && WEIGHT_BITS == 16 && !MAX_SPLITS && !SLICE && HIDDEN < 2048;

// From here on words are noted as this instruction's, when DEBUG.
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

// The flag of what the instructions of one layer of one token write. A buffer is written once per flag, so a stale word
// always carries another one; buffers are zero at launch, and no flag is.
__device__ __forceinline__ u32 flag_at(int step, int layer) { return (u32)(step * (LAYERS + 1) + layer) % 0xffffu + 1; }

// Whether a wait that has spun so often must end: it took too long, or another SM gave up. The first to give up leaves
// its SM and instruction in the fault word.
__device__ __forceinline__ bool given_up(const Params& p, Shared& s, const Instruction& in, u32 spin, u64& began) {
  if ((spin & 1023) != 1023) return false;
  const u64 now = nanoseconds();
  if (!began) began = now;
  if (now - began > p.timeout_ns)
    atomicCAS(p.fault, 0ull, 1ull << 63 | (u64)blockIdx.x << 32 | ((u32)in.index << 8 | (u32)in.op));
  if (!*(volatile u64*)p.fault) return false;
  s.faulted = 1;
  return true;
}

// Asks for N pairs of words, `from` words into `base`, by whole warps; `poll` makes sure of them. With Watch, where a
// warp waits for many or for long, one lane watches its first word before the others read, so that waiting SMs do not
// take the memory system from the weights.
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

// Reads the words asked for until all carry `flag`. Lanes that miss some ask for them again. When it takes too long, or
// another SM gave up, marks the machine as faulted, which the caller sees after the next barrier.
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
