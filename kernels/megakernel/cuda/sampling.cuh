// The choice of the next token: the largest logit, or a Gumbel-max draw among the tokens that top-k and top-p keep. The
// same rule in numpy is kernels/ops/sampling.py. docs/kernels/megakernel.md explains the search for the threshold.
#pragma once
#include "attended.cuh"
#include "gumbel_max.cuh"

static_assert(BATCH <= WARPS, "each sequence's token is chosen by a warp of its own");

__device__ __forceinline__ bool drawn(const Sampling& how) { return how.inverse_temperature > 0; }
__device__ __forceinline__ bool truncates(const Sampling& how) { return how.top_k || how.top_p < 1.f; }

// One warp finds the best candidate of a sequence over all SMs of all ranks. Each SM has two words; the first SM's are
// at `from`, and the next SM's `stride` words on.
__device__ __forceinline__ u64 best_of_all(const Params& p, Shared& s, const Instruction& end, u32 flag,
                                           const u64* from, int stride, bool& cancelled) {
  const int lane = threadIdx.x % 32;
  u64 best = 0;
  for (int i = lane; i - lane < all_sms(); i += 32) {
    const u32 at[1] = {(u32)(min(i, all_sms() - 1) * stride)};
    ulonglong2 words[1];
    load_flagged<false>(p, s, end, flag, from, at, words);
    const u32 token = value_of(words[0].y);
    cancelled |= token >> 31;
    best = larger(best, (u64)value_of(words[0].x) << 32 | (u32) ~(token & 0x7fffffffu));
  }
  cancelled = __any_sync(~0u, cancelled);
#pragma unroll
  for (int o = 16; o; o >>= 1) best = larger(best, __shfl_xor_sync(~0u, best, o));
  return best;
}
__device__ __forceinline__ void store_candidate(const Params& p, u64* to, u64 best, u32 cancel, u32 flag) {
  publish_to_all(p, to, one_value((u32)(best >> 32), flag));
  publish_to_all(p, to + 1, one_value((~(u32)best & 0x7fffffffu) | cancel, flag));
}

// The search for the smallest logit that is kept. Each round divides the bracket [low, top) of every sequence into
// bins. Every SM publishes how many of its tokens, and how much of their probability mass, lie in each bin; all SMs add
// the same words in the same order and narrow the bracket alike. Rounds alternate between two areas of `counts`.
__device__ __forceinline__ float bin_edge(const Search& q, int bin) {
  if (bin == kBins - 1) return q.low;
  const float start = fminf(q.top, q.largest), part = (float)(bin + 1);
  if (q.low == kLowest) return start - q.width * part;
  return fmaxf(q.low, start - (start - q.low) * (part * (1.f / kBins)));
}

__device__ __forceinline__ void begin_search(const Sampling& how, Search& q, float largest) {
  q.largest = largest;
  q.threshold = kLowest;
  q.goal = !truncates(how) || !(fabsf(largest) < -kLowest) ? kFound : how.top_k ? kCount : kMass;
  q.top = -kLowest;
  q.low = kLowest;
  q.width = 16.f / how.inverse_temperature / kBins;
  q.above = make_float2(0, 0);
  q.wanted = how.top_k ? (float)how.top_k : -1.f;  // a mass that is wanted is known after the first round
}

// One warp narrows its sequence's bracket by the sums of all SMs: lane i has (mass, count) of bin i.
__device__ __forceinline__ void narrow(const Sampling& how, Search& q, const float2 sum) {
  const int lane = threadIdx.x % 32;
  float2 through = sum;
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) {
    const float mass = __shfl_up_sync(~0u, through.x, o), count = __shfl_up_sync(~0u, through.y, o);
    if (lane >= o) {
      through.x += mass;
      through.y += count;
    }
  }
  through.x += q.above.x;
  through.y += q.above.y;
  float2 before = make_float2(__shfl_up_sync(~0u, through.x, 1), __shfl_up_sync(~0u, through.y, 1));
  if (!lane) before = q.above;
  const float total = __shfl_sync(~0u, through.x, kBins - 1);
  const float wanted = q.wanted < 0 ? total * how.top_p : q.wanted;
  const u32 reached = __ballot_sync(~0u, lane < kBins && (q.goal == kCount ? through.y : through.x) >= wanted);
  const int bin = reached ? __ffs(reached) - 1 : kBins - 1;
  if (lane == bin) {
    const float low = bin_edge(q, bin), top = bin ? bin_edge(q, bin - 1) : q.top;
    const bool is_exact = q.goal == kCount ? through.y == wanted : sum.y == 1.f;
    q.wanted = wanted;
    if (is_exact || (low == q.low && top == q.top)) {
      q.threshold = low;
      if (q.goal == kCount && how.top_p < 1.f) {  // now the nucleus of what top-k has kept
        q.goal = kMass;
        q.wanted = how.top_p * through.x;
        q.above = make_float2(0, 0);
        q.top = -kLowest;
        q.low = low;
      } else {
        q.goal = kFound;
      }
    } else {
      q.above = before;
      q.top = top;
      q.low = low;
      q.width *= 32.f;
    }
  }
  __syncwarp();
}

