// Convolution of real sequences with filters as long as they are, in one kernel: a Fourier transform of each sequence,
// the product with the filter's, made ahead, and the transform back. A causal convolution of N values is a complex
// transform of N points at the frequencies k + 1/4: what wraps around is multiplied by -i, and the real part is left.
//
// N = RADIX · 16^(STAGES + 1), n = ((i0 · 16 + i1) · 16 + i2) · 16 + i3, without i1 where STAGES is 1. Digit by digit, i
// becomes k: i0 in registers (Radix), i1 across tiles, i2 and i3 within a tile, and back the same way.
#include "tiles16.cuh"

constexpr int kTilesAcross = STAGES == 2 ? 16 : 1, kRadix = RADIX, kPart = 256 * kTilesAcross, kSize = kRadix * kPart;
constexpr int kPerRow = SEQUENCES * kRadix, kTiles = kPerRow * kTilesAcross, kWarps = THREADS / 32;
// Tiles that are transformed across begin in different banks.
constexpr int kPitch = STAGES == 2 ? 264 : 256;
constexpr int kLog = STAGES * 4 + 4 + (RADIX == 2 ? 1 : RADIX == 4 ? 2 : RADIX == 8 ? 3 : 0);
// |x| below 2^kBound: its sum of squares, which every step keeps, stays in the range of fp16.
constexpr int kBound = 15 - (kLog + 1) / 2;
constexpr float kUnitary = RADIX == 1 ? 1.f : RADIX == 2 ? 0.70710678f : RADIX == 4 ? 0.5f : 0.35355339f;
// A thread takes four neighbours in each of the kRadix parts.
constexpr int kFours = SEQUENCES * kPart / 4, kRounds = (kFours + THREADS - 1) / THREADS;

using Element = tiles::ELEMENT;

struct Params {
  const Element *u, *before, *after;  // [batch][width][length]; before and after may be null
  const u32* spectrum;                // [filters][kSize], in the order of the registers
  const float *scales, *skip;         // [filters]; [width] or null
  Element* y;
  int batch, width, length, per_filter;  // channels of a filter
  int in_fours;                          // whether rows begin at multiples of four values
  int prefetched;                        // bytes of a row that are fetched to L2 ahead, a multiple of 16
};
static_assert(sizeof(Params) == PARAMS_BYTES, "the fields of Python");

