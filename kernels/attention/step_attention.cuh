// The keys and values of step_attention.cu: shared memory, copies of a chunk, RoPE, and the online softmax over chunks.
#pragma once
#include "tiles.cuh"

using namespace tiles;
using Element = ELEMENT;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kLanes = HEAD_DIM / 8;  // lanes that share one key, 16 bytes each
constexpr int kKeys = 32 / kLanes;    // keys a warp reads at once
constexpr int kHalf = HEAD_DIM / 2;
constexpr int kOwn = GROUP * HEAD_DIM / SPLITS;  // outputs that a block merges
constexpr float kLog2e = 1.4426950408889634f;
constexpr u32 kNan = 0x7fff7fffu;  // two NaN, in bf16 and in fp16
__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

struct Shared {
  union {
    struct {
      Element keys[CHUNK][HEAD_DIM], values[CHUNK][HEAD_DIM];
    };
    float partial[kWarps][GROUP][HEAD_DIM];  // after the last key
  };
  float fresh_key[HEAD_DIM];  // not yet rounded
  Element fresh_value[HEAD_DIM];
  float query[GROUP][HEAD_DIM];
  float scores[GROUP][CHUNK];
  float row_max[GROUP], row_sum[GROUP], scores_scale[GROUP];
  alignas(16) float out[SPLITS][kOwn];  // of all blocks
  float4 state[SPLITS][GROUP];          // their maxima and sums
  Barrier arrived;
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "step_hopper_tiles.shared_bytes");
constexpr int kExchangedBytes = SPLITS * (kOwn * 4 + GROUP * 16);  // bytes to each block

struct Params {
  const Element *qkv, *cosines, *sines;
  const Element *query_norm, *key_norm;  // [HEAD_DIM], HEAD_NORMS
  const Element* sinks;                  // [heads], SINKS
  Element *keys, *values, *out;
  const long long* position;
  const int* tables;  // [batch, table_step]; PAGE_SIZE
  long long position_step, table_step, page_step;
  int token_step, head_step;  // elements of the caches from token to token and so on; page_step of sequences without pages
  int capacity, window, pages;
  float scale, norm_eps;
};
static_assert(sizeof(Params) == PARAMS_BYTES, "step_hopper_tiles.FIELDS");

struct Eight {
  float at[8];
};

__device__ __forceinline__ Eight read_eight(const Element* from) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  const u32 pairs[4] = {raw.x, raw.y, raw.z, raw.w};
  Eight found;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 both = unpack<Element>(pairs[i]);
    found.at[2 * i] = both.x;
    found.at[2 * i + 1] = both.y;
  }
  return found;
}

__device__ __forceinline__ Eight read_eight(const float* from) {
  Eight found;
#pragma unroll
  for (int i = 0; i < 8; ++i) found.at[i] = from[i];
  return found;
}

// Where a sequence's key lies in the caches, in elements, or with PAGE_SIZE in its page; -1 where the table names none.
struct Slots {
  const int* table;
  int pages, token_step;
  long long page_step;
  __device__ __forceinline__ long long of(int key) const {
    if (!PAGE_SIZE) return (long long)key * token_step;
    const int size = PAGE_SIZE ? PAGE_SIZE : 1, page = table[key / size];
    return page >= 0 && page < pages ? page * page_step + key % size * token_step : -1;
  }
};

// Starts copying keys and values [first, first + count) of a head. A key of no page makes its sequence NaN.
__device__ void fetch(Shared& shared, const Element* keys, const Element* values, const Slots& slots, int first,
                      int count) {
  for (int i = threadIdx.x; i < count * kLanes; i += kThreads) {
    const int key = i / kLanes, part = i % kLanes * 8;
    const long long slot = slots.of(first + key), from = slot + part;
    if (PAGE_SIZE && slot < 0) {
      *(uint4*)&shared.keys[key][part] = make_uint4(kNan, kNan, kNan, kNan);
      continue;
    }
    cp_async_16(&shared.keys[key][part], keys + from);
    cp_async_16(&shared.values[key][part], values + from);
  }
}

// A warp holds a head: a lane has elements lane, lane + 32, … of the lower half, and their partners in the upper.
constexpr int kEach = kHalf / 32;

