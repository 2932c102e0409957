// One step of a warp multiplies ROW_TILES tiles of 16 weight rows × kK columns by 8 · N_TILES rows of x. Each weight
// type has a loader. `w` lies in shared memory in the order of kernels/gemm/skinny_pack.py. Lane 4g + t holds rows g
// and g + 8, and in every 32 columns the columns 8t to 8t + 7: its piece of x is one 16-byte word of a row.
#pragma once
#include "tiles.cuh"

namespace skinny {
using namespace tiles;

enum Kind { kSame, kFp8, kNvfp4, kInt4, kInt4Zero, kInt4Minimum, kInt8, kMxfp4 };
constexpr Kind kWeights = (Kind)WEIGHTS;
constexpr bool kQuantised = kWeights != kSame;

#if HALF
using Value = f16;
#else
using Value = bf16;
#endif
#if HALF || WEIGHTS
using Operand = f16;  // quantised weights become fp16, and so must x
#else
using Operand = bf16;
#endif
using Sums = float[N_TILES][4];
constexpr bool kScaleSums = kWeights == kNvfp4 && SINGLE;
constexpr int kInputs = kScaleSums ? 2 : N_TILES;  // pieces of x that a lane multiplies

__device__ __forceinline__ uint4 fragment(const char* at) { return *(const uint4*)(at + threadIdx.x % 32 * 16); }

// The scales of rows g and g + 8 behind the codes of a step, where a row has one for 32 columns.
__device__ __forceinline__ u32 scales_of_rows(const char* at) {
  return *(const u32*)(at + 512 + threadIdx.x % 32 / 4 * 4);
}

struct Inputs {  // x of 32 columns: two products' worth
  uint4 at[kInputs];
  Inputs() = default;
  __device__ __forceinline__ Inputs(const char* const (&x)[kInputs], int columns) {
#pragma unroll
    for (int i = 0; i < kInputs; i++) at[i] = *(const uint4*)(x[i] + columns * 2);
  }
  __device__ __forceinline__ void multiply(Sums& sums, const u32 (&a)[4], int half) const {
#pragma unroll
    for (int i = 0; i < N_TILES; i++)
      half ? mma_sync<Operand>(sums[i], a, at[i].z, at[i].w) : mma_sync<Operand>(sums[i], a, at[i].x, at[i].y);
  }
};

template <Kind KIND>
struct Step;

// bf16 or fp16, as x is.
template <>
struct Step<kSame> {
  static constexpr int kK = 32, kBytes = 1024;
  static __device__ __forceinline__ void run(Sums (&sums)[ROW_TILES], const char* w, const char* const (&x)[kInputs]) {
    const Inputs in(x, 0);
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const uint4 f = fragment(w + tile * kBytes + half * 512);
        const u32 a[4] = {f.x, f.y, f.z, f.w};
        in.multiply(sums[tile], a, half);
      }
  }
};

// e4m3: a word holds a pair of row g and the same columns of row g + 8.
template <>
struct Step<kFp8> {
  static constexpr int kK = 32, kBytes = 512;
  static __device__ __forceinline__ void run(Sums (&sums)[ROW_TILES], const char* w, const char* const (&x)[kInputs]) {
    const Inputs in(x, 0);
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++) {
      const uint4 f = fragment(w + tile * kBytes);
      const u32 first[4] = {e4m3x2_to_f16x2(f.x), e4m3x2_to_f16x2(f.x >> 16), e4m3x2_to_f16x2(f.y),
                            e4m3x2_to_f16x2(f.y >> 16)};
      const u32 second[4] = {e4m3x2_to_f16x2(f.z), e4m3x2_to_f16x2(f.z >> 16), e4m3x2_to_f16x2(f.w),
                             e4m3x2_to_f16x2(f.w >> 16)};
      in.multiply(sums[tile], first, 0);
      in.multiply(sums[tile], second, 1);
    }
  }
};

// int8 with an fp16 scale per 32 columns, in the order of e4m3.
template <>
struct Step<kInt8> {
  static constexpr int kK = 32, kBytes = 512 + 32;
  static __device__ __forceinline__ void multiply(Sums& sums, const uint4& f, u32 scales, const Inputs (&in)[1]) {
    const float2 scale = unpack<f16>(scales);
    const u32 words[4] = {f.x, f.y, f.z, f.w};
    Sums group = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const uint2 left = int8x4_to_f16x4(words[half * 2]), right = int8x4_to_f16x4(words[half * 2 + 1]);
      const u32 a[4] = {left.x, left.y, right.x, right.y};
      in[0].multiply(group, a, half);
    }
#pragma unroll
    for (int i = 0; i < N_TILES * 4; i++) sums[i / 4][i % 4] += (i % 4 < 2 ? scale.x : scale.y) * group[i / 4][i % 4];
  }
  static __device__ __forceinline__ void run(Sums (&sums)[ROW_TILES], const char* w, const char* const (&x)[kInputs]) {
    const Inputs in[1] = {{x, 0}};
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++)
      multiply(sums[tile], fragment(w + tile * kBytes), scales_of_rows(w + tile * kBytes), in);
  }
};

