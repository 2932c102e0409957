// Fourier transforms of 16 × 16 complex values by one warp, as products on tensor cores in fp16 with sums in float.
//
// A complex value is a word: re in its low half, im in its high half. Lane 4g + c. Two forms of a product:
//   columns   the values are b: words (8κ + 4s + c, 8n + g). The results are (8m + g, 8n + 2c + e): re in d[m][n][e], im
//             in d[m][n][2 + e]. Their real and imaginary parts are then the a of a product of the other form.
//   rows      the values are a, planar. The results are (8h + g, 4t + c): re in d[t][2h], im in d[t][2h + 1]. Packed,
//             they are the b of a product of the other form.
// So two transforms, along the columns and along the rows, need no exchange between lanes.
#pragma once
#include "roots.cuh"

using tiles::f16;
using tiles::u32;

__device__ __forceinline__ u32 packed_half(float2 z) { return tiles::pack<f16>(z.x, z.y); }

// Operands that stay the same, by lane: the matrix of a transform, divided by 4 so that it is unitary, in both forms;
// the twiddles between the two transforms.
struct Constants {
  uint4 columns[4][32], rows[4][32];
  float4 twiddles[4][32];

  // Every warp of the block calls it.
  __device__ void make() {
    const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
    if (threadIdx.x >= 32) return;
    for (int i = 0; i < 4; i++) {
      u32 column[4], row[4];
      for (int j = 0; j < 2; j++) {
        const int m = i / 2, k = i % 2;  // outputs 8m + g, inputs 8k + 4j + c
        const float2 w = root((8 * m + g) * (8 * k + 4 * j + c), 16);
        column[2 * j] = tiles::pack<f16>(w.x / 4, -w.y / 4);
        column[2 * j + 1] = tiles::pack<f16>(w.y / 4, w.x / 4);
        // outputs 4i + g / 2, inputs 8j + 2c and one more
        const float2 one = root((4 * i + g / 2) * (8 * j + 2 * c), 16), two = root((4 * i + g / 2) * (8 * j + 2 * c + 1), 16);
        const bool imaginary = g % 2;
        row[j] = tiles::pack<f16>((imaginary ? one.y : one.x) / 4, (imaginary ? two.y : two.x) / 4);
        row[2 + j] = tiles::pack<f16>((imaginary ? one.x : -one.y) / 4, (imaginary ? two.x : -two.y) / 4);
      }
      columns[i][lane] = make_uint4(column[0], column[1], column[2], column[3]);
      rows[i][lane] = make_uint4(row[0], row[1], row[2], row[3]);
      const int m = i / 2, n = i % 2;
      const float2 first = root((8 * m + g) * (8 * n + 2 * c), 256), second = root((8 * m + g) * (8 * n + 2 * c + 1), 256);
      twiddles[i][lane] = make_float4(first.x, first.y, second.x, second.y);
    }
  }
};

// The operand of a transform along columns, in registers.
struct Columns {
  u32 at[2][2][4];
  __device__ __forceinline__ explicit Columns(const Constants& constants) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint4 four = constants.columns[i][threadIdx.x % 32];
      u32(&to)[4] = at[i / 2][i % 2];
      to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    }
  }
  // d = the transform of b[n][κ][s].
  __device__ __forceinline__ void transform(float (&d)[2][2][4], const u32 (&b)[2][2][2]) const {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int n = 0; n < 2; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) d[m][n][i] = 0;
#pragma unroll
        for (int k = 0; k < 2; k++) tiles::mma_sync<f16>(d[m][n], at[m][k], b[n][k][0], b[n][k][1]);
      }
  }
};

// The operand of a transform along rows, in registers, and the twiddles before it.
struct Rows {
  u32 at[4][4];
  float4 twiddles[4];
  __device__ __forceinline__ explicit Rows(const Constants& constants) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint4 four = constants.rows[i][threadIdx.x % 32];
      at[i][0] = four.x, at[i][1] = four.y, at[i][2] = four.z, at[i][3] = four.w;
      twiddles[i] = constants.twiddles[i][threadIdx.x % 32];
    }
  }
  // d = the transform of the results of a transform along columns, multiplied by the twiddles.
  __device__ __forceinline__ void transform(float (&d)[4][4], const float (&from)[2][2][4]) const {
    u32 re[4], im[4];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int n = 0; n < 2; n++) {
        const float4 w = twiddles[2 * m + n];
        const float2 first = times(make_float2(from[m][n][0], from[m][n][2]), make_float2(w.x, w.y));
        const float2 second = times(make_float2(from[m][n][1], from[m][n][3]), make_float2(w.z, w.w));
        re[2 * n + m] = tiles::pack<f16>(first.x, second.x);
        im[2 * n + m] = tiles::pack<f16>(first.y, second.y);
      }
