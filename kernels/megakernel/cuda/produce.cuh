// The producer: one thread that copies this SM's weights, and its keys and values, into the ring.
#pragma once
#include "experts.cuh"
#include "ring_keys.cuh"

template <class F>
constexpr int kUnitChunks = (HIDDEN / 16 + F::kChunkTiles - 1) / F::kChunkTiles;  // of a product of the residual
// The first row tile of such a product whose chunks cannot be in the ring before the product begins. While the producer
// loads it, the consumers are within the product.
template <class F>
constexpr int kLongFrom = (STAGES + kUnitChunks<F> - 1) / kUnitChunks<F>;

struct Producer {
  const Params& p;
  Shared& s;
  L2Prefetch prefetch;
  PipelineState<STAGES> at, behind;
  int flying, known;  // flying: copies in flight; known: tokens of this launch whose keys and values may be read

  // Waits for a free slot of the ring. This and the functions below return false once the consumers have stopped.
  __device__ __forceinline__ bool room() { return wait_running(s, prefetch, s.empty[at.stage], at.parity ^ 1); }
  // Tells whether the consumers have read all chunks that have landed. They then wait for chunks, not for words.
  __device__ __forceinline__ bool starved() const {
    const int stage = (behind.stage ? behind.stage : STAGES) - 1;
    return test_wait(s.empty[stage], behind.stage ? behind.parity : behind.parity ^ 1);
  }
  // Waits until fewer than `few` copies are in flight, or, while the consumers wait for chunks, fewer than `most`. Then
  // announces `bytes` in the next slot.
  __device__ __forceinline__ bool announce(u32 bytes, int few, int most) {
    while (flying >= few) {
      if (test_wait(s.full[behind.stage], behind.parity)) {
        behind.advance();
        flying--;
      } else if (flying < most && starved()) {
        break;
      } else if (!wait_on(s, prefetch)) {
        return false;
      }
    }
    arrive_expect_tx(s.full[at.stage], bytes);
    return true;
  }
  __device__ __forceinline__ void copied() {
    at.advance();
    flying++;
  }

  // During a `wide` product (GATE_UP, HEAD) no SM waits for words, so a longer queue at the memory delays none.
  template <class F>
  __device__ __forceinline__ bool weights(const char*& source, bool wide, int units, int k_tiles) {
    for (int unit = 0; unit < units; unit++) {
      const int few = wide && unit >= kLongFrom<F> ? LONG_IN_FLIGHT : IN_FLIGHT;
      for (int left = k_tiles; left > 0; left -= F::kChunkTiles) {
        const u32 bytes = F::kHeader + (min(left, F::kChunkTiles) + F::kBlockTiles - 1) / F::kBlockTiles * F::kBlock;
        if (!room() || !announce(bytes, prefetch.lead >= bytes ? PREFETCHED_IN_FLIGHT : few, LONG_IN_FLIGHT))
          return false;
        bulk_load(s.ring[at.stage], source, bytes, s.full[at.stage], kEvictFirst);
        source += bytes;
        if (PREFETCH_BYTES) prefetch.consume(source, bytes);
        copied();
      }
    }
    return true;
  }

#if EXPERTS
  int distinct;  // experts at work in the layer

