// The candidates of lm_head.cu: sorted lists of 64 in a warp, and the 64 best logits of a block's row.
#pragma once
#include "gumbel_max.cuh"
#include "skinny.cuh"

using namespace skinny;

constexpr int kTop = TOP ? TOP : 1, kPairs = 2;  // a sorted list: candidates lane and lane + 32
constexpr int kJoiners = 16;                     // warps that merge the lists of all blocks
constexpr int kAtOnce = 5;                       // lists that each asks for at once
constexpr float kLowestFinite = -0x1.fffffep127f;

__device__ __forceinline__ u32 key_of(u64 candidate) { return (u32)(candidate >> 32); }
__device__ __forceinline__ int token_of(u64 candidate) { return (int)~(u32)candidate; }

// One merge step of a bitonic sort (Batcher, 1968): a list that rises then falls, or the reverse, from SIZE on.
using List = u64[kPairs];
template <int SIZE>
__device__ __forceinline__ void bitonic_merge(List& list) {
#pragma unroll
  for (int stride = SIZE / 2; stride; stride /= 2) {
    if (stride == 32) {
      const u64 first = larger(list[0], list[1]);
      list[1] = list[0] ^ list[1] ^ first;
      list[0] = first;
      continue;
    }
#pragma unroll
    for (int e = 0; e < kPairs; e++) {
      const int i = threadIdx.x % 32 + 32 * e;
      const u64 other = __shfl_xor_sync(~0u, list[e], stride);
      const bool keeps_larger = !(i & stride) == !(i & SIZE);
      list[e] = keeps_larger == (other > list[e]) ? other : list[e];
    }
  }
}
__device__ __forceinline__ void sort(List& list) {
  bitonic_merge<2>(list);
  bitonic_merge<4>(list);
  bitonic_merge<8>(list);
  bitonic_merge<16>(list);
  bitonic_merge<32>(list);
  bitonic_merge<64>(list);
}
// The 64 largest of two sorted lists, sorted.
__device__ __forceinline__ void join(List& list, const List& with) {
  List best;
#pragma unroll
  for (int e = 0; e < kPairs; e++) best[e] = larger(list[e], __shfl_sync(~0u, with[1 - e], 31 - threadIdx.x % 32));
  list[0] = best[0];
  list[1] = best[1];
  bitonic_merge<64>(list);
}

// The kept logits of row m of x, in the order of their tokens.
struct Logits {
  const Params& p;
  const SharedLayout& at;
  const Share& share;
  int m, count;
  __device__ __forceinline__ Logits(const Params& p, const SharedLayout& at, const Share& share, int m)
      : p(p), at(at), share(share), m(m) {
    count = min((share.end - share.first) * kUnitOutputs, p.n - share.first * kUnitOutputs);
  }
  __device__ __forceinline__ float operator[](int i) const {
    const float sum = at.kept[(i / kUnitOutputs * p.m + m) * kUnitOutputs + i % kUnitOutputs];
    return kRowScales ? sum * at.scales[i] : sum;
  }
};

// The largest number of `bits` bits for which `holds` is true. If it is true for a number, it is for all below.
template <class Holds>
__device__ __forceinline__ u32 largest_with(int bits, Holds holds) {
  u32 found = 0;
#pragma unroll 1
  for (int bit = bits - 1; bit >= 0; bit--)
    if (holds(found | 1u << bit)) found |= 1u << bit;
  return found;
}

// The number of keys of a warp for which wanted(key, index) is true.
template <class Wanted>
__device__ __forceinline__ int among(const u32 (&keys)[KEYS], Wanted wanted) {
  int count[4] = {};  // four counters, so that additions do not wait for each other
#pragma unroll
  for (int i = 0; i < KEYS; i++) count[i % 4] += wanted(keys[i], i * 32 + (int)threadIdx.x % 32);
  return __reduce_add_sync(~0u, count[0] + count[1] + count[2] + count[3]);
}

// One warp finds the 64 best logits of a row that are not NaN, KEYS logits a lane. It builds, bit by bit, the largest
// threshold that at least 64 logits reach. Of logits equal to the threshold it takes those with the smallest tokens.
__device__ __forceinline__ void best_of_row(List& list, const Logits& logits, u64* room) {
  const int lane = threadIdx.x % 32, first = logits.share.first * kUnitOutputs;
  u32 keys[KEYS];
#pragma unroll
  for (int i = 0; i < KEYS; i++)
    keys[i] = i * 32 + lane < logits.count ? key_of(candidate(logits[i * 32 + lane], 0)) : 0;
  u32 threshold = 0;
#pragma unroll 1
  for (u32 bit = 1u << 31; bit; bit /= 2) {
    const int reached = among(keys, [&](u32 key, int) { return key >= (threshold | bit); });
    if (reached >= kTop) threshold |= bit;
    if (reached == kTop) break;
  }
  const int above = among(keys, [&](u32 key, int) { return key > threshold; });
  const auto fit = [&](u32 tried) {
    return above + among(keys, [&](u32 key, int i) { return key == threshold && i < (int)tried; }) <= kTop;
  };
  const int last = fit(1 << 16) ? 1 << 16 : largest_with(16, fit);
  const auto taken = [&](u32 key, int i) { return key && (key > threshold || key == threshold && i < last); };
  int place = 0;
#pragma unroll
  for (int i = 0; i < KEYS; i++) place += taken(keys[i], i * 32 + lane);
#pragma unroll
  for (int o = 1; o < 32; o *= 2) {
    const int before = __shfl_up_sync(~0u, place, o);
    if (lane >= o) place += before;
  }
  const int written = __shfl_sync(~0u, place, 31);
#pragma unroll
  for (int i = KEYS - 1; i >= 0; i--)
    if (taken(keys[i], i * 32 + lane)) room[--place] = (u64)keys[i] << 32 | (u32) ~(first + i * 32 + lane);
  __syncwarp();
#pragma unroll
  for (int e = 0; e < kPairs; e++) list[e] = lane + 32 * e < written ? room[lane + 32 * e] : 0;
  __syncwarp();
  sort(list);
}
