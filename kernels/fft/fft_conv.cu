// Convolution of real sequences with filters as long as they are, in one kernel: a Fourier transform of each sequence,
// the product with the filter's, made ahead, and the transform back. A causal convolution of N values is a complex
// transform of N points at the frequencies k + 1/4: what wraps around is multiplied by -i, and the real part is left.
//
// N = RADIX · 16^(STAGES + 1), n = ((i0 · 16 + i1) · 16 + i2) · 16 + i3, without i1 where STAGES is 1. Digit by digit, i
// becomes k: i0 in registers (Radix), i1 across tiles, i2 and i3 within a tile, and back the same way.
//
// With OUTER > 1 the values are rows of the workspace, complex: OUTER for each sequence, as fft_outer.cu leaves them.
#include "strips.cuh"

constexpr int kTilesAcross = STAGES == 2 ? 16 : 1, kRadix = RADIX, kPart = 256 * kTilesAcross, kSize = kRadix * kPart;
constexpr int kPerRow = SEQUENCES * kRadix, kTiles = kPerRow * kTilesAcross, kWarps = THREADS / 32;
// Tiles that are transformed across begin in different banks.
constexpr int kPitch = STAGES == 2 ? 264 : 256;
constexpr int kBound = bound_of(kSize);
constexpr float kUnitary = unitary(kRadix);
constexpr bool kInner = OUTER > 1;
constexpr int kQuarter = kInner ? 0 : QUARTER;
// A thread takes four neighbours in each of the kRadix parts.
constexpr int kFours = SEQUENCES * kPart / 4, kRounds = (kFours + THREADS - 1) / THREADS;

struct Shared {
  Constants constants;
  u32 largest[kFours / 32];
  alignas(16) u32 data[kTiles * kPitch];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the size that Python asks for");

__device__ __forceinline__ int word(int tile, int row, int column) { return tile * kPitch + place_of(row, column); }

__device__ __forceinline__ int count_of(const Params& p) { return (p.end - p.begin) * OUTER; }

// The place of four neighbours: their sequence in the block, that of all, and j, the place of the first one in a part.
struct Place {
  int sequence, number, j;
  bool exists;
  __device__ __forceinline__ Place(int four, int first, const Params& p)
      : sequence(SEQUENCES == 1 ? 0 : four / (kPart / 4)),
        number(first + sequence),
        j(SEQUENCES == 1 ? four * 4 : four % (kPart / 4) * 4),
        exists(four < kFours && number < count_of(p)) {}
  __device__ __forceinline__ uint4* words(int part, const Params& p) const {
    return (uint4*)(p.workspace + (long)number * kSize + part * kPart + j);
  }
  __device__ __forceinline__ int word_of(int part) const {
    return word((sequence * kRadix + part) * kTilesAcross + j / 256, j / 16 % 16, j % 16);
  }
  // exp(-2πi · j · (k + kQuarter / 4) / kSize) for the frequencies k < kRadix; `next` goes on to j + 1.
  __device__ __forceinline__ void twiddles(float2 (&w)[kRadix], float scale) const {
#pragma unroll
    for (int k = 0; k < kRadix; k++) {
      w[k] = root(j * (4 * k + kQuarter), 4 * kSize);
      w[k].x *= scale, w[k].y *= scale;
    }
  }
};
__device__ __forceinline__ void next(float2 (&w)[kRadix]) {
  constexpr Roots<kRadix> step = roots<kRadix, kQuarter>(kSize);
#pragma unroll
  for (int k = 0; k < kRadix; k++) w[k] = times(w[k], make_float2(step.re[k], step.im[k]));
}

__device__ __forceinline__ int exponent_of(const Shared& shared, int sequence) {
  constexpr int kGroups = kPart / 128;
  u32 largest = 0;
#pragma unroll
  for (int i = 0; i < kGroups; i++) largest = max(largest, shared.largest[sequence * kGroups + i]);
  return exponent_of<kBound>(largest);
}

// The transform over i0 of four neighbours, whose parts at `value(i, e)` are real or complex, to shared memory.
template <typename T, typename Value>
__device__ __forceinline__ void transform_parts(Shared& shared, const Place& at, float scale, const Value& value) {
  float2 w[kRadix];
  u32 packed[kRadix][4];
  at.twiddles(w, scale);
#pragma unroll
  for (int e = 0; e < 4; e++) {
    T part[kRadix];
    float2 z[kRadix];
#pragma unroll
    for (int i = 0; i < kRadix; i++) part[i] = value(i, e);
    Radix<kRadix, kQuarter>::forward(part, z);
#pragma unroll
    for (int k = 0; k < kRadix; k++) packed[k][e] = packed_half(times(z[k], w[k]));
    if (e < 3) next(w);
  }
#pragma unroll
  for (int k = 0; k < kRadix; k++)
    *(uint4*)&shared.data[at.word_of(k)] = make_uint4(packed[k][0], packed[k][1], packed[k][2], packed[k][3]);
}

// u · before of the block's sequences, scaled; its transform over i0, to shared memory.
__device__ __forceinline__ void load(Shared& shared, int first, const Params& p) {
  float x[kRounds][kRadix][4];
  const long only = row_of(first, p);
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const int four = threadIdx.x + round * THREADS;
    const Place at(four, first, p);
    u32 largest = 0;
    const long row = SEQUENCES == 1 ? only : row_of(at.number, p);
#pragma unroll
    for (int i = 0; i < kRadix; i++) {
#pragma unroll
      for (int e = 0; e < 4; e++) x[round][i][e] = 0;
      if (at.exists) load_input(x[round][i], row, i * kPart + at.j, p);
      largest = larger_of(largest, x[round][i]);
    }
    const u32 bits = largest_of_warp(largest);
    if (threadIdx.x % 32 == 0 && four < kFours) shared.largest[four / 32] = bits;
  }
  __syncthreads();
  const int same = exponent_of(shared, 0);
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const Place at(threadIdx.x + round * THREADS, first, p);
    if (threadIdx.x + round * THREADS >= kFours) break;
    const int exponent = SEQUENCES == 1 ? same : exponent_of(shared, at.sequence);
    const float scale = scale_of<kBound>(exponent) * kUnitary;
    transform_parts<float>(shared, at, scale, [&](int i, int e) { return x[round][i][e]; });
  }
}