// The weights of the norm of a query's or key's head. Without HEAD_NORMS it changes nothing.
struct HeadNorm {
  float low[kEach], high[kEach];
  __device__ __forceinline__ explicit HeadNorm(const Element* weight) {
#pragma unroll
    for (int e = 0; HEAD_NORMS && e < kEach; ++e) {
      const int i = threadIdx.x % 32 + 32 * e;
      low[e] = (float)weight[i];
      high[e] = (float)weight[i + kHalf];
    }
  }
  // 1 / √(mean of squares of x + eps).
  __device__ __forceinline__ float factor(const Element* x, float eps) const {
    if (!HEAD_NORMS) return 1;
    float sum = 0;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = threadIdx.x % 32 + 32 * e;
      const float first = (float)x[i], second = (float)x[i + kHalf];
      sum += first * first + second * second;
    }
#pragma unroll
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    return rsqrtf(sum / HEAD_DIM + eps);
  }
  // Element i = lane + 32 · e of x, and element i + kHalf, times `by`, that factor, and their weights.
  __device__ __forceinline__ float2 apply(const Element* x, float by, int e) const {
    const int i = threadIdx.x % 32 + 32 * e;
    const float first = (float)x[i], second = (float)x[i + kHalf];
    return HEAD_NORMS ? make_float2(first * by * low[e], second * by * high[e]) : make_float2(first, second);
  }
};

struct Angles {
  float low_cosine[kEach], low_sine[kEach], high_cosine[kEach], high_sine[kEach];
  __device__ __forceinline__ Angles(const Element* cosine, const Element* sine) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = threadIdx.x % 32 + 32 * e;
      low_cosine[e] = (float)cosine[i];
      low_sine[e] = (float)sine[i];
      high_cosine[e] = (float)cosine[i + kHalf];
      high_sine[e] = (float)sine[i + kHalf];
    }
  }
  // Elements i = lane + 32 · e and i + kHalf, rotated.
  __device__ __forceinline__ float2 apply_rope(float2 x, int e) const {
    return make_float2(x.x * low_cosine[e] - x.y * low_sine[e], x.y * high_cosine[e] + x.x * high_sine[e]);
  }
};

// The scores of the chunk, query · key for every key and head, in units of log2: the softmax takes 2^score.
__device__ void score(Shared& shared, int count, int fresh) {
  const int lane = threadIdx.x % 32, part = lane % kLanes * 8;
  Eight query[GROUP];
#pragma unroll
  for (int g = 0; g < GROUP; ++g)
#pragma unroll
    for (int e = 0; e < 8; ++e) query[g].at[e] = shared.query[g][part + e];
  for (int base = threadIdx.x / 32 * kKeys; base < count; base += kWarps * kKeys) {
    const int key = base + lane / kLanes, safe = min(key, count - 1);
    const Eight k = safe == fresh ? read_eight(shared.fresh_key + part) : read_eight(shared.keys[safe] + part);
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += query[g].at[e] * k.at[e];
#pragma unroll
      for (int step = kLanes / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
      if (lane % kLanes == 0 && key < count) shared.scores[g][key] = sum;
    }
  }
}

// Replaces scores by weights 2^(score - running maximum). `scores_scale` is the factor for the earlier sums.
__device__ void normalise(Shared& shared, int count) {
  const int lane = threadIdx.x % 32;
  for (int g = threadIdx.x / 32; g < GROUP; g += kWarps) {
    const float before = shared.row_max[g];
    float row_max = before, sum = 0;
    for (int key = lane; key < count; key += 32) row_max = fmaxf(row_max, shared.scores[g][key]);
#pragma unroll
    for (int step = 16; step; step /= 2) row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, step));
    for (int key = lane; key < count; key += 32) {
      const float found = shared.scores[g][key], share = found == -infinity() ? 0.f : exp2f(found - row_max);
      shared.scores[g][key] = share;
      sum += share;
    }
#pragma unroll
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) {
      const float scores_scale = before == -infinity() ? 0.f : exp2f(before - row_max);
      shared.scores_scale[g] = scores_scale;
      shared.row_max[g] = row_max;
      shared.row_sum[g] = shared.row_sum[g] * scores_scale + sum;
    }
  }
}

__device__ void add_values(Shared& shared, Eight (&out)[GROUP], int count, int fresh) {
  const int lane = threadIdx.x % 32, part = lane % kLanes * 8;
#pragma unroll
  for (int g = 0; g < GROUP; ++g)
#pragma unroll
    for (int e = 0; e < 8; ++e) out[g].at[e] *= shared.scores_scale[g];
  for (int key = threadIdx.x / 32 * kKeys + lane / kLanes; key < count; key += kWarps * kKeys) {
    const Eight v = read_eight((key == fresh ? shared.fresh_value : shared.values[key]) + part);
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      const float share = shared.scores[g][key];
#pragma unroll
      for (int e = 0; e < 8; ++e) out[g].at[e] += share * v.at[e];
    }
  }
}
