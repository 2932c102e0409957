// Macros of the compilation, constants of the model, instructions and launch parameters.
#pragma once
#include "chunk.cuh"
#include "exchange.cuh"

// Macros, from `kernels.megakernel.host.device.defines`:
//   the model: HIDDEN INTER HEADS KV_HEADS HEAD_DIM LAYERS VOCAB QKV_BIAS NORM_EPS; QK_NORM: norms of q and k, 1 of
//     each head, 2 over all heads; SCORE_SCALE: the factor of scores, 0: 1 / sqrt(HEAD_DIM)
//   GATE: the gate's activation, SiLU (0), GELU in its tanh form (1) or clamped SwiGLU (2) with SWIGLUOAI_ALPHA and
//     SWIGLUOAI_LIMIT; ROPES: tables of angles; UNROTATED_EVERY: every so many layers take the second one, 0: windowed
//     layers; SCORE_CAP LOGIT_CAP: soft caps of scores and logits, 0: none; SINKS: query heads have sinks
//   OUT_BIAS EXPERT_BIAS: OUT has a bias; the router, and gate, up and down of every expert
//   WINDOW: keys that a token attends to, 0: all; FULL_EVERY: every so many layers it attends to all, 0: in none
//   NORM_BEFORE NORM_AFTER: whether products of the residual are of its norm; whether what is added to it is normed
//   EXPERTS: experts of a layer, 0 without; TOP_K: those of a token, of which INTER is the size of all; NORMALISED: their
//     shares sum to 1; GROUPS: groups of TOP_K experts that may be at work in a layer
//   BATCH: sequences, 1 to 8
//   WARPS: consumer warps
//   WEIGHT_BITS: 16 (bf16), 8 (fp8 or int8) or 4 (nvfp4 or int4); HEAD_BITS: those of the LM head, 8 for int4,
//     16 for fp8_layers; EXPERT_BITS: those of experts, 4 for MXFP4
//   INTEGERS: codes are integers; SCALED_TILES: tiles that share one of their scales, else 0
//   ZEROS: beside their scales integers have nothing, zero points (1) or minimums (2)
//   CHUNK_BLOCKS: blocks of a chunk of weights, 32 or 24 (weights.py)
//   STAGES: slots of the ring, a chunk each
//   IN_FLIGHT: chunks that may be on their way from memory
//   LONG_IN_FLIGHT: the same while all SMs are within GATE_UP or HEAD, or while the SM's consumers wait for chunks
//   PREFETCHED_IN_FLIGHT: the same for chunks that the L2 cache already holds
//   PREFETCH_BYTES: weights beyond the ring that the producer brings into the L2 cache
//   PREFETCH_CYCLES: SM cycles between two such requests of 4 KB
//   PROLOGUE_CHUNKS: chunks that consumers load into registers while they wait for the partials that GATE_UP reads;
//     for bf16, one sequence and SLICE 0
//   INPUT_LENGTH: the longest input vector of an instruction
//   MAX_SPLITS: splits of the keys; 0: there are no ATTENTION instructions and OUT attends itself
//   SPLIT_KEYS: keys that are worth another split
//   ATTENDED_HEADS ATTENDED_GROUPS: the most query heads and key-value heads of one instruction
//   OUT_INPUT: input columns of an OUT that attends or shares splits
//   RANKS: GPUs that run the model together; the macros of the model are those of one's part (ranks.py)
//   OUT_PARTIALS DOWN_PARTIALS: column parts of these products, of all ranks; each part publishes a split-K partial of
//     its own
//   PAIRS: neighbouring SMs are a cluster and share the keys to which OUT attends, or the splits that it merges
//   COPIES: number of copies of qkv, out_partials, down_partials and gated, one after the other; an SM writes all
//     copies and reads one
//   KEYS_IN_RING: keys and values of splits come through the ring (ring_keys.cuh)
//   SLICE: columns of the residual that an SM keeps; 0: all
//   TRACE DEBUG: note times; note the words that each instruction reads and writes
//   PARAMS_BYTES SHARED_BYTES: sizes of Params and Shared that Python computes with
constexpr int kConsumers = WARPS * 32;
constexpr int kThreads = kConsumers + 128;  // one more warpgroup: the producer, and the RMS-scale warp
// Registers of a thread after setmaxnreg. In a pair, a producer that brings keys needs more than 40, as does one of experts.
constexpr int kProducerRegisters = EXPERTS ? 56 : PAIRS && KEYS_IN_RING ? 48 : 40,
              kConsumerRegisters = EXPERTS || (PAIRS && KEYS_IN_RING) ? 224 : 232;