// The same of rows of the workspace. A row has parts with scales of their own, which are made equal.
__device__ __forceinline__ void load_words(Shared& shared, int first, const Params& p) {
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    const Place at(threadIdx.x + round * THREADS, first, p);
    if (threadIdx.x + round * THREADS >= kFours) break;
    const int* exponents = p.exponents + (long)(at.number / OUTER) * (kSize / kStrip);
    const int largest = at.exists ? largest_exponent<kSize>(exponents) : 0;
    u32 words[kRadix][4];
    float scale[kRadix];
#pragma unroll
    for (int i = 0; i < kRadix; i++) {
      const uint4 four = at.exists ? *at.words(i, p) : make_uint4(0, 0, 0, 0);
      words[i][0] = four.x, words[i][1] = four.y, words[i][2] = four.z, words[i][3] = four.w;
      const int apart = at.exists ? exponents[(i * kPart + at.j) / kStrip] - largest - kMore<kSize> : 0;
      scale[i] = __uint_as_float((u32)max(127 + apart, 0) << 23);
    }
    transform_parts<float2>(shared, at, kUnitary, [&](int i, int e) {
      const float2 z = tiles::unpack<f16>(words[i][e]);
      return make_float2(z.x * scale[i], z.y * scale[i]);
    });
  }
}

// The transform over i0 back, and y, or the rows of the workspace again.
__device__ __forceinline__ void store(const Shared& shared, int first, const Params& p) {
  const long only = kInner ? 0 : row_of(first, p);
  const Factors by_same(kInner ? 0 : min(first / p.batch, p.width - 1), p);
  const int same = kInner ? 0 : exponent_of(shared, 0);
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    const Place at(threadIdx.x + round * THREADS, first, p);
    if (!at.exists) break;
    float2 w[kRadix];
    const int exponent = SEQUENCES == 1 ? same : exponent_of(shared, at.sequence);
    at.twiddles(w, kUnitary * (kInner ? 1.f : inverse_scale_of<kBound>(exponent)));
    u32 packed[kRadix][4];
#pragma unroll
    for (int k = 0; k < kRadix; k++) {
      const uint4 four = *(const uint4*)&shared.data[at.word_of(k)];
      packed[k][0] = four.x, packed[k][1] = four.y, packed[k][2] = four.z, packed[k][3] = four.w;
    }
    float y[kRadix][4];
    float2 outer[kRadix], onward = outer_twiddle<kSize>(at.number % OUTER, 1);
#pragma unroll
    for (int i = 0; i < kRadix; i++)
      if (kInner) outer[i] = outer_twiddle<kSize>(at.number % OUTER, i * kPart + at.j);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float2 z[kRadix];
#pragma unroll
      for (int k = 0; k < kRadix; k++) z[k] = times(tiles::unpack<f16>(packed[k][e]), w[k]);
      if (kInner) {
        float2 part[kRadix];
        Radix<kRadix, kQuarter>::backward(z, part);
#pragma unroll
        for (int i = 0; i < kRadix; i++)
          packed[i][e] = packed_half(times(part[i], outer[i])), outer[i] = times(outer[i], onward);
      } else {
        float part[kRadix];
        Radix<kRadix, kQuarter>::backward(z, part);
#pragma unroll
        for (int i = 0; i < kRadix; i++) y[i][e] = part[i];
      }
      if (e < 3) next(w);
    }
    const long row = SEQUENCES == 1 ? only : row_of(at.number, p);
    const Factors by = SEQUENCES == 1 ? by_same : Factors(at.number / p.batch, p);
