// Whole tiles by the fifth-generation tensor cores, and a thread's row of TMEM. No PTX: tests run it on a CPU.
#pragma once
#include "rows.cuh"
#include <tcgen05.cuh>  // found by the search path: a test may put another in its place

namespace tiles {

// d = a · bᵀ of whole tiles of 16-bit values with K innermost: 128 rows of a, the rows of b as columns. One block.
template <MatrixKind Kind, typename T, int Columns, int K>
__device__ __forceinline__ void multiply_rows(u32 d, const SharedTile<T, 128, K>& a,
                                              const SharedTile<T, Columns, K>& b) {
#pragma unroll
  for (int i = 0; i < K / 16; i++) {
    const u32 along = i % 4 * kNextInstruction;
    tcgen05_mma<Kind>(d, operand_descriptor(shared_address(a.panel(i / 4))) + along,
                      operand_descriptor(shared_address(b.panel(i / 4))) + along,
                      instruction_descriptor(Kind, 128, Columns), i > 0);
  }
}
// d += a · b, or d = a · b when `keep` is 0: a in TMEM, the rows of b are K.
template <MatrixKind Kind, typename T, int K, int Columns>
__device__ __forceinline__ void multiply_columns(u32 d, u32 a, const SharedTile<T, K, Columns>& b, int keep) {
  const u64 first = columns_descriptor(shared_address(b.at), K * 128);
#pragma unroll
  for (int i = 0; i < K / 16; i++)
    tcgen05_mma_tmem<Kind>(d, a + i * 8, first + i * kNextDepthRows,
                           instruction_descriptor(Kind, 128, Columns) | kColumnsInnermost, keep || i > 0);
}

// Multiplies Columns columns of this lane by `by`.
template <int Columns>
__device__ __forceinline__ void tmem_scale(u32 address, float by) {
  for (int column = 0; column < Columns; column += 32) {
    float d[32];
    tmem_load(d, address + column);
#pragma unroll
    for (int i = 0; i < 32; i++) d[i] *= by;
    tmem_store(address + column, d);
  }
}
// Writes zeros to Columns columns of this lane.
template <int Columns>
__device__ __forceinline__ void tmem_zero(u32 address) {
  for (int column = 0; column < Columns; column += 32) {
    float d[32] = {};
    tmem_store(address + column, d);
  }
}
// Stores N values of this lane as 16-bit values, two in a column.
template <typename T, int N>
__device__ __forceinline__ void tmem_store_packed(u32 address, const float (&from)[N]) {
#pragma unroll
  for (int part = 0; part < N; part += 64) {
    float pairs[32];
#pragma unroll
    for (int i = 0; i < 32; i++) pairs[i] = __uint_as_float(pack<T>(from[part + 2 * i], from[part + 2 * i + 1]));
    tmem_store(address + part / 2, pairs);
  }
}

// Columns columns of this lane of TMEM, times `by`, in the same row.
template <int Columns, typename T>
__device__ __forceinline__ void put_row_of_tmem(T* panel, u32 address, float by) {
  for (int column = 0; column < Columns; column += 32) {
    float d[32];
    tmem_load(d, address + column);
#pragma unroll
    for (int i = 0; i < 32; i++) d[i] *= by;
    put_row<32>(panel, column / 8, d);
  }
}

}  // namespace tiles