// Returns to lane i the warp's sum of v[i % kBins]: lanes at distance O add values, and each keeps half.
template <int O = 16>
__device__ __forceinline__ float sum_of_bins(float (&v)[kBins]) {
#pragma unroll
  for (int i = 0; i < (O < kBins ? O : kBins); i++) {
    if constexpr (O < kBins) {
      const bool upper = threadIdx.x & O;
      const float keep = upper ? v[i + O] : v[i], give = upper ? v[i] : v[i + O];
      v[i] = keep + __shfl_xor_sync(~0u, give, O);
    } else {
      v[i] += __shfl_xor_sync(~0u, v[i], O);
    }
  }
  if constexpr (O > 1) return sum_of_bins<O / 2>(v);
  return v[0];
}

// This SM's logits of one sequence, which HEAD has written to `logits`.
__device__ __forceinline__ const float* own_logits(const Params& p, const Shared& s, int step, int b) {
  return p.logits + (size_t)step * p.logits_stride + (size_t)b * VOCAB + s.head_first;
}

// Counts this warp's share of the SM's tokens of sequence `b` into bins.
__device__ __forceinline__ void count_tokens(const Params& p, Shared& s, int step, int b) {
  const Search& q = s.sample.search[b];
  const float* edge = s.sample.edge[b];
  const float* logits = own_logits(p, s, step, b);
  const float scale = p.sampling[b].inverse_temperature * 1.4426950408889634f, top = q.top;
  float mass[kBins] = {}, count[kBins] = {};
#pragma unroll 1
  for (int i = threadIdx.x; i < s.head_count; i += kConsumers) {
    const float logit = logits[i];
    int bin = 0;
#pragma unroll
    for (int o = kBins / 2; o; o >>= 1) bin += logit < edge[bin + o - 1] ? o : 0;
    if (!(logit < top) || !(logit >= edge[bin])) bin = kBins;
    const float weight = exp2f((logit - q.largest) * scale);
#pragma unroll
    for (int j = 0; j < kBins; j++) {
      mass[j] += bin == j ? weight : 0.f;
      count[j] += bin == j ? 1.f : 0.f;
    }
  }
  const float2 sum = make_float2(sum_of_bins(mass), sum_of_bins(count));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane < kBins) s.sample.part[warp][b * kBins + lane] = sum;
}

constexpr int kPairs = kBinWords / 2, kReaders = kConsumers / kPairs;  // threads that share the SMs' words of a pair

__device__ __forceinline__ u64 bin_word(float2 sum, u32 flag) {
  return (u64)__float_as_uint(sum.x) << 32 | (u64)(u32)sum.y << 16 | flag;
}
__device__ __forceinline__ void add(float2& sum, float2 more) { sum.x += more.x, sum.y += more.y; }
__device__ __forceinline__ void add_bin(float2& sum, u64 word) {
  add(sum, make_float2(__uint_as_float(value_of(word)), (float)((u32)word >> 16)));
}

// This SM's words of the round, in the round's area of `counts`.
__device__ __forceinline__ u64* round_area(const Params& p, u32 round) {
  return p.counts + (size_t)(round & 1) * all_sms() * kBinWords;
}
__device__ __forceinline__ u32 round_flag(u32 round) { return round % 0xffffu + 1; }

