// What comes before and after fft_rows.cu where a sequence is too long for one block: n = i · POINTS + j, and transforms
// over i = i0 · 16 + i1 of strips of columns j. OUTER = RADIX · 16 rows of POINTS complex values lie in the workspace.
#include "strips.cuh"

constexpr int kRadix = RADIX, kPoints = POINTS, kStrips = POINTS / kStrip;
constexpr int kWarps = THREADS / 32, kFours = 16 * kStrip / 4, kRounds = kFours / THREADS;
constexpr int kTiles = kRadix * kStrip / 16;
constexpr int kStripPitch = kStrip + 8;  // words; the rows of four neighbouring i1 begin in different banks
static_assert(OUTER == 16 * RADIX && kFours % THREADS == 0 && kWarps % kRadix == 0, "whole rounds");

struct Shared {
  u32 largest[kWarps];
  alignas(16) u32 data[kRadix * 16 * kStripPitch];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the size that Python asks for");

// The operand of a transform of 16 rows of words, in registers, divided by 4 so that it is unitary.
struct Matrix {
  u32 at[2][2][4];
  __device__ __forceinline__ Matrix() {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const int m = i / 4, k = i / 2 % 2, s = i % 2;
      const float2 w = root((8 * m + g) * (8 * k + 4 * s + c), 16);
      at[m][k][2 * s] = tiles::pack<f16>(w.x / 4, -w.y / 4), at[m][k][2 * s + 1] = tiles::pack<f16>(w.y / 4, w.x / 4);
    }
  }
  // d = the transform of b[n][κ][s], words (8κ + 4s + c, 8n + g): re of (8m + g, 8n + 2c + e) in d[m][n][e], im behind.
  __device__ __forceinline__ void transform(float (&d)[2][2][4], const u32 (&b)[2][2][2]) const {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int m = i / 2, n = i % 2;
      d[m][n][0] = d[m][n][1] = d[m][n][2] = d[m][n][3] = 0;
      add_product(d[m][n], at[m][0], b[n][0][0], b[n][0][1]);
      add_product(d[m][n], at[m][1], b[n][1][0], b[n][1][1]);
    }
  }
};

