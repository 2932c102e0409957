// The next token of each row of x, without logits in memory. Every block finds its candidates; then they are merged. A
// candidate has 64 bits: in the upper half the logit as an integer of the same order, in the lower half the complement
// of its token. So the largest candidate has the largest logit and, of equal logits, the smallest token. NaN is the
// lowest.
//
//   TOP = 0   argmax: a block's candidate for each row
//   TOP = 64  sampling: a block's 64 best, sorted; the merged 64 are cut to top_k, then to top_p, and one is drawn
//
// With argmax the last block to end merges the candidates. Sorted lists take a block of the product too long, even
// those of one row: a second kernel merges them, a block for each row.
#include "lm_head_candidates.cuh"

// Writes the block's candidates to y [m][gridDim.x][kTop].
__device__ __forceinline__ void find_candidates(const Params& p, const SharedLayout& at, const Share& share,
                                                u64 (*lists)[64]) {
  __shared__ u64 best[16];
  if (threadIdx.x < 16) best[threadIdx.x] = 0;
  product(p, at, share, [&](const Output& out, float value, float) {
    if (out.n() >= p.n) return;
    const u64 mine = candidate(value, out.n());
    if (mine > *(volatile u64*)&best[out.m]) atomicMax(&best[out.m], mine);
  });
  __syncthreads();
  u64* out = (u64*)p.y;
  if (!TOP) {
    if (threadIdx.x < p.m) out[threadIdx.x * gridDim.x + blockIdx.x] = best[threadIdx.x];
    return;
  }
  if (threadIdx.x >= kThreads) return;
  for (int m = threadIdx.x / 32; m < p.m; m += WARPS) {
    List list;
    best_of_row(list, Logits(p, at, share, m), lists[threadIdx.x / 32]);
#pragma unroll
    for (int e = 0; e < kPairs; e++) out[(m * gridDim.x + blockIdx.x) * kTop + threadIdx.x % 32 + 32 * e] = list[e];
  }
}

// Settings of the draw: arrays of m values. Where `top_k` is null, `common_top_k` holds for all rows.
struct Settings {
  const float *temperature, *top_p;
  const long long *seed, *stream, *index, *top_k;
  int common_top_k;
  // From 1 to 63. The host checks the common one, and never reads those of the rows.
  __device__ __forceinline__ int top_k_of(int m) const {
    if (!top_k) return common_top_k;
    const long long own = top_k[m];
    return own < 1 ? 1 : own > kTop - 1 ? kTop - 1 : (int)own;
  }
};
static_assert(sizeof(Settings) == SETTINGS_BYTES, "lm_head_call.SETTINGS");

__device__ __forceinline__ float sum_until(float x) {
#pragma unroll
  for (int o = 1; o < 32; o *= 2) {
    const float before = __shfl_up_sync(~0u, x, o);
    if (threadIdx.x % 32 >= o) x += before;
  }
  return x;
}

// One warp draws row m's token from its sorted list by the rule of kernels/ops/sampling.py. If the largest logit is not
// finite, its token is the result; if all are NaN, token 0. The result is -1 if top-k keeps the last candidate of a
// full list, because tokens beyond the list could then be kept as well.
__device__ __forceinline__ int drawn(const List& list, const Settings& how, int m) {
  const int lane = threadIdx.x % 32, last = how.top_k_of(m) - 1;
  const float temperature = how.temperature[m], top_p = how.top_p[m];
  const u64 first = __shfl_sync(~0u, list[0], 0);
  if (!first) return 0;
  const float largest = logit_of(first);
  if (!(temperature > 0) || largest - largest != 0) return token_of(first);
  const u64 low = __shfl_sync(~0u, list[0], last % 32), high = __shfl_sync(~0u, list[1], last % 32);
  u32 threshold = max(key_of(last < 32 ? low : high), key_of(candidate(kLowestFinite, 0)));
  if (key_of(__shfl_sync(~0u, list[1], 31)) >= threshold) return -1;
  const float inverse_temperature = 1.f / temperature;
  if (top_p < 1.f) {
    float share[kPairs], until[kPairs];
#pragma unroll
    for (int e = 0; e < kPairs; e++)
      share[e] = key_of(list[e]) >= threshold ? __expf((logit_of(list[e]) - largest) * inverse_temperature) : 0.f;
    until[0] = sum_until(share[0]);
    const float half = __shfl_sync(~0u, until[0], 31);
    until[1] = half + sum_until(share[1]);
    const float wanted = top_p * __shfl_sync(~0u, until[1], 31);
    u32 smallest = key_of(first);
#pragma unroll
    for (int e = 0; e < kPairs; e++)
      if (key_of(list[e]) >= threshold && until[e] - share[e] < wanted) smallest = min(smallest, key_of(list[e]));
    threshold = __reduce_min_sync(~0u, smallest);
  }
  u64 best = 0;
#pragma unroll
  for (int e = 0; e < kPairs; e++) {
    const int token = token_of(list[e]);
    const float score =
        gumbel_score(logit_of(list[e]), inverse_temperature, how.seed[m], how.stream[m], how.index[m], token);
    if (key_of(list[e]) >= threshold) best = larger(best, candidate(score, token));
  }
#pragma unroll
  for (int o = 16; o; o /= 2) best = larger(best, __shfl_xor_sync(~0u, best, o));
  return token_of(key_of(best) ? best : first);
}