struct Shared {
  Constants constants;
  u32 largest[kFours / 32];
  alignas(16) u32 data[kTiles * kPitch];
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the size that Python asks for");

__device__ __forceinline__ int word(int tile, int row, int column) {
  return tile * kPitch + row * 16 + (column ^ (row & 2) << 2);
}

// Four values from place n of a row; zeros beyond its end.
__device__ __forceinline__ void load_four(float (&to)[4], const Element* row, int n, const Params& p) {
  if (p.in_fours && n < p.length) {
    const uint2 four = *(const uint2*)(row + n);
    const float2 low = tiles::unpack<Element>(four.x), high = tiles::unpack<Element>(four.y);
    to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
  } else {
#pragma unroll
    for (int e = 0; e < 4; e++) to[e] = n + e < p.length ? (float)row[n + e] : 0.f;
  }
}

__device__ __forceinline__ void store_four(Element* row, int n, const float (&from)[4], const Params& p) {
  if (p.in_fours && n < p.length) {
    *(uint2*)(row + n) = make_uint2(tiles::pack<Element>(from[0], from[1]), tiles::pack<Element>(from[2], from[3]));
  } else {
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (n + e < p.length) row[n + e] = (Element)from[e];
  }
}

// Where a sequence begins. They count channel by channel, so that a filter is read by neighbours in time.
__device__ __forceinline__ long row_of(int sequence, const Params& p) {
  return ((long)(sequence % p.batch) * p.width + sequence / p.batch) * p.length;
}

// Fetches what is read next to L2: the gates behind the convolution, then the inputs of the next sequences.
__device__ __forceinline__ void prefetch_next(int first, const Params& p) {
  const int sequence = first + threadIdx.x, following = sequence + gridDim.x * SEQUENCES, count = p.batch * p.width;
  if (!p.prefetched || threadIdx.x >= SEQUENCES) return;
  if (p.after && sequence < count) tiles::bulk_prefetch_l2(p.after + row_of(sequence, p), p.prefetched);
  if (following >= count) return;
  tiles::bulk_prefetch_l2(p.u + row_of(following, p), p.prefetched);
  if (p.before) tiles::bulk_prefetch_l2(p.before + row_of(following, p), p.prefetched);
}

// The place of four neighbours: their sequence, and j, the place of the first one within each part.
struct Place {
  int sequence, j;
  int channel;
  bool exists;
  long row;
  __device__ __forceinline__ Place(int four, int first, const Params& p)
      : sequence(four / (kPart / 4)),
        j(four % (kPart / 4) * 4),
        channel((first + sequence) / p.batch),
        exists(four < kFours && channel < p.width),
        row(row_of(first + sequence, p)) {}
  // exp(-2πi · j · (k + Quarter / 4) / kSize) for the frequencies k < kRadix; `next` goes on to j + 1.
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

// The exponent of the largest |x| of a sequence, bounded so that its scale and the inverse of this are normal numbers;
// that of infinity and NaN gives 1.
__device__ __forceinline__ int exponent_of(const Shared& shared, int sequence) {
  constexpr int kGroups = kPart / 128;
  u32 largest = 0;
#pragma unroll
  for (int i = 0; i < kGroups; i++) largest = max(largest, shared.largest[sequence * kGroups + i]);
  const int exponent = largest >> 23;
  return exponent == 255 ? kBound + 126 : max(exponent, kBound);
}

// u · before of the block's sequences, scaled; its transform over i0, to shared memory.
__device__ __forceinline__ void load(Shared& shared, int first, const Params& p) {
  float x[kRounds][kRadix][4];
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const int four = threadIdx.x + round * THREADS;
    const Place at(four, first, p);
    u32 largest = 0;
#pragma unroll
    for (int i = 0; i < kRadix; i++) {
      if (at.exists) {
        load_four(x[round][i], p.u + at.row, i * kPart + at.j, p);
        if (p.before) {
          float gate[4];
          load_four(gate, p.before + at.row, i * kPart + at.j, p);
#pragma unroll
          for (int e = 0; e < 4; e++) x[round][i][e] *= gate[e];
        }
      } else {
#pragma unroll
        for (int e = 0; e < 4; e++) x[round][i][e] = 0;
      }
#pragma unroll
      for (int e = 0; e < 4; e++) largest = max(largest, __float_as_uint(x[round][i][e]) & 0x7fffffff);
    }
    largest = __reduce_max_sync(~0u, largest);
    if (threadIdx.x % 32 == 0 && four < kFours) shared.largest[four / 32] = largest;
  }
  __syncthreads();
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const int four = threadIdx.x + round * THREADS;
    if (four >= kFours) break;
    const Place at(four, first, p);
    const int exponent = exponent_of(shared, at.sequence);
    float2 w[kRadix];
    at.twiddles(w, __uint_as_float((u32)(kBound + 253 - exponent) << 23) * kUnitary);
    u32 packed[kRadix][4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float part[kRadix];
      float2 z[kRadix];
#pragma unroll
      for (int i = 0; i < kRadix; i++) part[i] = x[round][i][e];
      Radix<kRadix, QUARTER>::forward(part, z);
#pragma unroll
      for (int k = 0; k < kRadix; k++) {
        const float2 turned = times(z[k], w[k]);
        packed[k][e] = tiles::pack<f16>(turned.x, turned.y);
      }
      if (e < 3) next(w);
    }
#pragma unroll
    for (int k = 0; k < kRadix; k++) {
      const int tile = (at.sequence * kRadix + k) * kTilesAcross + at.j / 256;
      *(uint4*)&shared.data[word(tile, at.j / 16 % 16, at.j % 16)] =
          make_uint4(packed[k][0], packed[k][1], packed[k][2], packed[k][3]);
    }
  }
}

