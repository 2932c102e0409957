// One decode step between the QKV product and the output product: rotates q and k, appends k and v, attends.
//
//   qkv [batch, (heads + 2 kv_heads) D] ─► q·rope ┐
//   cache [batch, capacity, kv_heads, D]  ────────┴► scores ─► softmax ─► · v ─► (max, sum, o) ─► merged in the cluster
//
// A cluster of SPLITS blocks serves GROUP query heads of one key head of one sequence. Each block attends to a
// contiguous range of the keys. PARTS clusters share a key head. Blocks copy their first CHUNK keys and values into
// shared memory before they wait for the previous kernel. This is safe because the previous kernel is the QKV product:
// the step before wrote the older slots of the cache and the position. The blocks that hold the new token's slot rotate
// k; those of the first part append k and v to the cache. Each block sends its partial outputs to the blocks of the
// cluster that merge them, through distributed shared memory.
#include "tiles.cuh"

using namespace tiles;
using Element = ELEMENT;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kLanes = HEAD_DIM / 8;  // lanes that share one key, 16 bytes each
constexpr int kKeys = 32 / kLanes;    // keys a warp reads at once
constexpr int kHalf = HEAD_DIM / 2;
constexpr int kOwn = GROUP * HEAD_DIM / SPLITS;  // outputs that a block merges
constexpr float kLog2e = 1.4426950408889634f;
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
  float top[GROUP], total[GROUP], shrink[GROUP];
  alignas(16) float out[SPLITS][kOwn];  // of all blocks
  float4 state[SPLITS][GROUP];          // their maxima and sums
  Barrier arrived;
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "step_hopper.shared_bytes");
constexpr int kExchangedBytes = SPLITS * (kOwn * 4 + GROUP * 16);  // bytes to each block

struct Call {
  const Element *qkv, *cosines, *sines;
  Element *keys, *values, *out;
  const long long* position;
  long long position_step;
  int capacity, window;
  float scale;
};
static_assert(sizeof(Call) == PARAMS_BYTES, "step_hopper.FIELDS");

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
    found.at[2 * i] = both.x, found.at[2 * i + 1] = both.y;
  }
  return found;
}

__device__ __forceinline__ Eight read_eight(const float* from) {
  Eight found;
#pragma unroll
  for (int i = 0; i < 8; ++i) found.at[i] = from[i];
  return found;
}

// Starts copying keys and values [first, first + count) of one head; the rows of one key are `row` elements apart.
__device__ void fetch(Shared& shared, const Element* keys, const Element* values, int first, int count, int row) {
  for (int i = threadIdx.x; i < count * kLanes; i += kThreads) {
    const int key = i / kLanes, part = i % kLanes * 8;
    const long long from = (long long)(first + key) * row + part;
    cp_async_16(&shared.keys[key][part], keys + from);
    cp_async_16(&shared.values[key][part], values + from);
  }
}

