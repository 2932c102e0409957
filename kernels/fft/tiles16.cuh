// Fourier transforms of 16 × 16 complex values by one warp, as products on tensor cores in fp16.
//
// Two complex values are a pair of words, the re of both and the im of both. Lane 4g + c. Two forms of a product:
//   columns   the values are b, in pairs (8s + 4e + c, 8n + g) over e. The results are pairs (8m + g, 8n + 2c + e), which
//             are the a of a product of the other form.
//   rows      the values are a. The results are pairs (8h + g, 8s + 4e + c), which are the b of a product of the other
//             form.
// So two transforms, along the columns and along the rows, need no exchange between lanes. Sums are in fp16 where a pair
// is multiplied next. The last of a tile's four products sums in float, and leaves words: re in the low half, im in the
// high one.
#pragma once
#include "roots.cuh"

using tiles::f16;
using tiles::u32;

__device__ __forceinline__ u32 packed_half(float2 z) { return tiles::pack<f16>(z.x, z.y); }

__device__ __forceinline__ void add_product(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  tiles::mma_sync<f16>(d, a, b0, b1);
}
// The same with sums in fp16: d[0] is columns 2c and 2c + 1 of row g, d[1] those of row g + 8.
__device__ __forceinline__ void add_product(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two complex values in fp16.
struct Pair {
  u32 re, im;
};
__device__ __forceinline__ Pair packed_pair(float2 first, float2 second) {
  return {tiles::pack<f16>(first.x, second.x), tiles::pack<f16>(first.y, second.y)};
}
__device__ __forceinline__ __half2 as_half2(u32 both) { return *(const __half2*)&both; }
__device__ __forceinline__ u32 as_word(__half2 both) { return *(const u32*)&both; }
// a · b, or its conjugate.
template <bool Conjugate = false>
__device__ __forceinline__ Pair times(Pair a, Pair b) {
  const __half2 re = as_half2(a.re), im = as_half2(a.im), by = as_half2(b.re), turned = as_half2(b.im);
  const __half2 cross = __hmul2(im, by);
  return {as_word(__hfma2(re, by, __hneg2(__hmul2(im, turned)))),
          as_word(Conjugate ? __hfma2(__hneg2(re), turned, __hneg2(cross)) : __hfma2(re, turned, cross))};
}

// Operands that stay the same, by lane: the matrix of a transform, divided by 4 so that it is unitary, in both forms; the
// twiddles between the two transforms.
struct Constants {
  uint4 columns[2][2][32], rows[2][32], twiddles[2][32];

  // Every warp of the block calls it.
  __device__ void make() {
    const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
    if (threadIdx.x >= 32) return;
    const auto entries = [](int k, int i, int next) {
      const float2 one = root(k * i, 16), two = root(k * next, 16);
      return packed_pair(make_float2(one.x / 4, one.y / 4), make_float2(two.x / 4, two.y / 4));
    };
    for (int i = 0; i < 2; i++) {
      Pair column[2], row[2], twiddle[2];
      for (int s = 0; s < 2; s++) {
        const int k = 8 * i + g, j = 8 * s + 2 * c;
        column[s] = entries(k, 8 * s + c, 8 * s + 4 + c);
        row[s] = entries(8 * i + g % 2 * 4 + g / 2, j, j + 1);
        twiddle[s] = packed_pair(root(k * j, 256), root(k * (j + 1), 256));
      }
      columns[0][i][lane] = make_uint4(column[0].re, column[0].im, column[1].re, column[1].im);
      columns[1][i][lane] = make_uint4(column[0].im ^ kNegative, column[0].re, column[1].im ^ kNegative, column[1].re);
      rows[i][lane] = make_uint4(row[0].re, row[1].re, row[0].im, row[1].im);
      twiddles[i][lane] = make_uint4(twiddle[0].re, twiddle[0].im, twiddle[1].re, twiddle[1].im);
    }
  }
  static constexpr u32 kNegative = 0x80008000;
};

// The operand of a transform along columns, in registers.
struct Columns {
  u32 re[2][4], im[2][4];  // what multiplies the re and the im of the values
  __device__ __forceinline__ explicit Columns(const Constants& constants) {
#pragma unroll
    for (int m = 0; m < 2; m++) {
      const uint4 one = constants.columns[0][m][threadIdx.x % 32], two = constants.columns[1][m][threadIdx.x % 32];
      re[m][0] = one.x, re[m][1] = one.y, re[m][2] = one.z, re[m][3] = one.w;
      im[m][0] = two.x, im[m][1] = two.y, im[m][2] = two.z, im[m][3] = two.w;
    }
  }
  // d[m][n] = the transform of b[n][s].
  __device__ __forceinline__ void transform(u32 (&d)[2][2][2], const Pair (&b)[2][2]) const {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
      for (int n = 0; n < 2; n++) {
        d[m][n][0] = d[m][n][1] = 0;
        add_product(d[m][n], re[m], b[n][0].re, b[n][1].re);
        add_product(d[m][n], im[m], b[n][0].im, b[n][1].im);
      }
  }
};

// The operand of a transform along rows, in registers, and the twiddles before it.
struct Rows {
  u32 re[2][2], im[2][2], negative[2][2];
  Pair twiddles[2][2];
  __device__ __forceinline__ explicit Rows(const Constants& constants) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint4 four = constants.rows[i][threadIdx.x % 32], by = constants.twiddles[i][threadIdx.x % 32];
      re[i][0] = four.x, re[i][1] = four.y, im[i][0] = four.z, im[i][1] = four.w;
      negative[i][0] = four.z ^ constants.kNegative, negative[i][1] = four.w ^ constants.kNegative;
      twiddles[i][0] = {by.x, by.y}, twiddles[i][1] = {by.z, by.w};
    }
  }
  // x and y, by s, are re and im of the transform of the results of a transform along columns and the twiddles.
  template <typename Sum, int N>
  __device__ __forceinline__ void transform(Sum (&x)[2][N], Sum (&y)[2][N], const u32 (&from)[2][2][2]) const {
    u32 real[4], imaginary[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const Pair z = times(Pair{from[i % 2][i / 2][0], from[i % 2][i / 2][1]}, twiddles[i % 2][i / 2]);
      real[i] = z.re, imaginary[i] = z.im;
    }
#pragma unroll
    for (int s = 0; s < 2; s++) {
#pragma unroll
      for (int i = 0; i < N; i++) x[s][i] = y[s][i] = 0;
      add_product(x[s], real, re[s][0], re[s][1]);
      add_product(y[s], real, im[s][0], im[s][1]);
      add_product(x[s], imaginary, negative[s][0], negative[s][1]);
      add_product(y[s], imaginary, re[s][0], re[s][1]);
    }
  }
};