// Eight e2m1 codes as four pairs of fp16. The three bits of a magnitude at bits 9 to 11 of an fp16 are its value ·
// 2^-14, subnormals included. skinny_pack.pairs_of mixes the bits of a word so that one LOP3 makes a pair. The compiler
// turns left shifts into multiplications, which do not wait for the logic unit.
__device__ __forceinline__ void eight_e2m1(u32 (&a)[4], u32 word) {
  constexpr u32 kBits = 0x8e008e00;
  const u32 mixed = __funnelshift_l(word, word, 3);
  a[0] = mixed << 9 & kBits;
  a[1] = mixed << 6 & kBits;
  a[2] = (word ^ mixed) & kBits;
  a[3] = (word ^ word << 5) & kBits;
}

// e2m1 with an e4m3 scale per 16 columns. A value times its scale is exact in fp16. The row's scale contains 2^14.
template <>
struct Step<kNvfp4> {
  static constexpr int kK = 64, kBytes = 512 + 64;
  static __device__ __forceinline__ u32 times(u32 a, __half2 scale) {
    const __half2 product = __hmul2(*(__half2*)&a, scale);
    return *(const u32*)&product;
  }
  static __device__ __forceinline__ void run(Sums (&sums)[ROW_TILES], const char* w, const char* const (&x)[kInputs]) {
    const Inputs in[2] = {{x, 0}, {x, 32}};
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++) {
      const uint4 f = fragment(w + tile * kBytes);
      const u32 words[4] = {f.x, f.y, f.z, f.w};
      const u32 scales = *(const u32*)(w + tile * kBytes + 512 + threadIdx.x % 32 / 2 * 4);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const u32 pair = e4m3x2_to_f16x2(i < 2 ? scales : scales >> 16);
        const __half2 low = __low2half2(*(const __half2*)&pair), high = __high2half2(*(const __half2*)&pair);
        u32 a[4];
        eight_e2m1(a, words[i]);
        const u32 scaled[4] = {times(a[0], low), times(a[1], high), times(a[2], low), times(a[3], high)};
        in[i / 2].multiply(sums[tile], scaled, i % 2);
      }
    }
  }
};

// e2m1 with the exponent of a power of two per 32 columns. The scale contains 2^14, by which codes are too small.
template <>
struct Step<kMxfp4> {
  static constexpr int kK = 64, kBytes = 512 + 32;
  static __device__ __forceinline__ float scale_of(u32 exponents, int at) {
    return __uint_as_float(((exponents >> 8 * at & 255) + 14) << 23);
  }
  static __device__ __forceinline__ void multiply(Sums& sums, const uint4& f, u32 exponents, const Inputs (&in)[2]) {
    const u32 words[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
    for (int half = 0; half < 2; half++) {
      Sums group = {};
#pragma unroll
      for (int i = 0; i < 2; i++) {
        u32 a[4];
        eight_e2m1(a, words[2 * half + i]);
        in[half].multiply(group, a, i);
      }
      const float low = scale_of(exponents, 2 * half), high = scale_of(exponents, 2 * half + 1);
#pragma unroll
      for (int i = 0; i < N_TILES * 4; i++) sums[i / 4][i % 4] += (i % 4 < 2 ? low : high) * group[i / 4][i % 4];
    }
  }
  static __device__ __forceinline__ void run(Sums (&sums)[ROW_TILES], const char* w, const char* const (&x)[kInputs]) {
    const Inputs in[2] = {{x, 0}, {x, 32}};
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++)
      multiply(sums[tile], fragment(w + tile * kBytes), scales_of_rows(w + tile * kBytes), in);
  }
};