// Cosine and sine for the elements lane, lane + 32 and so on of a head's lower half, and for their partners in the
// upper half.
struct Angles {
  static constexpr int kEach = kHalf / 32;
  float low_cosine[kEach], low_sine[kEach], high_cosine[kEach], high_sine[kEach];
  __device__ __forceinline__ Angles(const Element* cosine, const Element* sine) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = threadIdx.x % 32 + 32 * e;
      low_cosine[e] = (float)cosine[i], low_sine[e] = (float)sine[i];
      high_cosine[e] = (float)cosine[i + kHalf], high_sine[e] = (float)sine[i + kHalf];
    }
  }
  // Element i = lane + 32 · e of x, and element i + kHalf, rotated.
  __device__ __forceinline__ float2 apply_rope(const Element* x, int e) const {
    const int i = threadIdx.x % 32 + 32 * e;
    const float low = (float)x[i], high = (float)x[i + kHalf];
    return make_float2(low * low_cosine[e] - high * low_sine[e], high * high_cosine[e] + low * high_sine[e]);
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

// Replaces scores by weights 2^(score - running maximum). `shrink` is the factor for the earlier sums.
__device__ void normalise(Shared& shared, int count) {
  const int lane = threadIdx.x % 32;
  for (int g = threadIdx.x / 32; g < GROUP; g += kWarps) {
    const float before = shared.top[g];
    float top = before, sum = 0;
    for (int key = lane; key < count; key += 32) top = fmaxf(top, shared.scores[g][key]);
#pragma unroll
    for (int step = 16; step; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    for (int key = lane; key < count; key += 32) {
      const float found = shared.scores[g][key], share = found == -infinity() ? 0.f : exp2f(found - top);
      shared.scores[g][key] = share;
      sum += share;
    }
#pragma unroll
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) {
      const float shrink = before == -infinity() ? 0.f : exp2f(before - top);
      shared.shrink[g] = shrink, shared.top[g] = top;
      shared.total[g] = shared.total[g] * shrink + sum;
    }
  }
}

__device__ void add_values(Shared& shared, Eight (&out)[GROUP], int count, int fresh) {
  const int lane = threadIdx.x % 32, part = lane % kLanes * 8;
#pragma unroll
  for (int g = 0; g < GROUP; ++g)
#pragma unroll
    for (int e = 0; e < 8; ++e) out[g].at[e] *= shared.shrink[g];
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

// Sums the block's partial outputs over its warps and sends them to the blocks that merge them.
__device__ void gather(Shared& shared, Eight (&out)[GROUP], int split) {
  const int lane = threadIdx.x % 32;
  __syncthreads();
#pragma unroll
  for (int g = 0; g < GROUP; ++g)
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      float sum = out[g].at[e];
#pragma unroll
      for (int step = kLanes; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
      if (lane < kLanes) shared.partial[threadIdx.x / 32][g][lane * 8 + e] = sum;
    }
  __syncthreads();
  for (int i = threadIdx.x * 4; i < GROUP * HEAD_DIM; i += kThreads * 4) {
    float4 sum = {};
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const float4 part = *(const float4*)&shared.partial[warp][i / HEAD_DIM][i % HEAD_DIM];
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    st_async((float4*)&shared.out[split][i % kOwn], i / kOwn, sum, shared.arrived);
  }
  for (int i = kThreads - 1 - threadIdx.x; i < SPLITS * GROUP; i += kThreads) {
    const int g = i % GROUP;
    st_async(&shared.state[split][g], i / GROUP, make_float4(shared.top[g], shared.total[g], 0, 0), shared.arrived);
  }
}

// Merges the block's share of the outputs of one key head's query heads.
__device__ void merge(const Shared& shared, Element* out, int rank) {
  for (int own = threadIdx.x; own < kOwn; own += kThreads) {
    const int i = rank * kOwn + own, g = i / HEAD_DIM;
    float top = -infinity(), sum = 0, total = 0;
#pragma unroll
    for (int split = 0; split < SPLITS; ++split) top = fmaxf(top, shared.state[split][g].x);
#pragma unroll
    for (int split = 0; split < SPLITS; ++split) {
      const float4 state = shared.state[split][g];
      const float weight = state.x == -infinity() ? 0.f : exp2f(state.x - top);
      sum += weight * shared.out[split][own];
      total += weight * state.y;
    }
    out[i] = (Element)(sum / total);
  }
}

extern "C" __global__ void __cluster_dims__(SPLITS, 1, 1) __launch_bounds__(kThreads) step_attention(const Call call) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int split = blockIdx.x, group = blockIdx.y, head = group / PARTS, sequence = blockIdx.z;
  const int groups = gridDim.y, kv_heads = groups / PARTS;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = kv_heads * HEAD_DIM;
  griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) {
    init(shared.arrived, 1);
    fence_init();
    arrive_expect_tx(shared.arrived, kExchangedBytes);
  }
  cluster_arrive_relaxed();  // the block has started, so others may write to its shared memory

  const long long position = call.position[sequence * call.position_step];
  const bool inside = position >= 0 && position < call.capacity;
  const int last = inside ? (int)position : 0, seen = call.window > 0 ? min(last + 1, call.window) : last + 1;
  const int share = (seen + SPLITS - 1) / SPLITS, begin = last + 1 - seen + split * share;
  const int end = min(begin + share, last + 1);
  const long long cache = ((long long)sequence * call.capacity * kv_heads + head) * HEAD_DIM;
  const Element *keys = call.keys + cache, *values = call.values + cache;
  const bool owner = begin <= last && end == last + 1;
  fetch(shared, keys, values, begin, min(end - begin, CHUNK), row);
  const Angles angles(call.cosines + (long long)last * HEAD_DIM, call.sines + (long long)last * HEAD_DIM);
  if (threadIdx.x < GROUP) shared.top[threadIdx.x] = -infinity(), shared.total[threadIdx.x] = 0;
  griddepcontrol_wait();

  const Element* from = call.qkv + (long long)sequence * (groups * GROUP * HEAD_DIM + 2 * row);
  for (int g = warp; g < GROUP; g += kWarps)
#pragma unroll
    for (int e = 0; e < Angles::kEach; ++e) {
      const int i = lane + 32 * e;
      const float2 rotated = angles.apply_rope(from + (group * GROUP + g) * HEAD_DIM, e);
      shared.query[g][i] = rotated.x * call.scale * kLog2e;
      shared.query[g][i + kHalf] = rotated.y * call.scale * kLog2e;
    }
  if (owner && inside && warp == kWarps - 1)
#pragma unroll
    for (int e = 0; e < Angles::kEach; ++e) {
      const int i = lane + 32 * e;
      const float2 rotated = angles.apply_rope(from + (GROUP * groups + head) * HEAD_DIM, e);
      const Element* value = from + (GROUP * groups + kv_heads + head) * HEAD_DIM;
      const Element low = value[i], high = value[i + kHalf];
      shared.fresh_key[i] = rotated.x, shared.fresh_key[i + kHalf] = rotated.y;
      shared.fresh_value[i] = low, shared.fresh_value[i + kHalf] = high;
      if (group % PARTS) continue;
      const long long to = cache + (long long)last * row;
      call.keys[to + i] = (Element)rotated.x, call.keys[to + i + kHalf] = (Element)rotated.y;
      call.values[to + i] = low, call.values[to + i + kHalf] = high;
    }

  Eight out[GROUP] = {};
  for (int at = begin; at < end; at += CHUNK) {
    const int count = min(end - at, CHUNK);
    if (at != begin) {
      __syncthreads();
      fetch(shared, keys, values, at, count, row);
    }
    cp_async_wait_all();
    __syncthreads();
    score(shared, count, last - at);
    __syncthreads();
    normalise(shared, count);
    __syncthreads();
    add_values(shared, out, count, last - at);
  }
  cluster_wait();
  gather(shared, out, split);
  wait(shared.arrived, 0);
  Element* to = call.out + ((long long)sequence * groups + group) * GROUP * HEAD_DIM;
  if (inside) {
    merge(shared, to, split);
  } else {
    for (int i = threadIdx.x; i < kOwn; i += kThreads) to[split * kOwn + i] = (Element)__int_as_float(0x7fffffff);
  }
}
