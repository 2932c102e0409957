// One decode step between the QKV product and the output product: rotates q and k, appends k and v, attends.
//
//   qkv [batch, (heads + 2 kv_heads) D] ─► q·rope ┐        q and k of each head normed before, HEAD_NORMS
//   cache [batch, capacity, kv_heads, D]  ────────┴► scores ─► softmax ─► · v ─► (max, sum, o) ─► merged in the cluster
//   or [pages, PAGE_SIZE, kv_heads, D] and the page table of each sequence
//
// A cluster of SPLITS blocks serves GROUP query heads of one key head of one sequence. Each block attends to a
// contiguous range of the keys. PARTS clusters share a key head. Blocks copy their first CHUNK keys and values into
// shared memory before they wait for the previous kernel. This is safe because the previous kernel is the QKV product:
// the step before wrote the older slots of the cache, and the position and the page table are older than the QKV
// product. The blocks that hold the new token's slot rotate k; those of the first part append k and v to the cache.
// Each block sends its partial outputs to the blocks of the cluster that merge them, through distributed shared memory.
#include "step_attention.cuh"

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
      sum.x += part.x;
      sum.y += part.y;
      sum.z += part.z;
      sum.w += part.w;
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
  const int* table = PAGE_SIZE ? call.tables + sequence * call.table_step : nullptr;
  const Slots slots{table, call.pages, call.token_step, call.page_step};
  const long long newest = position >= 0 && position < call.capacity ? slots.of((int)position) : -1;
  const bool inside = newest >= 0;
  const int last = inside ? (int)position : 0, seen = call.window > 0 ? min(last + 1, call.window) : last + 1;
  const int share = (seen + SPLITS - 1) / SPLITS, begin = last + 1 - seen + split * share;
  const int end = min(begin + share, last + 1);
  const long long cache = (PAGE_SIZE ? 0 : sequence * call.page_step) + (long long)head * call.head_step;
  const Element *keys = call.keys + cache, *values = call.values + cache;
  const bool owner = begin <= last && end == last + 1;
  fetch(shared, keys, values, slots, begin, min(end - begin, CHUNK));
  const Angles angles(call.cosines + (long long)last * HEAD_DIM, call.sines + (long long)last * HEAD_DIM);
  const HeadNorm query_norm(call.query_norm), key_norm(call.key_norm);
  if (threadIdx.x < GROUP) {
    const bool sink = SINKS && split == 0;  // it joins the sums of the first keys
    shared.top[threadIdx.x] = sink ? (float)call.sinks[group * GROUP + threadIdx.x] * kLog2e : -infinity();
    shared.total[threadIdx.x] = sink;
  }
  griddepcontrol_wait();

  const Element* from = call.qkv + (long long)sequence * (groups * GROUP * HEAD_DIM + 2 * row);
  for (int g = warp; g < GROUP; g += kWarps) {
    const Element* query = from + (group * GROUP + g) * HEAD_DIM;
    const float factor = query_norm.factor(query, call.norm_eps);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = lane + 32 * e;
      const float2 rotated = angles.apply_rope(query_norm.apply(query, factor, e), e);
      shared.query[g][i] = rotated.x * call.scale * kLog2e;
      shared.query[g][i + kHalf] = rotated.y * call.scale * kLog2e;
    }
  }
  if (owner && inside && warp == kWarps - 1) {
    const Element *key = from + (GROUP * groups + head) * HEAD_DIM, *value = key + kv_heads * HEAD_DIM;
    const float factor = key_norm.factor(key, call.norm_eps);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = lane + 32 * e;
      const float2 rotated = angles.apply_rope(key_norm.apply(key, factor, e), e);
      const Element low = value[i], high = value[i + kHalf];
      shared.fresh_key[i] = rotated.x;
      shared.fresh_key[i + kHalf] = rotated.y;
      shared.fresh_value[i] = low;
      shared.fresh_value[i + kHalf] = high;
      if (group % PARTS) continue;
      const long long to = cache + newest;
      call.keys[to + i] = (Element)rotated.x;
      call.keys[to + i + kHalf] = (Element)rotated.y;
      call.values[to + i] = low;
      call.values[to + i + kHalf] = high;
    }
  }

  Eight out[GROUP] = {};
  for (int at = begin; at < end; at += CHUNK) {
    const int count = min(end - at, CHUNK);
    if (at != begin) {
      __syncthreads();
      fetch(shared, keys, values, slots, at, count);
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