// The same for a single row of x and two steps at once; the second step begins `step_bytes` bytes after the first. The
// eight columns of a product keep the eight blocks of 16 separate: column 4s + 2b + h has an input only in the lanes
// that hold block b of half h of step s (has_input). So scales multiply sums instead of weights: 4 FFMA and 4
// selections replace 32 HMUL2.
struct ScaledSums {
  static __device__ __forceinline__ bool has_input(int half) {
    return threadIdx.x % 32 / 4 % 4 == threadIdx.x % 4 / 2 * 2 + half;
  }
  template <int STEPS>
  static __device__ __forceinline__ void run(Sums (&sums)[ROW_TILES], const char* w, int step_bytes,
                                             const char* const (&x)[kInputs]) {
    const int lane = threadIdx.x % 32;
    const bool second = STEPS == 2 && lane % 4 >= 2, mine = STEPS == 2 || lane < 16;
    uint4 in[2];
#pragma unroll
    for (int half = 0; half < 2; half++) in[half] = mine ? *(const uint4*)x[half] : make_uint4(0, 0, 0, 0);
    float product[STEPS][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
      const uint4 f = fragment(w + step * step_bytes);
      const u32 words[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
      for (int i = 0; i < 4; i++) {
        u32 a[4];
        eight_e2m1(a, words[i]);
        i % 2 ? mma_sync<Operand>(product[step], a, in[i / 2].z, in[i / 2].w)
              : mma_sync<Operand>(product[step], a, in[i / 2].x, in[i / 2].y);
      }
    }
    const u32 scales = *(const u32*)(w + (second ? step_bytes : 0) + 512 + lane / 4 * 8 + lane % 2 * 4);
    const float2 first = unpack<f16>(e4m3x2_to_f16x2(scales)), last = unpack<f16>(e4m3x2_to_f16x2(scales >> 16));
    const float by[4] = {first.x, last.x, first.y, last.y};
#pragma unroll
    for (int j = 0; j < 4; j++) sums[0][0][j] += (second ? product[STEPS - 1][j] : product[0][j]) * by[j];
  }
};

// 4-bit integers with an fp16 scale per 32 columns; with a zero point beside it, per 64; or with a minimum beside it. An
// integer q in the lowest bits of the fp16 number 1024 makes 1024 + q; four bits higher it makes 1024 + 16 q. Of minimums
// q - 8 is multiplied, and the sum of 32 inputs by what is left, the minimum and 8 scales.
template <Kind KIND>
struct Int4Step {
  static constexpr bool kZero = KIND == kInt4Zero, kMinimum = KIND == kInt4Minimum;
  static constexpr int kGroup = kZero ? 64 : 32, kK = 64;
  static constexpr int kScaleBytes = kZero || kMinimum ? 8 : 4;  // of rows g and g + 8
  static constexpr int kBytes = 512 + kK / kGroup * 8 * kScaleBytes;
  static __device__ __forceinline__ u32 join(u32 q, u32 mask) {
    u32 both;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(both) : "r"(q), "r"(mask), "r"(0x64006400u));
    return both;
  }
  static __device__ __forceinline__ u32 low(u32 q, __half2 minus) {
    const u32 raw = join(q, 0x000f000fu);
    const __half2 value = __hadd2(*(const __half2*)&raw, minus);
    return *(const u32*)&value;
  }
  static __device__ __forceinline__ u32 high(u32 q, __half2 minus) {
    const u32 raw = join(q, 0x00f000f0u);
    const __half2 value = __hfma2(*(const __half2*)&raw, __float2half2_rn(0.0625f), minus);
    return *(const u32*)&value;
  }
  static __device__ __forceinline__ void run(Sums (&sums)[ROW_TILES], const char* w, const char* const (&x)[kInputs]) {
    const Inputs in[2] = {{x, 0}, {x, 32}};
    Sums totals[2] = {};  // of 32 inputs
    if constexpr (kMinimum) {
      constexpr u32 kOnes[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
#pragma unroll
      for (int i = 0; i < 4; i++) in[i / 2].multiply(totals[i / 2], kOnes, i % 2);
    }
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++) {
      const uint4 f = fragment(w + tile * kBytes);
      const u32 words[4] = {f.x, f.y, f.z, f.w};
      const char* scales = w + tile * kBytes + 512 + threadIdx.x % 32 / 4 * kScaleBytes;
      __half2 below = __float2half2_rn(-1032.f), above = __float2half2_rn(-72.f);  // subtracted from rows g and g + 8
      if constexpr (kZero) {
        const __half2 both = *(const __half2*)(scales + 4);
        below = __low2half2(both);
        above = __high2half2(both);
      }
#pragma unroll
      for (int first = 0; first < kK; first += kGroup) {
        Sums group = {};
#pragma unroll
        for (int i = first / 16; i < (first + kGroup) / 16; i++) {
          const u32 q = words[i], next = q >> 8;
          const u32 a[4] = {low(q, below), high(q, above), low(next, below), high(next, above)};
          in[i / 2].multiply(group, a, i % 2);
        }
        const char* at = scales + first / kGroup * 8 * kScaleBytes;
        const float2 scale = unpack<f16>(*(const u32*)at);
#pragma unroll
        for (int i = 0; i < N_TILES * 4; i++) {
          sums[tile][i / 4][i % 4] += (i % 4 < 2 ? scale.x : scale.y) * group[i / 4][i % 4];
          if constexpr (kMinimum) {
            const float2 least = unpack<f16>(*(const u32*)(at + 4));
            const float left = i % 4 < 2 ? fmaf(8.f, scale.x, least.x) : fmaf(8.f, scale.y, least.y);
            sums[tile][i / 4][i % 4] += left * totals[first / 32][i / 4][i % 4];
          }
        }
      }
    }
  }
};
template <>
struct Step<kInt4> : Int4Step<kInt4> {};
template <>
struct Step<kInt4Zero> : Int4Step<kInt4Zero> {};
template <>
struct Step<kInt4Minimum> : Int4Step<kInt4Minimum> {};

}  // namespace skinny
