// Decode attention: one query of GROUP heads over a long cache. Keys and values are loaded directly into the registers
// that mma.sync reads.
// docs/kernels/decode-hopper.md shows how.
//
// Macros:
//   ELEMENT: type of q and o, bf16 or f16    FP8: the cache is e4m3    HEAD_DIM: 64 or 128
//   GROUP: query heads of a KV head, up to 8    WARPS: of a block    STEPS: steps of 16 keys that a warp has in flight
//   SPLITS: blocks of a pair of sequence and KV head    CLUSTER: SPLITS; 1 where parts are merged in global memory
//   PAGE: keys of a page, a multiple of 16; 0 for a contiguous cache    LENGTHS: each sequence has a length of its own
#include "decode_hopper.cuh"
using namespace tiles;

struct Params {
  const char *q, *k, *v;
  ELEMENT* o;
  float *parts, *sums;
  int* arrivals;
  const char* lengths;
  const int* table;
  const float *k_scale, *v_scale;
  long long q_batch, q_head, k_first, k_head, v_first, v_head;  // in bytes, like the tokens'
  long long lengths_step, table_step;
  u32 k_token, v_token;
  int wide, more, capacity, pages;  // wide: lengths are int64
  float scale;
};
static_assert(sizeof(Params) == PARAMS_BYTES, "decode_hopper_tiles.PARAMS");

struct Shared {
  float out[WARPS][GROUP][HEAD_DIM], base[WARPS][GROUP], sum[WARPS][GROUP];
  float parts[CLUSTER][kOutputs], weights[CLUSTER][GROUP];  // of all blocks of the cluster
  int last;
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "decode_hopper_plan.shared_bytes");

// Merges an output of Count parts: part(j) is normalised, weight(j) the base-2 logarithm of its sum of exponentials.
template <int Count, typename Weight, typename Part>
__device__ __forceinline__ float merged(const Weight& weight, const Part& part) {
  float weights[Count], top = -CUDART_INF_F, out = 0, total = 0;
#pragma unroll
  for (int j = 0; j < Count; j++) {
    weights[j] = weight(j);
    top = fmaxf(top, weights[j]);
  }
#pragma unroll
  for (int j = 0; j < Count; j++) {
    const float share = weights[j] == -CUDART_INF_F ? 0 : ex2_ftz(weights[j] - top);
    out += share * part(j);
    total += share;
  }
  return total == 0 ? 0 : out / total;
}

extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
    __launch_bounds__(kThreads, 1) decode_hopper(const Params p) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int split = blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, pair = sequence * gridDim.y + head;
  if (CLUSTER > 1) cluster_arrive_relaxed();
  long long length = p.capacity;
  if (LENGTHS) {
    const char* from = p.lengths + sequence * p.lengths_step * (p.wide ? 8 : 4);
    length = (p.wide ? *(const long long*)from : *(const int*)from) + p.more;
  }
  const bool wrong = length < 0 || length > p.capacity;
  const long long first = PAGE ? 0 : sequence;
  const char* k = p.k + first * p.k_first + head * p.k_head + u64(g) * p.k_token + 16 * t;
  const char* v =
      p.v + first * p.v_first + head * p.v_head + u64(2 * t) * p.v_token + g * min(kRow / 8, 16);
  const Cache cache = {k,
                       v,
                       p.table + sequence * p.table_step,
                       wrong ? 0 : (int)length,
                       p.pages,
                       p.k_token,
                       p.v_token,
                       p.k_first,
                       p.v_first};
  const long long tiles = (cache.end + kTile - 1) / kTile;
  const int begin = tiles * split / SPLITS, end = tiles * (split + 1) / SPLITS;
  Sums sums;
  const float scale = p.scale * (FP8 ? p.k_scale[head] : 1.f);
  const char* q = p.q + sequence * p.q_batch + (head * GROUP + min(g, GROUP - 1)) * p.q_head;
  if (begin + warp < end) attend(sums, cache, q, scale, begin + warp, end);

#pragma unroll
  for (int j = 0; j < 2; j++) {
#pragma unroll
    for (int step = 4; step < 32; step *= 2) sums.sum[j] += __shfl_xor_sync(~0u, sums.sum[j], step);
    if (g == 0 && 2 * t + j < GROUP) {
      shared.base[warp][2 * t + j] = sums.base[j];
      shared.sum[warp][2 * t + j] = sums.sum[j];
    }
  }
#pragma unroll
  for (int e = 0; e < kSteps16; e++)
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (2 * t + i < GROUP)
        *(float2*)&shared.out[warp][2 * t + i][dimension(e)] = make_float2(sums.out[e][i], sums.out[e][i + 2]);
  if (CLUSTER > 1) cluster_wait();
  __syncthreads();

  const float factor = (wrong ? CUDART_NAN_F : 1.f) * (FP8 ? p.v_scale[head] : 1.f);
  ELEMENT* o = p.o + (long long)pair * kOutputs;
  const long long at = (long long)pair * SPLITS;
  for (int i = threadIdx.x; i < kOutputs; i += kThreads) {
    const int h = i / HEAD_DIM;
    float top = -CUDART_MAX_NORMAL_F, out = 0, total = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) top = fmaxf(top, shared.base[w][h]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      const float share = ex2_ftz(shared.base[w][h] - top);
      out += share * shared.out[w][h][i % HEAD_DIM];
      total += share * shared.sum[w][h];
    }
    out = total == 0 ? 0 : out / total;
    const float weight = total == 0 ? -CUDART_INF_F : top + __log2f(total);
    if constexpr (SPLITS == 1) {
      o[i] = (ELEMENT)(out * factor);
    } else if constexpr (CLUSTER > 1) {
      st_cluster(&shared.parts[split][i], 0, out);
      if (i % HEAD_DIM == 0) st_cluster(&shared.weights[split][h], 0, weight);
    } else {
      p.parts[(at + split) * kOutputs + i] = out;
      if (i % HEAD_DIM == 0) p.sums[(at + split) * GROUP + h] = weight;
    }
  }
  if constexpr (CLUSTER > 1) {
    cluster_sync();
    if (split == 0)
      for (int i = threadIdx.x; i < kOutputs; i += kThreads)
        o[i] = (ELEMENT)(factor * merged<CLUSTER>([&](int j) { return shared.weights[j][i / HEAD_DIM]; },
                                                  [&](int j) { return shared.parts[j][i]; }));
  } else if constexpr (SPLITS > 1) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.last = atomicAdd(p.arrivals + pair, 1) == SPLITS - 1;
    __syncthreads();
    if (!shared.last) return;
    __threadfence();
    if (threadIdx.x == 0) p.arrivals[pair] = 0;
    for (int i = threadIdx.x; i < kOutputs; i += kThreads)
      o[i] =
          (ELEMENT)(factor * merged<SPLITS>([&](int j) { return __ldcg(p.sums + (at + j) * GROUP + i / HEAD_DIM); },
                                            [&](int j) { return __ldcg(p.parts + (at + j) * kOutputs + i); }));
  }
}