// Arrivals that free a chunk: one of each warp. With DEBUG one of each lane, because racecheck does not see that
// __syncwarp orders the reads of one lane before the arrival of another.
constexpr int kArrivals = DEBUG ? kConsumers : WARPS;
constexpr int kUnitBatch = kColumns == 8 ? 2 : kColumns == 4 ? 4 : 8;  // row tiles that are reduced together
constexpr bool kMany = BATCH > 1;
// Whether one lane of a warp polls for DOWN's input first: not where the ring holds most of a layer.
constexpr bool kWatchGated = kMany || (WEIGHT_BITS == 16 && COPIES == 1);
constexpr int kQkvRows = (HEADS + 2 * KV_HEADS) * HEAD_DIM;
constexpr int kGroup = HEADS / KV_HEADS;
constexpr int kOutParts = OUT_PARTIALS / RANKS, kDownParts = DOWN_PARTIALS / RANKS / GROUPS;  // of this rank
// Words of one copy of a buffer. down_partials has two halves: even and odd layers.
constexpr int kQkvWords = BATCH * kQkvRows / 2, kOutWords = OUT_PARTIALS * BATCH * HIDDEN / 2;
constexpr int kDownWords = DOWN_PARTIALS * BATCH * HIDDEN / 2, kGatedWords = GROUPS * (INTER / 8) * BATCH * 4;
// Experts lie one after the other, each with its units of gate and up, then those of down.
constexpr int kExpertUnits = INTER / TOP_K / 8, kExpertTiles = INTER / TOP_K / 16, kRouterWords = (EXPERTS + 15) / 16 * 16;
constexpr int kSlots = BATCH * TOP_K < EXPERTS ? BATCH * TOP_K : EXPERTS;  // experts that may be at work in a layer
__host__ __device__ constexpr u32 expert_bytes(int tiles) { return tiles / Expert::kBlockTiles * Expert::kBlock; }
constexpr u32 kGateUpUnit = expert_bytes(HIDDEN / 16), kDownUnit = expert_bytes(kExpertTiles);
constexpr u32 kExpertBytes = kExpertUnits * kGateUpUnit + HIDDEN / 16 * kDownUnit;
__device__ __forceinline__ int copy_read() { return blockIdx.x % COPIES; }
constexpr int kResidual = SLICE ? SLICE : HIDDEN;  // columns of the residual that the SM keeps
constexpr int kGroupMost =
    kGroup < ATTENDED_HEADS ? kGroup : ATTENDED_HEADS;  // query heads of an instruction that share a key-value head
static_assert(kGroupMost <= 8 && ATTENDED_GROUPS <= WARPS, "query heads are the 8 columns of an mma tile");

enum Op : int { kEnd = 0, kQkv = 1, kAttention = 2, kOut = 3, kGateUp = 4, kDown = 5, kHead = 6, kAdd = 7, kRouter = 8 };

// The product that reads the residual after attention.
constexpr Op kAfterAttention = EXPERTS ? kRouter : kGateUp;

// One instruction: 16 words, laid out by kernels.megakernel.program.instructions.FIELDS.
struct Instruction {
  int op, layer, units, tile, k_tile, k_tiles, partial, kv_head, head, heads, split, index, sequence, group, unused[2];
};
constexpr u32 kWords = sizeof(Instruction) / 4;
static_assert(kWords == 16, "kernels.megakernel.program.instructions.WORDS");

