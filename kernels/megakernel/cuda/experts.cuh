// Mixtures of experts: which experts the router chose for the sequences, and which part of a group's products that is.
#pragma once
#include "gumbel_max.cuh"
#include "machine.cuh"

#if EXPERTS
constexpr int kLaneExperts = (EXPERTS + 63) / 64 * 2;  // of one lane of the warp that routes a sequence

// The units and column tiles of an instruction that belong to experts which some sequence chose, `distinct` in all. The
// last group at work may have fewer than TOP_K.
__device__ __forceinline__ int experts_at_work(int group, int distinct) {
  return GROUPS == 1 ? TOP_K : max(0, min(TOP_K, distinct - group * TOP_K));
}
__device__ __forceinline__ int units_at_work(const Instruction& in, int distinct) {
  if (GROUPS == 1 || in.op != kGateUp) return in.units;
  const int tiles = experts_at_work(in.group, distinct) * kExpertUnits;
  return max(0, (tiles - in.tile + (int)gridDim.x - 1) / (int)gridDim.x);
}
__device__ __forceinline__ int tiles_at_work(const Instruction& in, int distinct) {
  if (GROUPS == 1 || in.op != kDown) return in.k_tiles;
  return max(0, min(in.k_tiles, experts_at_work(in.group, distinct) * kExpertTiles - in.k_tile));
}
// The partials of DOWN that these experts leave on all ranks, which choose alike.
__device__ __forceinline__ int partials_at_work(int distinct) {
  return GROUPS == 1 ? DOWN_PARTIALS : (distinct + TOP_K - 1) / TOP_K * RANKS * kDownParts;
}

// Finds the TOP_K largest of a sequence's logits, of equal ones the first: bit i of the result stands for this lane's
// expert `lane * kLaneExperts + i`. Each `share` becomes that expert's, or 0. Whole warps call it. Whatever the logits
// are, TOP_K experts are found.
__device__ __forceinline__ u32 choose_experts(const u64* logits, const ulonglong2 (&words)[kLaneExperts / 2],
                                              float (&share)[kLaneExperts]) {
  const int lane = threadIdx.x % 32;
  u32 keys[kLaneExperts], mine = 0;
#pragma unroll
  for (int i = 0; i < kLaneExperts; i++) {
    const u64 word = i % 2 ? words[i / 2].y : words[i / 2].x;
    const bool exists = lane * kLaneExperts + i < EXPERTS;
    share[i] = __uint_as_float(value_of(word));
    keys[i] = exists ? (u32)(candidate(share[i], 0) >> 32) + 1 : 0;
    if (!exists) share[i] = __int_as_float(0xff800000);
  }
  float most = 0;
#pragma unroll 1
  for (int k = 0; k < TOP_K; k++) {
    u32 best = keys[0];
#pragma unroll
    for (int i = 1; i < kLaneExperts; i++) best = max(best, keys[i]);
    const u32 top = __reduce_max_sync(~0u, best);
    const int winner = __ffs(__ballot_sync(~0u, best == top)) - 1;
    float found = 0;
    bool taken = false;
#pragma unroll
    for (int i = 0; i < kLaneExperts; i++)
      if (lane == winner && !taken && keys[i] == top) {
        taken = true;
        found = share[i];
        mine |= 1u << i;
        keys[i] = 0;
      }
    if (k == 0) most = __shfl_sync(~0u, found, winner);
  }
  float total = 0;
#pragma unroll
  for (int i = 0; i < kLaneExperts; i++) {
    const bool chosen = mine >> i & 1;
    share[i] = __expf(share[i] - most);
    total += !NORMALISED || chosen ? share[i] : 0.f;
    if (!chosen) share[i] = 0.f;
  }
  total = 1.f / warp_sum(total);
#pragma unroll
  for (int i = 0; i < kLaneExperts; i++) share[i] *= total;
  return mine;
}

#if EXPERT_BIAS
// DOWN's first column part of a group adds, for a sequence, its shares of the biases of the group's experts.
__device__ __forceinline__ float shared_down_bias(const Params& p, const Shared& s, const Instruction& in, int row,
                                                  int b) {
  const int first = in.group * TOP_K, count = experts_at_work(in.group, s.distinct);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < TOP_K; i++) {
    if (i >= count) break;
    const size_t expert = in.layer * EXPERTS + s.experts[first + i];
    sum += s.shares[first + i][b] * (float)p.down_bias[expert * HIDDEN + row];
  }
  return sum;
}
#endif

// GATE_UP of the first group: a warp for each sequence routes it. The experts that any sequence chose, in their order,
// become the layer's; the producer, which waits for `routed`, then streams them.
__device__ __forceinline__ void route(const Params& p, Shared& s, const Instruction& in, u32 flag, int step) {
  const int b = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 mine = 0;
  float share[kLaneExperts];
  if (b < BATCH) {
    const u64* logits = p.router + b * kRouterWords;
    u32 from[kLaneExperts / 2];
    ulonglong2 words[kLaneExperts / 2];
#pragma unroll
    for (int i = 0; i < kLaneExperts / 2; i++) from[i] = min(lane * kLaneExperts + 2 * i, kRouterWords - 2);
    load_flagged<false>(p, s, in, flag, logits, from, words);
    mine = choose_experts(logits, words, share);
    if (kMany) s.routes[b][lane] = mine;
  }
  if (kMany) consumers_sync();
  if (b < BATCH) {
    u32 any = mine;
#pragma unroll
    for (int other = 0; kMany && other < BATCH; other++) any |= s.routes[other][lane];
    const int count = __popc(any);
    int slot = count;
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
      const int before = __shfl_up_sync(~0u, slot, o);
      if (lane >= o) slot += before;
    }
    if (b == 0 && lane == 31) s.distinct = slot;
    slot -= count;
#pragma unroll
    for (int i = 0; i < kLaneExperts; i++) {
      if (!(any >> i & 1)) continue;
      if (b == 0) s.experts[slot] = lane * kLaneExperts + i;
      s.shares[slot++][b] = mine >> i & 1 ? share[i] : 0.f;
    }
  }
  consumers_sync();
  if (threadIdx.x == 0) {
    __threadfence_block();
    *(volatile int*)&s.routed = step * LAYERS + in.layer + 1;
  }
}
#endif