// The transform over i0 back, and y = it · after + skip · u.
__device__ __forceinline__ void store(const Shared& shared, int first, const Params& p) {
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    const Place at(threadIdx.x + round * THREADS, first, p);
    if (!at.exists) break;
    const int exponent = exponent_of(shared, at.sequence);
    float2 w[kRadix];
    at.twiddles(w, __uint_as_float((u32)(exponent + 1 - kBound) << 23) * kUnitary);
    u32 packed[kRadix][4];
#pragma unroll
    for (int k = 0; k < kRadix; k++) {
      const int tile = (at.sequence * kRadix + k) * kTilesAcross + at.j / 256;
      const uint4 four = *(const uint4*)&shared.data[word(tile, at.j / 16 % 16, at.j % 16)];
      packed[k][0] = four.x, packed[k][1] = four.y, packed[k][2] = four.z, packed[k][3] = four.w;
    }
    float y[kRadix][4];
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
    const float scale = p.scales[at.channel / p.per_filter], skip = p.skip ? p.skip[at.channel] : 0.f;
#pragma unroll
    for (int i = 0; i < kRadix; i++) {
      const int n = i * kPart + at.j;
      float gate[4] = {1, 1, 1, 1}, u[4] = {};
      if (p.after) load_four(gate, p.after + at.row, n, p);
      if (p.skip) load_four(u, p.u + at.row, n, p);
#pragma unroll
      for (int e = 0; e < 4; e++) y[i][e] = y[i][e] * scale * gate[e] + skip * u[e];
      store_four(p.y + at.row, n, y[i], p);
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
          u32 pair[2];
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float2 z = make_float2(d[m][n][e], d[m][n][2 + e]);
            if (Forward) z = times(z, w[m][n][e]);
            pair[e] = tiles::pack<f16>(z.x, z.y);
          }
          *(uint2*)&shared.data[word(part * 16 + 8 * m + g, row, 8 * n + 2 * c)] = make_uint2(pair[0], pair[1]);
        }
    }
  }
}

// The transforms over i2 and i3 of each tile, the product with the spectrum, and both transforms back: of the conjugate,
// so that the same matrices serve.
__device__ __forceinline__ void multiply(Shared& shared, int first, const Params& p) {
  const Columns columns(shared.constants);
  const Rows rows(shared.constants);
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
#pragma unroll 1
  for (int across = STAGES == 2 ? warp : 0; across < kTilesAcross; across += kWarps) {
    float2 w[2][4];
    if (STAGES == 2)
#pragma unroll
      for (int i = 0; i < 8; i++) w[i / 4][i % 4] = root(across * (16 * (4 * (i % 4) + c) + 8 * (i / 4) + g), 4096);
#pragma unroll 1
    for (int part = STAGES == 2 ? 0 : warp; part < kPerRow; part += STAGES == 2 ? 1 : kWarps) {
      const int tile = part * kTilesAcross + across;
      const int channel = min((first + part / kRadix) / p.batch, p.width - 1);
      const uint4* spectrum =
          (const uint4*)(p.spectrum + (long)(channel / p.per_filter) * kSize + (tile - part / kRadix * kRadix * kTilesAcross) * 256);
      const uint4 filter[2] = {spectrum[lane], spectrum[32 + lane]};
      u32 b[2][2][2];
      float d[2][2][4], z[4][4];
#pragma unroll
      for (int i = 0; i < 8; i++)
        b[i / 4][i / 2 % 2][i % 2] = shared.data[word(tile, 4 * (i % 4) + c, 8 * (i / 4) + g)];
      columns.transform(d, b);
      rows.transform(z, d);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const u32 four[4] = {filter[h].x, filter[h].y, filter[h].z, filter[h].w};
#pragma unroll
        for (int t = 0; t < 4; t++) {
          const float2 product = times(make_float2(z[t][2 * h], z[t][2 * h + 1]), tiles::unpack<f16>(four[t]));
          b[h][t / 2][t % 2] = tiles::pack<f16>(product.x, -product.y);
        }
      }
      columns.transform(d, b);
      rows.transform(z, d);
      __syncwarp();
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int t = 0; t < 4; t++) {
          float2 back = make_float2(z[t][2 * h], z[t][2 * h + 1]);
          if (STAGES == 2) back = times(back, w[h][t]);
          shared.data[word(tile, 4 * t + c, 8 * h + g)] = tiles::pack<f16>(back.x, back.y);
        }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) fft_conv(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *(Shared*)memory;
  shared.constants.make();
  __syncthreads();
  for (int first = blockIdx.x * SEQUENCES; first < p.batch * p.width; first += gridDim.x * SEQUENCES) {
    load(shared, first, p);
    prefetch_next(first, p);
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