// Which of 16 columns is column g of product n, so that the columns 2c, 2c + 1 of both products are 4c to 4c + 3.
__device__ __forceinline__ int column_of(int n, int g) { return g / 2 * 4 + n * 2 + g % 2; }

// Where a tile in shared memory has the word of a row and a column, after its transforms; and before them the re (part 0)
// or im of the pair over e of the rows 8s + 4e + c, where `pair` is 4s + c. 32 lanes meet 32 banks, along rows and columns.
__device__ __forceinline__ int place_of(int row, int column) { return row * 16 + (column ^ (row & 2) << 2); }
__device__ __forceinline__ int place_of_pair(int pair, int part, int column) {
  return pair * 32 + (part * 16 + column ^ pair % 4 * 8);
}

constexpr int kPitch = 272;  // words of a tile; neighbouring tiles begin in different banks

// A warp's part of a transform over i: column g of product n is column(g, n) of the tiles, and the results at the columns
// 2c + e are pairs over e.
template <int Products>
struct Strip {
  static constexpr int kAcross = 16 / (4 * Products);  // strips in a row
  int pair, from;                                      // of the pairs of rows, and the first column
  __device__ __forceinline__ explicit Strip(int number) : pair(number / kAcross), from(number % kAcross * 4 * Products) {}
  // Where column g of the first product lies in a row of 256; those of the others follow.
  __device__ __forceinline__ int column(int g) const {
    return (pair / 4 * 8 + g % 2 * 4 + pair % 4) * 16 + from + g / 2 * Products;
  }
  // Stores the pairs of all products in the tile.
  __device__ __forceinline__ void store(u32* tile, const Pair (&pairs)[Products]) const {
    const int c = threadIdx.x % 4, column = from + c * Products;
    u32 *re = tile + place_of_pair(pair, 0, column), *im = tile + place_of_pair(pair, 1, column);
    if constexpr (Products == 4) {
      *(uint4*)re = make_uint4(pairs[0].re, pairs[1].re, pairs[2].re, pairs[3].re);
      *(uint4*)im = make_uint4(pairs[0].im, pairs[1].im, pairs[2].im, pairs[3].im);
    } else {
      *(uint2*)re = make_uint2(pairs[0].re, pairs[1].re);
      *(uint2*)im = make_uint2(pairs[0].im, pairs[1].im);
    }
  }
};

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
  Pair b[2][2];
  u32 d[2][2][2], re[2][2], im[2][2];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const u32* pair = tile + i % 2 * 128;
    b[i / 2][i % 2] = {pair[place_of_pair(c, 0, i / 2 * 8 + g)], pair[place_of_pair(c, 1, i / 2 * 8 + g)]};
  }
  columns.transform(d, b);
  rows.transform(re, im, d);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const uint4 by = spectrum.at[h];
    b[h][0] = times<true>({re[0][h], im[0][h]}, {by.x, by.y});
    b[h][1] = times<true>({re[1][h], im[1][h]}, {by.z, by.w});
  }
  columns.transform(d, b);
  float x[2][4], y[2][4];
  rows.transform(x, y, d);
  __syncwarp();
#pragma unroll
  for (int h = 0; h < 2; h++) {
    u32* half = tile + place_of(c, 8 * h + g);  // four rows on, a word lies 64 words on
#pragma unroll
    for (int t = 0; t < 4; t++) {
      const int at = 2 * h + t % 2;
      half[64 * t] = packed_half(turned(make_float2(x[t / 2][at], y[t / 2][at]), h, t));
    }
  }
}

template <int Products>
__device__ __forceinline__ void multiply_add(float (&d)[Products][4], const uint4& a, const u32 (&b)[Products][2]) {
  const u32 four[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
  for (int n = 0; n < Products; n++) tiles::mma_sync<f16>(d[n], four, b[n][0], b[n][1]);
}

// Waits for the block, then convolves Rows tiles: Part of them are the rows k of a transform over i of n = i · 256 + j, at
// the frequencies k + Quarter / 4. The twiddles exp(-2πi · j · (k + Quarter / 4) / (256 · Part)) of the transform back
// follow. `spectrum(row)` is where a tile's spectrum lies; each is fetched while the tile before is convolved.
template <int Quarter, int Rows, int Part, int Warps, int Unroll, typename Where>
__device__ __forceinline__ void convolve_rows(u32* data, const Constants& constants, const Where& spectrum) {
  constexpr int kSize = 256 * Part;
  static_assert(Rows % Warps == 0 && (Part == Rows || Part <= Warps), "a warp's rows have frequencies in order, or one");
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
#pragma unroll Unroll
  for (int round = 0; round < Rows / Warps; round++) {
    const int row = warp + round * Warps;
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
