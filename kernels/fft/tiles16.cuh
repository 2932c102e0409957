// Fourier transforms of 16 × 16 complex values by one warp, as products on tensor cores in fp16.
//
// Two complex values are a pair of words, the re of both and the im of both. Lane 4g + c. Two forms of a product:
//   columns   the values are b, in pairs (8s + 4e + c, 8n + g) over e. The results are pairs (8m + g, 8n + 2c + e), which
//             are the a of a product of the other form.
//   rows      the values are a. The results are pairs (8h + g, 8s + 4e + c), which are the b of a product of the other
//             form.
// So two transforms, along the columns and along the rows, need no exchange between lanes. Sums are in fp16. What
// a tile leaves is words: re in the low half, im in the high one.
#pragma once
#include "pairs.cuh"

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
  // x[s][h] and y[s][h] are re and im of the transform of the results of a transform along columns and the twiddles.
  __device__ __forceinline__ void transform(u32 (&x)[2][2], u32 (&y)[2][2], const u32 (&from)[2][2][2]) const {
    u32 real[4], imaginary[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const Pair z = times(Pair{from[i % 2][i / 2][0], from[i % 2][i / 2][1]}, twiddles[i % 2][i / 2]);
      real[i] = z.re, imaginary[i] = z.im;
    }
#pragma unroll
    for (int s = 0; s < 2; s++) {
#pragma unroll
      for (int h = 0; h < 2; h++) x[s][h] = y[s][h] = 0;
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

// exp(-2πi · j · (k + Quarter / 4) / (256 · Part)) between Part tiles k and their places j = 16 a + b, as the product of
// what belongs to the row a and to the column b.
template <int Part, int Quarter>
struct Twiddles {
  alignas(16) u32 columns[Part][16];
  uint2 rows[8][Part + 1];  // of pairs of rows

  // Every thread of the block calls it.
  __device__ void make() {
    for (int i = threadIdx.x; i < 16 * Part; i += blockDim.x) columns[i / 16][i % 16] = packed_half(at(i % 16, i / 16));
    for (int i = threadIdx.x; i < 8 * Part; i += blockDim.x) {
      const int pair = i / Part, k = i % Part, a = pair / 4 * 8 + pair % 4;
      const Pair both = packed_pair(at(16 * a, k), at(16 * (a + 4), k));
      rows[pair][k] = make_uint2(both.re, both.im);
    }
  }
  __device__ static float2 at(int j, int k) { return root(j * (4 * k + Quarter), 1024 * Part); }
  __device__ __forceinline__ Pair of_pair(int pair, int k) const { return {rows[pair][k].x, rows[pair][k].y}; }
};

// A warp's part of a transform over i: column g of product n is column(g, n), results at 2c + e are pairs over e.
template <int Products>
struct Strip {
  struct alignas(4 * Products) Words {
    u32 at[Products];
  };
  static constexpr int kAcross = 16 / (4 * Products);  // strips in a row
  int pair, from;                                      // of the pairs of rows, and the first column
  __device__ __forceinline__ explicit Strip(int number) : pair(number / kAcross), from(number % kAcross * 4 * Products) {}
  // Where column g of the first product lies in a row of 256; those of the others follow.
  __device__ __forceinline__ int column(int g) const {
    return (pair / 4 * 8 + g % 2 * 4 + pair % 4) * 16 + from + g / 2 * Products;
  }
  // Stores the results z of all products in the tile of the frequency k, with its twiddles.
  template <typename Twiddles>
  __device__ __forceinline__ void store(u32* tile, const Twiddles& twiddles, int k, const Pair (&z)[Products]) const {
    const int column = from + threadIdx.x % 4 * Products;
    const Pair row = twiddles.of_pair(pair, k);
    const Words by = *(const Words*)&twiddles.columns[k][column];
    Words re, im;
#pragma unroll
    for (int n = 0; n < Products; n++) {
      const Pair turned = times(times(z[n], row), by.at[n]);
      re.at[n] = turned.re, im.at[n] = turned.im;
    }
    *(Words*)(tile + place_of_pair(pair, 0, column)) = re, *(Words*)(tile + place_of_pair(pair, 1, column)) = im;
  }
};

// A lane's part of a tile's spectrum.
struct Spectrum {
  uint4 at[2];
  Spectrum() = default;
  __device__ __forceinline__ explicit Spectrum(const u32* tile) {
    at[0] = ((const uint4*)tile)[threadIdx.x % 32], at[1] = ((const uint4*)tile)[32 + threadIdx.x % 32];
  }
};

// What a lane reads and writes of a tile k: the pairs of its columns by n and re or im, the words by h, and the twiddles.
struct Lane {
  u32 *pairs[2][2], *words[2];
  const uint2* rows;
  const u32* columns;
  template <typename Twiddles>
  __device__ __forceinline__ Lane(u32* tile, const Twiddles& twiddles, int k) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; i++) pairs[i / 2][i % 2] = tile + place_of_pair(c, i % 2, i / 2 * 8 + g);
    words[0] = tile + place_of(c, g), words[1] = tile + place_of(c, 8 + g);
    rows = &twiddles.rows[c][k], columns = &twiddles.columns[k][g];
  }
  __device__ __forceinline__ void advance(int tiles, int frequencies) {
#pragma unroll
    for (int i = 0; i < 4; i++) pairs[i / 2][i % 2] += tiles * kPitch;
    words[0] += tiles * kPitch, words[1] += tiles * kPitch, rows += frequencies, columns += 16 * frequencies;
  }
};