  // The weights of the chosen experts that GATE_UP or DOWN multiplies. A chunk of DOWN may lie in two experts.
  __device__ __forceinline__ bool experts(const Instruction& in, int step) {
    const bool wide = in.op == kGateUp;
    if (wide && in.group == 0) {
      while (*(volatile const int*)&s.routed < step * LAYERS + in.layer + 1)
        if (!wait_on(s, prefetch)) return false;
      distinct = *(volatile const int*)&s.distinct;
    }
    const int units = units_at_work(in, distinct), end = in.k_tile + tiles_at_work(in, distinct);
    if (experts_at_work(in.group, distinct) == 0) return true;
    const char* layer = p.experts + (size_t)in.layer * EXPERTS * kExpertBytes;
#pragma unroll 1
    for (int unit = 0; unit < units; unit++) {
      const int row = wide ? in.tile + unit * gridDim.x : in.tile + unit;
#pragma unroll 1
      for (int tile = in.k_tile; tile < end; tile += Expert::kChunkTiles) {
        const int last = min(tile + Expert::kChunkTiles, end);
        if (!room() || !announce(expert_bytes(last - tile), wide ? LONG_IN_FLIGHT : IN_FLIGHT, LONG_IN_FLIGHT)) return false;
#pragma unroll 1
        for (int from = tile; from < last;) {
          const int slot = in.group * TOP_K + (wide ? row / kExpertUnits : from / kExpertTiles);
          const int to = wide ? last : min(last, from / kExpertTiles * kExpertTiles + kExpertTiles);
          const u32 place = wide ? row % kExpertUnits * kGateUpUnit + expert_bytes(from)
                                 : kExpertUnits * kGateUpUnit + row * kDownUnit + expert_bytes(from % kExpertTiles);
          const char* source = layer + (size_t)*(volatile const int*)&s.experts[slot] * kExpertBytes + place;
          bulk_load(s.ring[at.stage] + expert_bytes(from - tile), source, expert_bytes(to - from), s.full[at.stage],
                    kEvictFirst);
          from = to;
        }
        if (PREFETCH_BYTES) prefetch.count_request();
        copied();
      }
    }
    return true;
  }
#endif

  // The keys and values of a split, pass by pass. Rows of tokens of this launch are read once the token is known.
  __device__ __forceinline__ bool rows(const Instruction& in, int step) {
    const int position = position_of(p, in.sequence, step);
    const Span span = split_span(in, position);
    if (in.split >= splits_of(keys_of(in.layer, position))) return true;
    const int wanted = min(span.end - (position - step), step);
    if (wanted > known) {
      while (*(volatile const int*)&s.step < wanted)
        if (*(volatile const int*)&s.stop) return false;
      __threadfence();
      fence_proxy_async_global();
      known = wanted;
    }
    const int row = (in.layer * BATCH + in.sequence) * p.capacity, head = in.kv_head;
#pragma unroll 1
    for (int pass = span.begin; pass < span.end; pass += kPassKeys)
#pragma unroll 1
      for (int half = 0; half < 2; half++)
#pragma unroll 1
        for (int key = pass; key < min(pass + kPassKeys, span.end); key += kChunkKeys) {
          const int boxes = (min(kChunkKeys, span.end - key) + kBoxKeys - 1) / kBoxKeys;
          if (!room() || !announce(boxes * kStripes * kBoxBytes, IN_FLIGHT, LONG_IN_FLIGHT)) return false;
#pragma unroll 1
          for (int box = 0; box < boxes; box++)
#pragma unroll
            for (int stripe = 0; stripe < kStripes; stripe++)
              tma_load(s.ring[at.stage] + stripe * kStripeBytes + box * kBoxBytes, half ? p.value_map : p.key_map,
                       s.full[at.stage], stripe * 64, head, row + key + box * kBoxKeys, kEvictFirst);
          if (PREFETCH_BYTES) prefetch.count_request();
          copied();
        }
    return true;
  }
};

// Copies in program order, token after token. It never waits for an activation.
__device__ void produce(const Params& p, Shared& s) {
  const char* begin = p.weights + p.weight_offset[blockIdx.x];
  Producer producer{p, s, {begin, p.weights + p.weight_offset[blockIdx.x + 1], begin, 0, cycles()}, {}, {}, 0, 0};
  bool running = true;
  for (int step = 0; step < p.count && running; step++) {
    const char* source = begin;
    const Instruction* program = p.program + p.program_start[blockIdx.x];
    int2 next = make_int2(program->units, program->k_tiles);
    for (; program->op != kEnd && running; program++) {
      const int2 work = next;
      next = make_int2(program[1].units, program[1].k_tiles);
      if (KEYS_IN_RING && program->op == kAttention)
        running = producer.rows(*program, step);
#if EXPERTS
      else if (program->op == kGateUp || program->op == kDown)
        running = producer.experts(*program, step);
#endif
      else if (kHeadApart && program->op == kHead)
        running = producer.weights<Head>(source, true, work.x, work.y);
      else
        running = producer.weights<Own>(source, program->op == kGateUp || program->op == kHead, work.x, work.y);
    }
  }
  for (; producer.flying > 0; producer.flying--) {  // no copy may land after the block has ended
    while (!try_wait(s.full[producer.behind.stage], producer.behind.parity)) {
    }
    producer.behind.advance();
  }
}
