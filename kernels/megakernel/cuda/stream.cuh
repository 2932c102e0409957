// The way of weights to an SM: from memory through the L2 cache into the ring in shared memory.
#pragma once
#include "machine.cuh"

// The consumers wait for a chunk; after the time limit they set `faulted` and go on until the next barrier.
__device__ __forceinline__ void wait_chunk(const Params& p, Shared& s, const Instruction& in, Barrier& barrier,
                                           u32 parity) {
  u64 began = 0;
  for (u32 spin = 0; !try_wait(barrier, parity); spin++)
    if (given_up(p, s, in, spin, began)) return;
}

// Frees the slot of the current chunk, after this warp has read its blocks. Reads of shared memory queue behind loads
// from memory that the SM has in flight; neither an arrival nor the bulk copy that follows it waits for such reads.
// Within a product no load is in flight. Elsewhere the arrival must come after the reads: `after` is 0 but depends on
// the values that were read, or the caller calls `fence_proxy_async_shared`.
__device__ __forceinline__ void release_chunk(Shared& s, PipelineState<STAGES>& ring, u32 after = 0) {
  __syncwarp();
  if (DEBUG || threadIdx.x % 32 == 0) arrive_address(shared_address(&s.empty[ring.stage]) + after);
  ring.advance();
}

// The producer prefetches weights beyond the ring into the L2 cache while the ring is full. The clock paces its
// requests, because a long queue at the memory would delay flagged words. Requests of the ring itself count too.
struct L2Prefetch {
  static constexpr u32 kPiece = 4096;
  const char *begin, *end;  // this SM's weights, of one token
  const char* at;           // the next byte to prefetch
  u32 lead = 0;             // prefetched bytes that the ring has not loaded yet
  u32 due;                  // when the next request may be issued, in cycles

  // The ring has loaded `bytes`, which end at `next`.
  __device__ __forceinline__ void consume(const char* next, u32 bytes) {
    if (lead >= bytes) {
      lead -= bytes;
      return;
    }
    lead = 0;
    at = next == end ? begin : next;
    count_request();
  }
  // The ring requests a chunk from memory.
  __device__ __forceinline__ void count_request() { due += PREFETCH_CYCLES * (kChunk / kPiece); }
  __device__ __forceinline__ void request() {
    const u32 now = cycles();
    if (lead >= PREFETCH_BYTES || (int)(now - due) < 0) return;
    const u32 piece = min(kPiece, (u32)(end - at));
    bulk_prefetch_l2(at, piece);
    at += piece;
    if (at == end) at = begin;
    lead += piece;
    due = ((int)(now - due) > PREFETCH_CYCLES ? now : due) + PREFETCH_CYCLES;
  }
};

// One round of a wait of the producer: it may prefetch. Returns false once the consumers have stopped.
__device__ __forceinline__ bool wait_on(const Shared& s, L2Prefetch& prefetch) {
  if (*(volatile const int*)&s.stop) return false;
  if (PREFETCH_BYTES) prefetch.request();
  return true;
}
__device__ __forceinline__ bool wait_running(const Shared& s, L2Prefetch& prefetch, Barrier& barrier, u32 parity) {
  while (!test_wait(barrier, parity))
    if (!wait_on(s, prefetch)) return false;
  return true;
}
