// Convolution of real sequences with filters as long as they are, in one kernel: a Fourier transform of each sequence,
// the product with the filter's, made ahead, and the transform back. A causal convolution of N values is a complex
// transform of N points at the frequencies k + 1/4: what wraps around is multiplied by -i, and the real part is left.
//
// N = RADIX · 256, n = i · 256 + j. The transform over i is in registers; each of its RADIX rows is a tile of 16 × 16.
#include "sequences.cuh"
#include "tiles16.cuh"

constexpr int kRadix = RADIX, kPart = 256, kSize = kRadix * kPart;
constexpr int kTiles = SEQUENCES * kRadix, kWarps = THREADS / 32;
constexpr int kBound = bound_of(kSize);
constexpr float kUnitary = unitary(kRadix);
// A thread takes four neighbours in each of the kRadix parts.
constexpr int kFours = SEQUENCES * kPart / 4, kRounds = (kFours + THREADS - 1) / THREADS;

struct Shared {
  Constants constants;
  u32 largest[kFours / 32];
  alignas(16) u32 data[kTiles * kPart];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the size that Python asks for");

// The place of four neighbours: their sequence in the block, that of all, and j, the place of the first one in a part.
struct Place {
  int sequence, number, j;
  bool exists;
  __device__ __forceinline__ Place(int four, int first, const Params& p)
      : sequence(four / (kPart / 4)),
        number(first + sequence),
        j(four % (kPart / 4) * 4),
        exists(four < kFours && number < p.end) {}
  __device__ __forceinline__ int word_of(int part) const {
    return (sequence * kRadix + part) * kPart + place_of(j / 16, j % 16);
  }
  // exp(-2πi · j · (k + QUARTER / 4) / kSize) for the frequencies k < kRadix; `next` goes on to j + 1.
  __device__ __forceinline__ void twiddles(float2 (&w)[kRadix], float scale) const {
#pragma unroll
    for (int k = 0; k < kRadix; k++) {
      w[k] = root(j * (4 * k + QUARTER), 4 * kSize);
      w[k].x *= scale, w[k].y *= scale;
    }
  }
};
__device__ __forceinline__ void next(float2 (&w)[kRadix]) {
  constexpr Roots<kRadix> step = roots<kRadix, QUARTER>(kSize);
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

// u · before of the block's sequences, scaled; its transform over i, to shared memory.
__device__ __forceinline__ void load(Shared& shared, int first, const Params& p) {
  float x[kRounds][kRadix][4];
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const int four = threadIdx.x + round * THREADS;
    const Place at(four, first, p);
    const long row = row_of(at.number, p);
    float largest = 0;
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
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const Place at(threadIdx.x + round * THREADS, first, p);
    if (threadIdx.x + round * THREADS >= kFours) break;
    float2 w[kRadix];
    u32 packed[kRadix][4];
    at.twiddles(w, scale_of<kBound>(exponent_of(shared, at.sequence)) * kUnitary);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float part[kRadix];
      float2 z[kRadix];
#pragma unroll
      for (int i = 0; i < kRadix; i++) part[i] = x[round][i][e];
      Radix<kRadix, QUARTER>::forward(part, z);
#pragma unroll
      for (int k = 0; k < kRadix; k++) packed[k][e] = packed_half(times(z[k], w[k]));
      if (e < 3) next(w);
    }
#pragma unroll
    for (int k = 0; k < kRadix; k++)
      *(uint4*)&shared.data[at.word_of(k)] = make_uint4(packed[k][0], packed[k][1], packed[k][2], packed[k][3]);
  }
}

// The product with the spectrum, tile by tile.
__device__ __forceinline__ void multiply(Shared& shared, int first, const Params& p) {
  const Columns columns(shared.constants);
  const Rows rows(shared.constants);
#pragma unroll 1
  for (int tile = threadIdx.x / 32; tile < kTiles; tile += kWarps) {
    const int sequence = min(first + tile / kRadix, p.end - 1), filter = sequence / p.batch / p.per_filter;
    const u32* spectrum = p.spectrum + (long)filter * kSize + tile % kRadix * kPart;
    convolve_tile(&shared.data[tile * kPart], spectrum, columns, rows, [](float2 z, int, int) { return z; });
  }
}

// The transform over i back, and y.
__device__ __forceinline__ void store(const Shared& shared, int first, const Params& p) {
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    const Place at(threadIdx.x + round * THREADS, first, p);
    if (!at.exists) break;
    float2 w[kRadix];
    u32 packed[kRadix][4];
    float y[kRadix][4];
    at.twiddles(w, inverse_scale_of<kBound>(exponent_of(shared, at.sequence)) * kUnitary);
#pragma unroll
    for (int k = 0; k < kRadix; k++) {
      const uint4 four = *(const uint4*)&shared.data[at.word_of(k)];
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
      if (e < 3) next(w);
    }
    const long row = row_of(at.number, p);
    const Factors by(at.number / p.batch, p);
#pragma unroll
    for (int i = 0; i < kRadix; i++) store_output(y[i], row, by, i * kPart + at.j, p);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) fft_conv(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *(Shared*)memory;
  shared.constants.make();
  __syncthreads();
  for (int first = blockIdx.x * SEQUENCES; first < p.end; first += gridDim.x * SEQUENCES) {
    load(shared, first, p);
    prefetch_next<SEQUENCES>(first, p);
    __syncthreads();
    multiply(shared, first, p);
    __syncthreads();
    store(shared, first, p);
    __syncthreads();
  }
}
