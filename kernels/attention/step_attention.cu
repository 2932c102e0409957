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
    const float4 state = make_float4(shared.row_max[g], shared.row_sum[g], 0, 0);
    st_async(&shared.state[split][g], i / GROUP, state, shared.arrived);
  }
}

// Merges the block's share of the outputs of one key head's query heads.
__device__ void merge(const Shared& shared, Element* out, int rank) {
  for (int own = threadIdx.x; own < kOwn; own += kThreads) {
    const int i = rank * kOwn + own, g = i / HEAD_DIM;
    float row_max = -infinity(), sum = 0, row_sum = 0;
#pragma unroll
    for (int split = 0; split < SPLITS; ++split) row_max = fmaxf(row_max, shared.state[split][g].x);
#pragma unroll
    for (int split = 0; split < SPLITS; ++split) {
      const float4 state = shared.state[split][g];
      const float weight = state.x == -infinity() ? 0.f : exp2f(state.x - row_max);
      sum += weight * shared.out[split][own];
      row_sum += weight * state.y;
    }
    out[i] = (Element)(sum / row_sum);
  }
}

extern "C" __global__ void __cluster_dims__(SPLITS, 1, 1) __launch_bounds__(kThreads) step_attention(const Params p) {
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

  const long long position = p.position[sequence * p.position_step];
  const int* table = PAGE_SIZE ? p.tables + sequence * p.table_step : nullptr;
  const Slots slots{table, p.pages, p.token_step, p.page_step};
  const long long newest = position >= 0 && position < p.capacity ? slots.of((int)position) : -1;
  const bool inside = newest >= 0;
  const int last = inside ? (int)position : 0, seen = p.window > 0 ? min(last + 1, p.window) : last + 1;
  const int share = (seen + SPLITS - 1) / SPLITS, begin = last + 1 - seen + split * share;
  const int end = min(begin + share, last + 1);
  const long long cache = (PAGE_SIZE ? 0 : sequence * p.page_step) + (long long)head * p.head_step;
  const Element *keys = p.keys + cache, *values = p.values + cache;
  const bool owner = begin <= last && end == last + 1;
  fetch(shared, keys, values, slots, begin, min(end - begin, CHUNK));
  const Angles angles(p.cosines + (long long)last * HEAD_DIM, p.sines + (long long)last * HEAD_DIM);
  const HeadNorm query_norm(p.query_norm), key_norm(p.key_norm);
  if (threadIdx.x < GROUP) {
    const bool sink = SINKS && split == 0;  // it joins the sums of the first keys
    shared.row_max[threadIdx.x] = sink ? (float)p.sinks[group * GROUP + threadIdx.x] * kLog2e : -infinity();
    shared.row_sum[threadIdx.x] = sink;
  }
  griddepcontrol_wait();

  const Element* from = p.qkv + (long long)sequence * (groups * GROUP * HEAD_DIM + 2 * row);
  for (int g = warp; g < GROUP; g += kWarps) {
    const Element* query = from + (group * GROUP + g) * HEAD_DIM;
    const float factor = query_norm.factor(query, p.norm_eps);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int i = lane + 32 * e;
      const float2 rotated = angles.apply_rope(query_norm.apply(query, factor, e), e);
      shared.query[g][i] = rotated.x * p.scale * kLog2e;
      shared.query[g][i + kHalf] = rotated.y * p.scale * kLog2e;
    }
  }
  if (owner && inside && warp == kWarps - 1) {
    const Element *key = from + (GROUP * groups + head) * HEAD_DIM, *value = key + kv_heads * HEAD_DIM;
    const float factor = key_norm.factor(key, p.norm_eps);
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
      p.keys[to + i] = (Element)rotated.x;
      p.keys[to + i + kHalf] = (Element)rotated.y;
      p.values[to + i] = low;
      p.values[to + i + kHalf] = high;
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
  Element* to = p.out + ((long long)sequence * groups + group) * GROUP * HEAD_DIM;
  if (inside) {
    merge(shared, to, split);
  } else {
    for (int i = threadIdx.x; i < kOwn; i += kThreads) to[split * kOwn + i] = (Element)__int_as_float(0x7fffffff);
  }
}