// One round: publishes this SM's bins, leaves all SMs' sums in `read`; false when the SM has given up.
__device__ __forceinline__ bool exchange_bins(const Params& p, Shared& s, const Instruction& end, int step, u32 round) {
  const u32 flag = round_flag(round);
  u64* area = round_area(p, round);
#pragma unroll 1
  for (int b = 0; b < BATCH; b++)
    if (s.sample.search[b].goal != kFound) count_tokens(p, s, step, b);
  consumers_sync();
  if (threadIdx.x < kBinWords) {
    float2 sum = s.sample.part[0][threadIdx.x];
#pragma unroll
    for (int w = 1; w < WARPS; w++) add(sum, s.sample.part[w][threadIdx.x]);
    publish_to_all(p, area + own_sm(p) * kBinWords + threadIdx.x, bin_word(sum, flag));
  }
  constexpr int kTogether = 4;
  const int pair = threadIdx.x % kPairs, reader = threadIdx.x / kPairs;
  float2 sum[2] = {};
#pragma unroll 1
  for (int first = 0; first < all_sms(); first += kReaders * kTogether) {
    u32 from[kTogether];
    ulonglong2 words[kTogether];
#pragma unroll
    for (int n = 0; n < kTogether; n++)
      from[n] = min(first + n * kReaders + reader, all_sms() - 1) * kBinWords + pair * 2;
    load_flagged<false>(p, s, end, flag, area, from, words);
#pragma unroll
    for (int n = 0; n < kTogether; n++) {
      if (first + n * kReaders + reader >= all_sms()) break;
      add_bin(sum[0], words[n].x);
      add_bin(sum[1], words[n].y);
    }
  }
  s.sample.read[reader][pair * 2] = sum[0];
  s.sample.read[reader][pair * 2 + 1] = sum[1];
  consumers_sync();
  return !s.faulted;
}

// The best noisy score of this SM's tokens of sequence `b` that are kept; a whole block takes part.
__device__ __forceinline__ u64 best_kept(const Params& p, Shared& s, int step, int b) {
  const Search& q = s.sample.search[b];
  const Sampling& how = p.sampling[b];
  const float* logits = own_logits(p, s, step, b);
  u64 best = 0;
  for (int i = threadIdx.x; i < s.head_count; i += kConsumers) {
    const int token = s.head_first + i;
    if (logits[i] >= q.threshold)
      best = larger(best, candidate(gumbel_score(logits[i], how.inverse_temperature, how.seed, how.stream,
                                                 position_of(p, b, step) + 1, token), token));
  }
#pragma unroll
  for (int o = 16; o; o >>= 1) best = larger(best, __shfl_xor_sync(~0u, best, o));
  if (threadIdx.x % 32 == 0) s.best[threadIdx.x / 32] = best;
  consumers_sync();
  best = 0;
  for (int w = 0; w < WARPS; w++) best = larger(best, s.best[w]);
  consumers_sync();
  return best;
}

// For each sequence that is not greedy, replaces the largest logit in `s.chosen` by a draw among the tokens that are
// kept. Returns false when the SM has given up.
__device__ __forceinline__ bool draw(const Params& p, Shared& s, const Instruction& end, int step) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 round = s.round;
  if (threadIdx.x < BATCH)
    begin_search(p.sampling[threadIdx.x], s.sample.search[threadIdx.x], logit_of(s.chosen[threadIdx.x]));
  consumers_sync();
  for (;; round++) {
    bool searching = false;
    for (int b = 0; b < BATCH; b++) searching |= s.sample.search[b].goal != kFound;
    if (!searching) break;
    if (threadIdx.x < kBins * BATCH)
      s.sample.edge[threadIdx.x / kBins][threadIdx.x % kBins] =
          bin_edge(s.sample.search[threadIdx.x / kBins], threadIdx.x % kBins);
    consumers_sync();
    if (!exchange_bins(p, s, end, step, round)) return false;
    if (warp < BATCH && s.sample.search[warp].goal != kFound) {
      float2 sum = make_float2(0, 0);
      for (int r = 0; r < kReaders && lane < kBins; r++) add(sum, s.sample.read[r][warp * kBins + lane]);
      narrow(p.sampling[warp], s.sample.search[warp], sum);
    }
    consumers_sync();
  }
  u64* area = round_area(p, round);
  const u32 flag = round_flag(round);
  u64* own = area + own_sm(p) * kBinWords;
  if (threadIdx.x >= 2 * BATCH && threadIdx.x < kBinWords)
    publish_to_all(p, own + threadIdx.x, flag);  // every word gets the flag of this step
#pragma unroll 1
  for (int b = 0; b < BATCH; b++) {
    const u64 best = drawn(p.sampling[b]) ? best_kept(p, s, step, b) : 0;
    if (threadIdx.x == 0) store_candidate(p, own + b * 2, best, 0, flag);
  }
  if (warp < BATCH) {
    bool unused = false;
    const u64 best = best_of_all(p, s, end, flag, area + warp * 2, kBinWords, unused);
    if (lane == 0 && best >> 32) s.chosen[warp] = best;
  }
  if (threadIdx.x == 0) s.round = round + 1;
  consumers_sync();
  return !s.faulted;
}