// Both transforms of every Apart-th tile of as many as there are spectra, the products with these, both transforms back, of
// the conjugate, so that the same matrices serve, and the twiddles, at every Frequencies-th frequency.
template <int Apart, int Frequencies, typename Twiddles, int Tiles>
__device__ __forceinline__ void convolve_tiles(const Lane& lane, const Spectrum (&spectra)[Tiles], const Columns& columns,
                                               const Rows& rows) {
  Pair b[Tiles][2][2];
  u32 d[Tiles][2][2][2], re[Tiles][2][2], im[Tiles][2][2];
#pragma unroll
  for (int i = 0; i < 4 * Tiles; i++) {
    const int n = i / 2 % 2, at = i / 4 * Apart * kPitch + i % 2 * 128;
    b[i / 4][n][i % 2] = {lane.pairs[n][0][at], lane.pairs[n][1][at]};
  }
#pragma unroll
  for (int i = 0; i < Tiles; i++) columns.transform(d[i], b[i]);
#pragma unroll
  for (int i = 0; i < Tiles; i++) rows.transform(re[i], im[i], d[i]);
#pragma unroll
  for (int i = 0; i < 2 * Tiles; i++) {
    const int tile = i / 2, h = i % 2;
    const uint4 by = spectra[tile].at[h];
    b[tile][h][0] = times<true>({re[tile][0][h], im[tile][0][h]}, {by.x, by.y});
    b[tile][h][1] = times<true>({re[tile][1][h], im[tile][1][h]}, {by.z, by.w});
  }
#pragma unroll
  for (int i = 0; i < Tiles; i++) columns.transform(d[i], b[i]);
#pragma unroll
  for (int i = 0; i < Tiles; i++) rows.transform(re[i], im[i], d[i]);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4 * Tiles; i++) {
    const int tile = i / 4, h = i / 2 % 2, s = i % 2;
    const uint2 row = lane.rows[tile * Frequencies + s * (4 * sizeof(Twiddles::rows[0]) / 8)];
    const u32 column = lane.columns[tile * Frequencies * 16 + 8 * h];
    const Pair z = times(times(Pair{re[tile][s][h], im[tile][s][h]}, Pair{row.x, row.y}), column);
    u32* two = lane.words[h] + tile * Apart * kPitch + s * 128;
    two[0] = __byte_perm(z.re, z.im, 0x5410), two[64] = __byte_perm(z.re, z.im, 0x7632);  // four rows on
  }
}

template <typename Sum, int N, int Products>
__device__ __forceinline__ void multiply_add(Sum (&d)[Products][N], const uint4& a, const u32 (&b)[Products][2]) {
  const u32 four[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
  for (int n = 0; n < Products; n++) add_product(d[n], four, b[n][0], b[n][1]);
}

// Waits for the block, then convolves Rows tiles, two at a time where a warp has an even number of them: Part of them are
// the rows k of a transform over i of n = i · 256 + j. `spectrum(row)` is where a tile's spectrum lies; each is fetched
// while the tiles before are convolved.
template <int Rows, int Part, int Warps, typename Twiddles, typename Where>
__device__ __forceinline__ void convolve_rows(u32* data, const Constants& constants, const Twiddles& twiddles,
                                              const Where& spectrum) {
  const Columns columns(constants);
  const ::Rows rows(constants);
  const int warp = threadIdx.x / 32;
  constexpr int kTiles = Rows / Warps % 2 ? 1 : 2;
  Spectrum present[kTiles];
#pragma unroll
  for (int i = 0; i < kTiles; i++) present[i] = Spectrum(spectrum(warp + i * Warps));
  constexpr int kFrequencies = Part > Warps ? Warps : 0;  // between a warp's tiles
  Lane lane(data + warp * kPitch, twiddles, warp % Part);
  __syncthreads();
#pragma unroll 1
  for (int round = 0; round < Rows / Warps; round += kTiles) {
    Spectrum following[kTiles];
#pragma unroll
    for (int i = 0; i < kTiles; i++)
      following[i] = Spectrum(spectrum(min(warp + (round + kTiles + i) * Warps, Rows - 1)));
    convolve_tiles<Warps, kFrequencies, Twiddles>(lane, present, columns, rows);
    lane.advance(kTiles * Warps, kTiles * kFrequencies);
#pragma unroll
    for (int i = 0; i < kTiles; i++) present[i] = following[i];
  }
}