#pragma unroll
    for (int i = 0; i < kRadix; i++) {
      if (kInner)
        *at.words(i, p) = make_uint4(packed[i][0], packed[i][1], packed[i][2], packed[i][3]);
      else
        store_output(y[i], row, by, i * kPart + at.j, p);
    }
  }
}

// The transform over i1, in place, with the twiddles towards i2 and i3, or back without any.
template <bool Forward>
__device__ __forceinline__ void transform_across(Shared& shared) {
  const Columns matrix(shared.constants);
  const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll 1
  for (int row = threadIdx.x / 32; row < 16; row += kWarps) {
    float2 w[2][2][2];
    if (Forward)
#pragma unroll
      for (int i = 0; i < 8; i++)
        w[i / 4][i / 2 % 2][i % 2] = root((8 * (i / 4) + g) * (16 * row + 8 * (i / 2 % 2) + 2 * c + i % 2), 4096);
#pragma unroll 1
    for (int part = 0; part < kPerRow; part++) {
      u32 b[2][2][2];
      float d[2][2][4];
#pragma unroll
      for (int i = 0; i < 8; i++)
        b[i / 4][i / 2 % 2][i % 2] = shared.data[word(part * 16 + 4 * (i % 4) + c, row, 8 * (i / 4) + g)];
      matrix.transform(d, b);
      __syncwarp();
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 2; n++) {
          float2 z[2] = {make_float2(d[m][n][0], d[m][n][2]), make_float2(d[m][n][1], d[m][n][3])};
          if (Forward) z[0] = times(z[0], w[m][n][0]), z[1] = times(z[1], w[m][n][1]);
          *(uint2*)&shared.data[word(part * 16 + 8 * m + g, row, 8 * n + 2 * c)] =
              make_uint2(packed_half(z[0]), packed_half(z[1]));
        }
    }
  }
}

// The spectrum that a sequence, or a row of one, is multiplied with; that of the last one for what lies behind it.
__device__ __forceinline__ const u32* spectrum_of(int number, const Params& p) {
  const int last = min(number, count_of(p) - 1), channel = (last / OUTER + p.begin) / p.batch;
  return p.spectrum + ((long)(channel / p.per_filter) * OUTER + last % OUTER) * kSize;
}

// The transforms over i2 and i3 of each tile, the product with the spectrum, and both transforms back.
__device__ __forceinline__ void multiply(Shared& shared, int first, const Params& p) {
  const Columns columns(shared.constants);
  const Rows rows(shared.constants);
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
  const u32* only = spectrum_of(first, p);
#pragma unroll 1
  for (int across = STAGES == 2 ? warp : 0; across < kTilesAcross; across += kWarps) {
    float2 w[2][4];
    if (STAGES == 2)
#pragma unroll
      for (int i = 0; i < 8; i++) w[i / 4][i % 4] = root(across * (16 * (4 * (i % 4) + c) + 8 * (i / 4) + g), 4096);
#pragma unroll 1
    for (int part = STAGES == 2 ? 0 : warp; part < kPerRow; part += STAGES == 2 ? 1 : kWarps) {
      const int tile = part * kTilesAcross + across;
      const u32* of_row = SEQUENCES == 1 ? only : spectrum_of(first + part / kRadix, p);
      const u32* spectrum = of_row + (part % kRadix * kTilesAcross + across) * 256;
      convolve_tile(&shared.data[tile * kPitch], spectrum, columns, rows,
                    [&](float2 z, int h, int t) { return STAGES == 2 ? times(z, w[h][t]) : z; });
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) fft_conv(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *(Shared*)memory;
  shared.constants.make();
  __syncthreads();
  for (int first = blockIdx.x * SEQUENCES; first < count_of(p); first += gridDim.x * SEQUENCES) {
    if (kInner)
      load_words(shared, first, p);
    else
      load(shared, first, p);
    if (!kInner) prefetch_next<SEQUENCES>(first, p);
    __syncthreads();
    if (STAGES == 2) {
      transform_across<true>(shared);
      __syncthreads();
    }
    multiply(shared, first, p);
    __syncthreads();
    if (STAGES == 2) {
      transform_across<false>(shared);
      __syncthreads();
    }
    store(shared, first, p);
    __syncthreads();
  }
}
