// Converts accumulators to 16-bit and 8-bit values, and moves these between registers and shared tiles.
#pragma once
#include "wgmma.cuh"

namespace tiles {

template <typename T>
__device__ __forceinline__ u32 pack(float first, float second);
template <>
__device__ __forceinline__ u32 pack<bf16>(float first, float second) {
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
template <>
__device__ __forceinline__ u32 pack<f16>(float first, float second) {
  u32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
// Two values as e4m3 in the low 16 bits, saturated at ±448.
template <>
__device__ __forceinline__ u32 pack<e4m3>(float first, float second) {
  unsigned short both;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(second), "f"(first));
  return both;
}

// Two e4m3 values (the low 16 bits) as two fp16 values, exactly.
__device__ __forceinline__ u32 e4m3x2_to_f16x2(u32 codes) {
  u32 both;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(both) : "h"((unsigned short)codes));
  return both;
}
// Four e4m3 values as four fp16 values, two in each word.
__device__ __forceinline__ uint2 e4m3x4_to_f16x4(u32 codes) {
  uint2 pairs;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.rn.f16x2.e4m3x2 %0, low;\ncvt.rn.f16x2.e4m3x2 %1, "
      "high;\n}"
      : "=r"(pairs.x), "=r"(pairs.y)
      : "r"(codes));
  return pairs;
}
// Four integers, bytes with 128 for 0, as fp16, exactly: a byte below that of 0x64 is the number 1024 + byte.
__device__ __forceinline__ uint2 int8x4_to_f16x4(u32 codes) {
  const __half2 zero = __float2half2_rn(1152.f);
  const u32 low = __byte_perm(codes, 0x64646464u, 0x4140), high = __byte_perm(codes, 0x64646464u, 0x4342);
  const __half2 first = __hsub2(*(const __half2*)&low, zero), second = __hsub2(*(const __half2*)&high, zero);
  return make_uint2(*(const u32*)&first, *(const u32*)&second);
}

// 2^x. Results below the smallest normal number are 0.
__device__ __forceinline__ float ex2_ftz(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <typename T>
__device__ __forceinline__ float2 unpack(u32 both);
template <>
__device__ __forceinline__ float2 unpack<bf16>(u32 both) {
  return make_float2(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000));
}
template <>
__device__ __forceinline__ float2 unpack<f16>(u32 both) {
  return __half22float2(*reinterpret_cast<__half2*>(&both));
}

template <int N>
__device__ __forceinline__ void zero(Accumulator<N>& d) {
#pragma unroll
  for (int i = 0; i < N / 2; i++) d.at[i] = 0.f;
}

// Columns [16 · step, + 16) of an accumulator as 16-bit values: A of products from registers, or for stmatrix.
template <typename T, int N>
__device__ __forceinline__ void convert(u32 (&to)[4], const Accumulator<N>& from, int step) {
#pragma unroll
  for (int i = 0; i < 4; i++) to[i] = pack<T>(from.at[8 * step + 2 * i], from.at[8 * step + 2 * i + 1]);
}

// Writes columns [64 · part, 64 · part + 64) of an accumulator into a panel of 64 rows. All 128 threads call it.
template <typename T, int N>
__device__ __forceinline__ void put_panel(T* panel, const Accumulator<N>& from, int part) {
#pragma unroll
  for (int step = 0; step < 4; step++) {
    u32 values[4];
    convert<T>(values, from, 4 * part + step);
    stmatrix(matrix_address(panel, step), values);
  }
}
// The same columns as 16-bit values in registers. `put_panel` writes them once a panel is free.
template <typename T, int N>
__device__ __forceinline__ void convert_panel(u32 (&held)[4][4], const Accumulator<N>& from, int part) {
#pragma unroll
  for (int step = 0; step < 4; step++) convert<T>(held[step], from, 4 * part + step);
}
template <typename T>
__device__ __forceinline__ void put_panel(T* panel, const u32 (&held)[4][4]) {
#pragma unroll
  for (int step = 0; step < 4; step++) stmatrix(matrix_address(panel, step), held[step]);
}
template <typename T, int N>
__device__ __forceinline__ void add_panel(Accumulator<N>& to, const T* panel, int part) {
#pragma unroll
  for (int step = 0; step < 4; step++) {
    u32 values[4];
    ldmatrix(values, matrix_address(panel, step));
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float2 pair = unpack<T>(values[i]);
      to.at[32 * part + 8 * step + 2 * i] += pair.x;
      to.at[32 * part + 8 * step + 2 * i + 1] += pair.y;
    }
  }
}

// The first of the two accumulator rows of this thread (the second is 8 below), and its first column of each 8.
__device__ __forceinline__ int own_row() { return threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4; }
__device__ __forceinline__ int own_column() { return threadIdx.x % 4 * 2; }

// Sum and maximum over the four lanes that hold one row.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

}  // namespace tiles