// Settings of one sequence's draw. inverse_temperature 0: greedy. top_k 0 and top_p 1 keep every token.
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
  const char* experts;             // [LAYERS, EXPERTS, kExpertBytes]
  const Instruction* program;      // all SMs' instructions
  const int* program_start;        // [SMs]
  const __nv_bfloat16* embedding;  // [VOCAB, HIDDEN]
  const float* norms;              // [2 * LAYERS + 1, HIDDEN] before products; behind, with NORM_AFTER [2 * LAYERS, HIDDEN]
  const float* bias;               // [LAYERS, kQkvRows]
  const float* qk_norm;            // [LAYERS, 2, HEAD_DIM], or [LAYERS, rows of q and k] if QK_NORM is 2
  const float2* rope;              // [positions, ROPES, HEAD_DIM / 2] cosine, sine
  __nv_bfloat16* k_cache;          // [LAYERS, BATCH, capacity, KV_HEADS, HEAD_DIM]
  __nv_bfloat16* v_cache;
  u64* qkv;              // [BATCH, kQkvRows / 2] two floats a word; this and the next of products COPIES times
  u64* attention;        // [BATCH, HEADS, MAX_SPLITS, HEAD_DIM / 2] two floats a word, not normalised
  u64* attention_state;  // [BATCH, HEADS, MAX_SPLITS, 2] running maximum (base 2) and sum, a word each; follows
                         // attention
  u64* out_partials;     // [partials, BATCH, HIDDEN / 2] two floats a word
  u64* down_partials;    // [2, partials, BATCH, HIDDEN / 2] two floats a word; layers alternate
  u64* gated;            // [GROUPS, INTER / 8, BATCH, 4] three bf16 a word; the fourth word is not used
  u64* normed;           // [2, HIDDEN / 8, BATCH, 4] three bf16 a word, in the fourth their sum of squares; SLICE
  u64* router;           // [BATCH, kRouterWords] a logit a word
  u64* candidates;       // [SMs of all ranks, BATCH, 2] best logit (ordered bits) and its token, a word each
  u64* counts;           // [2, SMs of all ranks, kColumns, kBins] mass and count of a bin of logits
  u64* fault;            // 0 while all is well, else bit 63, rank << 56, SM << 32, instruction << 8, op
  const long long* first_token;  // [BATCH]
  const long long* forced;       // [count + 1, BATCH] tokens to take instead of the chosen ones, or null
  float* logits;  // [BATCH, VOCAB] for each step, `logits_stride` apart (0 when only the last matters), or null
  volatile int* host_tokens;        // [count, BATCH] pinned, -1 until written
  const volatile int* host_cancel;  // pinned: not 0 ends the launch after the token at hand
  u64* trace;                       // [SMs, trace_length, 8] clocks, when TRACE
  u32* touched;      // [SMs, trace_length, 2, words / 32 + 1] bits of words read, and written, when DEBUG
  float* residuals;  // [count, 2 * LAYERS + 1, BATCH, HIDDEN] of SM 0, when DEBUG
  u64 timeout_ns, logits_stride, words;                     // `words` from qkv on
  int positions[8];  // of each sequence's first token
  int count, capacity, trace_length, first_made;  // first_made: not of the prompt
  int stop[4];           // tokens, or -1; the launch ends when every sequence has met one
  Sampling sampling[8];  // of each sequence
#if RANKS > 1
  long long peers[3];  // bytes from a word of this rank, or its fault, to that of each other rank
  int rank;
#endif
  const float* sinks;                  // [LAYERS, HEADS]; SINKS
  const float* out_bias;               // [LAYERS, HIDDEN]; OUT_BIAS
  const float* router_bias;            // [LAYERS, kRouterWords]; this and the next with EXPERT_BIAS
  const u32* gate_up_bias;             // [LAYERS, EXPERTS, INTER / TOP_K] a gate and its up
  const __nv_bfloat16* down_bias;      // [LAYERS, EXPERTS, HIDDEN]
};
static_assert(sizeof(Params) == PARAMS_BYTES, "kernels.megakernel.host.device.params_of");

// Where the token of a step lies in its sequence.
__device__ __forceinline__ int position_of(const Params& p, int sequence, int step) {
  return p.positions[kMany ? sequence : 0] + step;
}
