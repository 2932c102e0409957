// Roles of warps: warpgroups, the elected thread, registers of a role, proxy fences, programmatic dependent launch.
#pragma once
#include "barrier.cuh"

namespace tiles {

constexpr int kWarpgroup = 128;

// Index of this thread's warpgroup. The shuffle tells the compiler that all threads of a warp have the same index.
__device__ __forceinline__ int warpgroup() { return __shfl_sync(~0u, (int)threadIdx.x / kWarpgroup, 0); }
__device__ __forceinline__ int warp_of_warpgroup() { return __shfl_sync(~0u, (int)threadIdx.x / 32 % 4, 0); }

// True in one thread of the (whole) warp.
__device__ __forceinline__ bool elect_one() {
  u32 chosen;
  asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(chosen));
  return chosen;
}

// The GPU's clock.
__device__ __forceinline__ u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// Sets the registers of this warpgroup's threads, a multiple of 8 from 24 to 240; the block's sum is fixed.
template <int Registers>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// Makes ordinary writes to shared memory visible to the copy engine and the tensor cores. A barrier must follow.
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Programmatic dependent launch: call the first before reading results, the second when the next may begin.
__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace tiles
