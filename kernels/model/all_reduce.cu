// Adds the partial sums of all ranks to the residual stream of each: a one-shot all-reduce through peer memory.
//
//   rank 0   partial ──┬─► slot of rank 0 ┐ a flag for each block      stream + partial 0 + partial 1 ─► sum
//                      ╳                  │
//   rank 1   partial ──┴─► slot of rank 1 ┘                            stream + partial 0 + partial 1 ─► sum
//
// Every rank launches this kernel once for each sum, on a GPU of its own, with the same grid. Block b stores its range
// of the rank's partial into the memory of every other rank, then a flag with the number of the launch. It waits for
// the flags of block b of the others, whose partials are then in its own memory, and adds them in the order of the
// ranks. All its blocks must run at once, so the grid is smaller than the number of SMs. A sum without the partial of a
// rank that did not come in time is NaN.
//
// Slots alternate between two halves. A rank stores into a half again two launches later. The launch between them has
// waited for a flag that each other rank sets only after it has read that half.
#include "tiles.cuh"

using namespace tiles;

// The fields are those of params_of in all_reduce.py. A vector is eight bf16.
struct Params {
  u64 stream, partial, sum;  // [vectors] of this rank
  u64 slots[RANKS];          // in the memory of each rank: [2 halves][RANKS senders][most]
  u64 flags[RANKS];          // in the memory of each rank: u32 [RANKS senders][gridDim.x]
  u64 launches;              // u32 [gridDim.x], of this rank
  u64 fault;                 // pinned: 0, or 1 + receiver · RANKS + sender of a wait that was too long
  u64 timeout_ns;
  u32 vectors, most, rank, unused;
};
static_assert(sizeof(Params) == PARAMS_BYTES);

// Orders what this block has stored before the flag, for the reader of the flag.
__device__ __forceinline__ void set_flag(u32* flag, u32 launch) {
  asm volatile("fence.acq_rel.sys;\nst.relaxed.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(launch) : "memory");
}

// Waits until the flag has the number of this launch, or of a later one. Gives up after the timeout, and where any rank
// has given up: then it returns false.
__device__ __forceinline__ bool wait_for(const u32* flag, u32 launch, const Params& p, u32 sender) {
  volatile u64* fault = (volatile u64*)p.fault;
  const u64 began = nanoseconds();
  for (u32 polls = 1;; polls++) {
    u32 seen;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    if ((int)(seen - launch) >= 0) return true;
    if (polls % 1024) continue;
    if (*fault) return false;
    if (nanoseconds() - began > p.timeout_ns) {
      *fault = 1 + p.rank * RANKS + sender;
      return false;
    }
  }
}

__device__ __forceinline__ void add(float (&to)[8], uint4 eight) {
  const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 pair = unpack<bf16>(pairs[i]);
    to[2 * i] += pair.x;
    to[2 * i + 1] += pair.y;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) all_reduce(const __grid_constant__ Params p) {
  u32* launches = (u32*)p.launches;
  const u32 launch = launches[blockIdx.x] + 1;
  const u64 half = (u64)(launch % 2) * RANKS * p.most;
  const u32 share = (p.vectors + gridDim.x - 1) / gridDim.x;
  const u32 begin = min(blockIdx.x * share, p.vectors);
  const u32 end = min(begin + share, p.vectors);
  const uint4* partial = (const uint4*)p.partial;

  for (u32 v = begin + threadIdx.x; v < end; v += THREADS) {
    const uint4 own = partial[v];
#pragma unroll
    for (u32 r = 0; r < RANKS; r++)
      if (r != p.rank) ((uint4*)p.slots[r])[half + (u64)p.rank * p.most + v] = own;
  }
  __syncthreads();
  bool came = true;
  if (threadIdx.x < RANKS && threadIdx.x != p.rank) {
    set_flag((u32*)p.flags[threadIdx.x] + p.rank * gridDim.x + blockIdx.x, launch);
    came = wait_for((u32*)p.flags[p.rank] + threadIdx.x * gridDim.x + blockIdx.x, launch, p, threadIdx.x);
  }
  const float lost = __syncthreads_and(came) ? 0.f : nanf("");
  const uint4* slots = (const uint4*)p.slots[p.rank] + half;
  for (u32 v = begin + threadIdx.x; v < end; v += THREADS) {
    float total[8] = {lost, lost, lost, lost, lost, lost, lost, lost};
    add(total, ((const uint4*)p.stream)[v]);
#pragma unroll
    for (u32 r = 0; r < RANKS; r++) add(total, r == p.rank ? partial[v] : __ldcg(slots + (u64)r * p.most + v));
    ((uint4*)p.sum)[v] = {pack<bf16>(total[0], total[1]), pack<bf16>(total[2], total[3]),
                          pack<bf16>(total[4], total[5]), pack<bf16>(total[6], total[7])};
  }
  if (threadIdx.x == 0) launches[blockIdx.x] = launch;
}

// Copies `count` values of 8 bytes that another GPU has. An earlier kernel wrote them, which this one follows.
extern "C" __global__ void fetch(u64* to, const u64* from, u64 count) {
  for (u64 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(to[i]) : "l"(from + i));
}