#pragma unroll
    for (int t = 0; t < 4; t++) {
#pragma unroll
      for (int i = 0; i < 4; i++) d[t][i] = 0;
      tiles::mma_sync<f16>(d[t], re, at[t][0], at[t][1]);
      tiles::mma_sync<f16>(d[t], im, at[t][2], at[t][3]);
    }
  }
};

// Which of 16 columns is column g of product n, so that the columns 2c, 2c + 1 of both products are 4c to 4c + 3.
__device__ __forceinline__ int column_of(int n, int g) { return g / 2 * 4 + n * 2 + g % 2; }

// Where a tile in shared memory has the word of a row and a column: 32 lanes meet 32 banks, along rows and columns.
__device__ __forceinline__ int place_of(int row, int column) { return row * 16 + (column ^ (row & 2) << 2); }

// A lane's part of a tile's spectrum.
struct Spectrum {
  uint4 at[2];
  __device__ __forceinline__ explicit Spectrum(const u32* tile) {
    at[0] = ((const uint4*)tile)[threadIdx.x % 32], at[1] = ((const uint4*)tile)[32 + threadIdx.x % 32];
  }
};

// Both transforms of a tile, the product with a spectrum, and both transforms back: of the conjugate, so that the same
// matrices serve. `turned(z, h, t)` is what is kept of the value z at row 4t + c and column 8h + g.
template <typename Turned>
__device__ __forceinline__ void convolve_tile(u32* tile, const Spectrum& spectrum, const Columns& columns,
                                              const Rows& rows, const Turned& turned) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  const int half[2] = {place_of(c, g), place_of(c, 8 + g)};  // four rows on, a word lies 64 words on
  u32 b[2][2][2];
  float d[2][2][4], z[4][4];
#pragma unroll
  for (int i = 0; i < 8; i++) b[i / 4][i / 2 % 2][i % 2] = tile[half[i / 4] + 64 * (i % 4)];
  columns.transform(d, b);
  rows.transform(z, d);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const u32 four[4] = {spectrum.at[h].x, spectrum.at[h].y, spectrum.at[h].z, spectrum.at[h].w};
#pragma unroll
    for (int t = 0; t < 4; t++) {
      const float2 by = tiles::unpack<f16>(four[t]);
      const float re = z[t][2 * h], im = z[t][2 * h + 1];
      b[h][t / 2][t % 2] = tiles::pack<f16>(re * by.x - im * by.y, -re * by.y - im * by.x);
    }
  }
  columns.transform(d, b);
  rows.transform(z, d);
  __syncwarp();
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int t = 0; t < 4; t++)
      tile[half[h] + 64 * t] = packed_half(turned(make_float2(z[t][2 * h], z[t][2 * h + 1]), h, t));
}

template <int Products>
__device__ __forceinline__ void multiply_add(float (&d)[Products][4], const uint4& a, const u32 (&b)[Products][2]) {
  const u32 four[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
  for (int n = 0; n < Products; n++) tiles::mma_sync<f16>(d[n], four, b[n][0], b[n][1]);
}

constexpr int kPitch = 264;  // words of a tile; neighbouring tiles begin in different banks

// Waits for the block, then convolves Rows tiles: Part of them are the rows k of a transform over i of n = i · 256 + j, at
// the frequencies k + Quarter / 4. The twiddles exp(-2πi · j · (k + Quarter / 4) / (256 · Part)) of the transform back
// follow. `spectrum(row)` is where a tile's spectrum lies; each is fetched while the tile before is convolved.
template <int Quarter, int Rows, int Part, int Warps, typename Where>
__device__ __forceinline__ void convolve_rows(u32* data, const Constants& constants, const Where& spectrum) {
  constexpr int kSize = 256 * Part;
  static_assert(Part == Rows || Part <= Warps, "a warp's rows have one frequency, or frequencies in order");
  const Columns columns(constants);
  const ::Rows rows(constants);
  const int warp = threadIdx.x / 32;
  Spectrum present(spectrum(warp));
  int at = 16 * (threadIdx.x % 4) + threadIdx.x % 32 / 4, k = 4 * (warp % Part) + Quarter;
  keep(at), keep(k);
  // Of the place j = 16c + g, and of 64 and of 8 places on; each goes on to the warp's next row.
  float2 first = root(at * k, 4 * kSize), along = root(64 * k, 4 * kSize), across = root(8 * k, 4 * kSize);
  const float2 by[3] = {root(Warps * at, kSize), known_root<Warps * 64, kSize>(), known_root<Warps * 8, kSize>()};
  __syncthreads();
#pragma unroll 1
  for (int row = warp; row < Rows; row += Warps) {
    const Spectrum following(spectrum(min(row + Warps, Rows - 1)));
    convolve_tile(data + row * kPitch, present, columns, rows, [&](float2 z, int h, int t) {
      float2 w = h ? times(first, across) : first;
#pragma unroll
      for (int i = 0; i < t; i++) w = times(w, along);
      return times(z, w);
    });
    present = following;
    if (Part > Warps) first = times(first, by[0]), along = times(along, by[1]), across = times(across, by[2]);
  }
}