// Four neighbours in the row i1 of each of the kRadix parts.
struct Place {
  int i1, j;
  __device__ __forceinline__ explicit Place(int four) : i1(four / (kStrip / 4)), j(four % (kStrip / 4) * 4) {}
  __device__ __forceinline__ u32* words(Shared& shared, int part) const {
    return &shared.data[(part * 16 + i1) * kStripPitch + j];
  }
  // exp(-2πi · i1 · (k + QUARTER / 4) / OUTER) for the frequencies k < kRadix.
  __device__ __forceinline__ void twiddles(float2 (&w)[kRadix], float scale) const {
#pragma unroll
    for (int k = 0; k < kRadix; k++) {
      w[k] = root(i1 * (4 * k + QUARTER), 4 * OUTER);
      w[k].x *= scale, w[k].y *= scale;
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, 2) fft_outer_forward(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *(Shared*)memory;
  const int local = blockIdx.x / kStrips, strip = blockIdx.x % kStrips;
  const long row = row_of(p.begin + local, p);
  float x[kRounds][kRadix][4];
  float largest = 0;
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const Place at(threadIdx.x + round * THREADS);
#pragma unroll
    for (int i = 0; i < kRadix; i++) {
      const int n = (i * 16 + at.i1) * kPoints + strip * kStrip + at.j;
      load_input(x[round][i], row + n, n, p);
      largest = larger_of(largest, x[round][i]);
    }
  }
  const u32 bits = largest_of_warp(largest);
  if (threadIdx.x % 32 == 0) shared.largest[threadIdx.x / 32] = bits;
  __syncthreads();
  const int exponent = exponent_of<kStripBound>(largest_of(shared.largest));
  if (threadIdx.x == 0) p.exponents[blockIdx.x] = exponent;
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const Place at(threadIdx.x + round * THREADS);
    float2 w[kRadix];
    u32 packed[kRadix][4];
    at.twiddles(w, scale_of<kStripBound>(exponent) * unitary(kRadix));
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float part[kRadix];
      float2 z[kRadix];
#pragma unroll
      for (int i = 0; i < kRadix; i++) part[i] = x[round][i][e];
      Radix<kRadix, QUARTER>::forward(part, z);
#pragma unroll
      for (int k = 0; k < kRadix; k++) packed[k][e] = packed_half(times(z[k], w[k]));
    }
#pragma unroll
    for (int k = 0; k < kRadix; k++)
      *(uint4*)at.words(shared, k) = make_uint4(packed[k][0], packed[k][1], packed[k][2], packed[k][3]);
  }
  __syncthreads();
  const Matrix matrix;
  const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4, same = threadIdx.x / 32 % kRadix;  // part of each tile
  const float2 onward[2] = {outer_twiddle<kPoints>(same + kRadix * g, 1), outer_twiddle<kPoints>(same + kRadix * (8 + g), 1)};
  for (int tile = threadIdx.x / 32; tile < kTiles; tile += kWarps) {
    const int part = tile % kRadix, first = tile / kRadix * 16;
    u32 b[2][2][2];
    float d[2][2][4];
#pragma unroll
    for (int i = 0; i < 8; i++)
      b[i / 4][i / 2 % 2][i % 2] = shared.data[(part * 16 + 4 * (i % 4) + c) * kStripPitch + first + column_of(i / 4, g)];
    matrix.transform(d, b);
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const int k = part + kRadix * (8 * m + g), j = strip * kStrip + first + 4 * c;
      u32 four[4];
      float2 w = outer_twiddle<kPoints>(k, j);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        four[i] = packed_half(times(make_float2(d[m][i / 2][i % 2], d[m][i / 2][2 + i % 2]), w));
        w = times(w, onward[m]);
      }
      *(uint4*)(p.workspace + ((long)local * OUTER + k) * kPoints + j) = make_uint4(four[0], four[1], four[2], four[3]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) fft_outer_backward(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *(Shared*)memory;
  const int local = blockIdx.x / kStrips, strip = blockIdx.x % kStrips;
  const Factors by(p.begin + local, p);
  const long row = row_of(p.begin + local, p);
  {
    const Matrix matrix;
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
    for (int tile = threadIdx.x / 32; tile < kTiles; tile += kWarps) {
      const int part = tile % kRadix, first = tile / kRadix * 16;
      u32 b[2][2][2];
      float d[2][2][4];
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int k = part + kRadix * (4 * (i % 4) + c), j = strip * kStrip + first + column_of(i / 4, g);
        b[i / 4][i / 2 % 2][i % 2] = p.workspace[((long)local * OUTER + k) * kPoints + j];
      }
      matrix.transform(d, b);
#pragma unroll
      for (int m = 0; m < 2; m++) {
        u32 four[4];
#pragma unroll
        for (int i = 0; i < 4; i++) four[i] = packed_half(make_float2(d[m][i / 2][i % 2], d[m][i / 2][2 + i % 2]));
        *(uint4*)&shared.data[(part * 16 + 8 * m + g) * kStripPitch + first + 4 * c] =
            make_uint4(four[0], four[1], four[2], four[3]);
      }
    }
  }
  const int exponent = largest_exponent<kPoints>(p.exponents + (long)local * kStrips);
  __syncthreads();
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const Place at(threadIdx.x + round * THREADS);
    float2 w[kRadix];
    u32 packed[kRadix][4];
    float y[kRadix][4];
    at.twiddles(w, inverse_scale_of<kStripBound - kMore<kPoints>>(exponent) * unitary(kRadix));
#pragma unroll
    for (int k = 0; k < kRadix; k++) {
      const uint4 four = *(const uint4*)at.words(shared, k);
      packed[k][0] = four.x, packed[k][1] = four.y, packed[k][2] = four.z, packed[k][3] = four.w;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float2 z[kRadix];
      float part[kRadix];
#pragma unroll
      for (int k = 0; k < kRadix; k++) z[k] = times(tiles::unpack<f16>(packed[k][e]), w[k]);
      Radix<kRadix, QUARTER>::backward(z, part);
#pragma unroll
      for (int i = 0; i < kRadix; i++) y[i][e] = part[i];
    }
#pragma unroll
    for (int i = 0; i < kRadix; i++) {
      const int n = (i * 16 + at.i1) * kPoints + strip * kStrip + at.j;
      Beside beside;
      beside.load(row + n, n, p);
      store_output(y[i], beside, by, row + n, n, p);
    }
  }
}