// Token feedback for the next step: position, embeddings [m][words], and the tokens in the host's memory.
struct Feedback {
  const uint4* embedding;  // [vocab][words], or null
  uint4* stream;
  long long* seen;      // [rows][m] in the host's memory, by position; or null
  long long* position;  // or null; `moves` is added to it
  const long long* moves;
  int words, rows;
  // One thread calls it before tokens are written; readers of the old position ran before, of the new one run after.
  __device__ __forceinline__ void move_position() const {
    if (position) *position += *moves;
  }
  __device__ __forceinline__ void write_token(long long* ids, int m, int of, int token) const {
    ids[m] = token;
    if (seen && *position < rows) *(volatile long long*)&seen[*position * of + m] = token;
  }
  // All of `threads` threads copy the embedding; for id -1 that of token 0.
  __device__ __forceinline__ void write_embedding(int m, int token, int threads) const {
    if (!embedding) return;
    const uint4* from = embedding + (long long)max(token, 0) * words;
    for (int i = threadIdx.x; i < words; i += threads) stream[(long long)m * words + i] = from[i];
  }
};
static_assert(sizeof(Feedback) == FEEDBACK_BYTES, "lm_head_call.FEEDBACK");

// Merges the sorted lists of all blocks for one row. All threads call it; warp 0 gets the result.
__device__ __forceinline__ void join_blocks(List& list, const u64* found, int blocks, u64 (*lists)[64]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  list[0] = list[1] = 0;
#pragma unroll 1
  for (int first = warp; warp < kJoiners && first < blocks; first += kJoiners * kAtOnce) {
    List others[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; i++)
#pragma unroll
      for (int e = 0; e < kPairs; e++) {
        const int block = first + i * kJoiners;
        others[i][e] = block < blocks ? __ldcg(&found[block * kTop + lane + 32 * e]) : 0;
      }
#pragma unroll
    for (int i = 0; i < kAtOnce; i++) join(list, others[i]);
  }
#pragma unroll 1
  for (int half = kJoiners / 2; half; half /= 2) {
    if (warp < 2 * half) {
      lists[warp][lane] = list[0];
      lists[warp][lane + 32] = list[1];
    }
    __syncthreads();
    if (warp < half) {
      const List other = {lists[warp + half][lane], lists[warp + half][lane + 32]};
      join(list, other);
    }
    __syncthreads();
  }
}

#if !TOP

// Whether this block is the last one of the grid to call it. It then sees what every block wrote before. `arrivals` is
// 0 before the first call and after the last. CUDA C++ Programming Guide, *Memory Fence Functions*.
__device__ __forceinline__ bool is_last_block(int* arrivals) {
  __threadfence();
  __syncthreads();
  const bool last = threadIdx.x == 0 && atomicAdd(arrivals, 1) == (int)gridDim.x - 1;
  if (last) *arrivals = 0;
  if (!__syncthreads_or(last)) return false;
  __threadfence();
  return true;
}

// The largest candidate of each row; a warp examines a row.
__device__ __forceinline__ void largest_of_rows(u32* tokens, const u64* found, int rows) {
  for (int m = threadIdx.x / 32; m < rows; m += kBlock / 32) {
    u64 best = 0;
    for (int block = threadIdx.x % 32; block < gridDim.x; block += 32)
      best = larger(best, __ldcg(&found[m * gridDim.x + block]));
#pragma unroll
    for (int o = 16; o; o /= 2) best = larger(best, __shfl_xor_sync(~0u, best, o));
    if (threadIdx.x % 32 == 0) tokens[m] = token_of(best);
  }
}

// ids: [m] int64.
extern "C" __global__ void __launch_bounds__(kBlock, 1)
    lm_head(const __grid_constant__ Params p, long long* ids, int* arrivals, const Feedback feedback) {
  extern __shared__ __align__(128) char memory[];
  const SharedLayout at(memory, p);
  const Share share(p);
  find_candidates(p, at, share, nullptr);
  if (!is_last_block(arrivals)) return;
  if (threadIdx.x == 0) feedback.move_position();
  u32* tokens = at.shared->largest;  // of [16]; the product no longer needs it
  largest_of_rows(tokens, (const u64*)p.y, p.m);
  __syncthreads();
  if (threadIdx.x < p.m) feedback.write_token(ids, threadIdx.x, p.m, tokens[threadIdx.x]);
#pragma unroll 1
  for (int m = 0; m < p.m; m++) feedback.write_embedding(m, tokens[m], kBlock);
}

#else

extern "C" __global__ void __launch_bounds__(kBlock, 1)
    lm_head_candidates(const __grid_constant__ Params p, const Feedback feedback) {
  extern __shared__ __align__(128) char memory[];
  const SharedLayout at(memory, p);
  const Share share(p);
  __shared__ u64 lists[WARPS][64];
  find_candidates(p, at, share, lists);
  if (blockIdx.x == 0 && threadIdx.x == 0) feedback.move_position();
}

// Merges the candidates of all blocks, one block for each row. ids: [m] int64.
extern "C" __global__ void __launch_bounds__(kJoiners * 32)
    lm_head_join(const u64* candidates, long long* ids, int blocks, const Settings how, const Feedback feedback) {
  __shared__ u64 lists[kJoiners][64];
  const int m = blockIdx.x;
  griddepcontrol_wait();
  List list;
  join_blocks(list, candidates + (long long)m * blocks * kTop, blocks, lists);
  if (threadIdx.x < 32) {
    const int token = drawn(list, how, m);
    if (threadIdx.x == 0) {
      feedback.write_token(ids, m, gridDim.x, token);
      lists[0][0] = (u32)token;
    }
  }
  __syncthreads();
  feedback.write_embedding(m, (int)lists[0][0], kJoiners * 32);
}

#endif
