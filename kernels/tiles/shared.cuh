// Tiles in shared memory. They have the 128-byte swizzle that TMA writes and wgmma reads.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "barrier.cuh"

// Bytes of a structure up to the end of its `last` member, where sizeof would round up: NVRTC has no offsetof.
#define BYTES_UP_TO(type, last) (__INTADDR__(&((type*)0)->last) + sizeof(type::last))

namespace tiles {

using bf16 = __nv_bfloat16;
using f16 = __half;
struct e4m3 {
  unsigned char bits;
};

// Rows × Cols values as panels of 128 bytes a row: 64 columns of 16 bits, 128 of 8. Panel p holds the columns from
// p · kPanelCols. Within a panel the 16-byte chunk c of row r lies at chunk c ^ (r mod 8).
template <typename T, int Rows, int Cols>
struct SharedTile {
  static constexpr int kPanelCols = 128 / sizeof(T), kPanels = Cols / kPanelCols, kRows = Rows;
  static constexpr u32 kBytes = Rows * Cols * sizeof(T);
  static_assert(Cols % kPanelCols == 0 && Rows % 8 == 0, "whole panels of whole swizzle atoms");
  alignas(1024) T at[Rows * Cols];
  __device__ __forceinline__ T* panel(int index, int row = 0) { return at + (index * Rows + row) * kPanelCols; }
  __device__ __forceinline__ const T* panel(int index, int row = 0) const {
    return at + (index * Rows + row) * kPanelCols;
  }
};

// Distributed shared memory: the address, in block `rank` of the cluster, that corresponds to `mine` in this block.
__device__ __forceinline__ u32 mapa(const void* mine, u32 rank) {
  u32 address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(mine)), "r"(rank));
  return address;
}
__device__ __forceinline__ float ld_cluster(const float* mine, u32 rank) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(mapa(mine, rank)) : "memory");
  return value;
}
__device__ __forceinline__ void st_cluster(float* mine, u32 rank, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(mapa(mine, rank)), "f"(value) : "memory");
}
// An asynchronous store to the same place of block `rank`. Its bytes count towards the barrier `arrived` of that block.
__device__ __forceinline__ void st_async(float* to, u32 rank, float value, Barrier& arrived) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(mapa(to, rank)),
               "f"(value), "r"(mapa(&arrived, rank))
               : "memory");
}
__device__ __forceinline__ void st_async(float2* to, u32 rank, const float2& v, Barrier& arrived) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(mapa(to, rank)),
      "f"(v.x), "f"(v.y), "r"(mapa(&arrived, rank))
      : "memory");
}
__device__ __forceinline__ void st_async(float4* to, u32 rank, const float4& v, Barrier& arrived) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   mapa(to, rank)),
               "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(mapa(&arrived, rank))
               : "memory");
}

// Byte offset of 16-byte chunk `chunk` of row `row` in a panel.
__device__ __forceinline__ u32 swizzled(u32 row, u32 chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

// Four 8×8 matrices of 16-bit values, that is 16 rows × 16 columns, as a warp holds them for products.
__device__ __forceinline__ void ldmatrix(u32 (&to)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void stmatrix(u32 address, const u32 (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]),
               "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// One or two 8×8 matrices, transposed: a lane that points at row r of matrix j (lane 8j + r) holds of it, in value[j],
// the rows 2(lane mod 4) and one more of column lane / 4.
__device__ __forceinline__ void ldmatrix_transposed(u32 (&to)[2], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void stmatrix_transposed(u32 address, const u32 (&from)[1]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address), "r"(from[0]) : "memory");
}
__device__ __forceinline__ void stmatrix_transposed(u32 address, const u32 (&from)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(from[0]),
               "r"(from[1])
               : "memory");
}
__device__ __forceinline__ void stmatrix_transposed(u32 address, const u32 (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]),
               "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// Where this lane points ldmatrix or stmatrix: columns [16 · step, 16 · step + 16) of the 16 rows of its warp
// in a panel whose row 0 belongs to warp 0 of the warpgroup.
__device__ __forceinline__ u32 matrix_address(const void* panel, int step) {
  const u32 row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 16, chunk = 2 * step + threadIdx.x % 32 / 16;
  return shared_address(panel) + swizzled(row, chunk);
}

}  // namespace tiles
