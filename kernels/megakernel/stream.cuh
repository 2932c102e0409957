// The weights' way to an SM: memory, the second-level cache, the ring in shared memory.
#pragma once
#include "machine.cuh"

// The consumers' wait for a chunk. When it takes too long the machine is marked as faulted and works on with what is
// there until the next barrier.
__device__ __forceinline__ void wait_chunk(const Params& p, Shared& s, const Instruction& in, Barrier& barrier,
                                           u32 parity) {
  u64 began = 0;
  for (u32 spin = 0; !try_wait(barrier, parity); spin++)
    if (given_up(p, s, in, spin, began)) return;
}

// A warp is done with the slot at hand. Its reads of shared memory queue behind the loads from memory that the SM has
// in flight; an arrival does not, nor does the bulk copy that it lets in. Within a product no load is in flight.
// Elsewhere the arrival must not come before what was read: `after` is 0 and depends on it, or
// `fence_proxy_async_shared` comes first.
__device__ __forceinline__ void release_chunk(Shared& s, PipelineState<STAGES>& ring, u32 after = 0) {
  __syncwarp();
  if (DEBUG || threadIdx.x % 32 == 0) arrive_address(shared_address(&s.empty[ring.stage]) + after);
  ring.advance();
}

// What the producer brings into the second-level cache beyond the ring, while consumers wait for a hand-over and the
// ring is full. Paced by the clock, since a long queue at the memory would delay the words that SMs hand each other;
// what the ring has to ask the memory for counts.
struct Ahead {
  static constexpr u32 kPiece = 4096;
  const char *begin, *end;  // this SM's weights, of one token
  const char* at;           // the next to ask for
  u32 lead = 0;             // bytes asked for that the ring has not taken
  u32 due;                  // when the next may be asked for, in cycles

  // The ring takes `bytes` up to `next`.
  __device__ __forceinline__ void taken(const char* next, u32 bytes) {
    if (lead >= bytes) {
      lead -= bytes;
      return;
    }
    lead = 0;
    at = next == end ? begin : next;
    asked();
  }
  // The ring asks the memory for a chunk.
  __device__ __forceinline__ void asked() { due += PREFETCH_CYCLES * (kChunk / kPiece); }
  __device__ __forceinline__ void issue_loads() {
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

// What the producer does while it waits; false once the consumers have stopped.
__device__ __forceinline__ bool wait_on(const Shared& s, Ahead& ahead) {
  if (*(volatile const int*)&s.stop) return false;
  if (PREFETCH_BYTES) ahead.issue_loads();
  return true;
}
__device__ __forceinline__ bool wait_running(const Shared& s, Ahead& ahead, Barrier& barrier, u32 parity) {
  while (!test_wait(barrier, parity))
    if (!wait_on(s, ahead)) return false;
  return true;
}
