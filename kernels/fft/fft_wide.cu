// The same convolution for N = P · 256, P = 16, 32 or 64, in one kernel: n = i · 256 + j. The transform over i, at the
// frequencies k + 1/4, is a product of a real matrix: real values come in, and real ones go out at the end. Each of the
// P rows k is then a tile of 16 × 16 complex values.
#include "sequences.cuh"

constexpr int kRows = POINTS / 256, kSize = POINTS, kWarps = THREADS / 32;
constexpr int kPitch = 264;  // words of a tile; neighbouring tiles begin in different banks
constexpr int kBound = bound_of(kSize);
// A warp takes 32 columns j at a time, in eight groups.
constexpr int kGroups = 8, kRounds = kGroups / kWarps;
// Operands of the product, by lane: 16 outputs or inputs, real and imaginary parts, of 16.
constexpr int kBlocks = kRows / 16, kOperands = 2 * kBlocks * kBlocks;
static_assert(kGroups % kWarps == 0, "whole rounds");

struct Shared {
  Constants constants;
  uint4 forward[kOperands][32], backward[kOperands][32];
  u32 largest[kGroups];
  alignas(16) u32 data[kRows * kPitch];

  // exp(-2πi · i · (k + QUARTER / 4) / kRows) / √kRows as operands a. Forward, rows are 8 k with their real, then their
  // imaginary parts, and columns 16 i. Backward, rows are 16 i and columns 8 k with both parts in turn.
  __device__ void make() {
    const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
    for (int operand = threadIdx.x / 32; operand < kOperands; operand += kWarps) {
      float2 w[4], v[4];
      for (int j = 0; j < 4; j++) {
        w[j] = entry(operand / kBlocks * 8 + g, operand % kBlocks * 16 + 2 * c + j % 2 + j / 2 * 8);
        v[j] = entry(operand % (2 * kBlocks) * 8 + c + j / 2 * 4, operand / (2 * kBlocks) * 16 + g + j % 2 * 8);
      }
      forward[operand][lane] = make_uint4(tiles::pack<f16>(w[0].x, w[1].x), tiles::pack<f16>(w[0].y, w[1].y),
                                          tiles::pack<f16>(w[2].x, w[3].x), tiles::pack<f16>(w[2].y, w[3].y));
      backward[operand][lane] = make_uint4(tiles::pack<f16>(v[0].x, -v[0].y), tiles::pack<f16>(v[1].x, -v[1].y),
                                           tiles::pack<f16>(v[2].x, -v[2].y), tiles::pack<f16>(v[3].x, -v[3].y));
    }
  }
  __device__ static float2 entry(int k, int i) {
    constexpr float kUnitary = kRows == 16 ? 0.25f : kRows == 32 ? 0.17677670f : 0.125f;
    const float2 w = root(i * (4 * k + QUARTER), 4 * kRows);
    return make_float2(w.x * kUnitary, w.y * kUnitary);
  }
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the size that Python asks for");

// exp(-2πi · j · (k + QUARTER / 4) / kSize) as j goes on by a step that is known, and k by 8.
struct Twiddle {
  float2 at, by;
  __device__ __forceinline__ Twiddle(int k, int j) : at(root(j * (4 * k + QUARTER), 4 * kSize)), by(root(8 * j, kSize)) {}
  __device__ __forceinline__ void next() { at = times(at, by); }
};

__device__ __forceinline__ void multiply_add(float (&d)[4][4], const uint4& a, const u32 (&b)[4][2]) {
  const u32 four[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
  for (int n = 0; n < 4; n++) tiles::mma_sync<f16>(d[n], four, b[n][0], b[n][1]);
}

// u · before, scaled; its transform over i, with the twiddles towards j, to shared memory.
__device__ __forceinline__ void load(Shared& shared, long row, const Params& p) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
  float x[kRounds][kBlocks][4][4];  // the rows 2c, 2c + 1, 2c + 8, 2c + 9 of 16, the columns 4g to 4g + 3
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 4 * kBlocks; i++) {
      const int at = i / 4 * 16 + 2 * c + i % 2 + i / 2 % 2 * 8;
      load_input(x[round][i / 4][i % 4], row, at * 256 + (warp + round * kWarps) * 32 + 4 * g, p);
      largest = larger_of(largest, x[round][i / 4][i % 4]);
    }
    const u32 bits = largest_of_warp(largest);
    if (lane == 0) shared.largest[warp + round * kWarps] = bits;
  }
  __syncthreads();
  const float scale = scale_of<kBound>(exponent_of<kBound>(largest_of(shared.largest)));
  const float2 further = root(8, kSize);
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const int j = (warp + round * kWarps) * 32 + 8 * c;
    u32 b[kBlocks][4][2];
#pragma unroll
    for (int block = 0; block < kBlocks; block++)
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const float(&of)[4][4] = x[round][block];
        b[block][i / 2][i % 2] =
            tiles::pack<f16>(of[i % 2 * 2][i / 2] * scale, of[i % 2 * 2 + 1][i / 2] * scale);
      }
    Twiddle first(g, j);
    float2 step = root(4 * g + QUARTER, 4 * kSize);
#pragma unroll 1
    for (int k = 0; k < kRows / 8; k++) {
      float d[4][4] = {};
#pragma unroll
      for (int block = 0; block < kBlocks; block++)
        multiply_add(d, shared.forward[k * kBlocks + block][lane], b[block]);
      float2 w = first.at;
#pragma unroll
      for (int e = 0; e < 2; e++) {
        u32 four[4];
#pragma unroll
        for (int n = 0; n < 4; n++) {
          four[n] = packed_half(times(make_float2(d[n][e], d[n][2 + e]), w));
          w = times(w, step);
        }
        *(uint4*)&shared.data[(8 * k + g) * kPitch + place_of(j / 16, j % 16 + 4 * e)] =
            make_uint4(four[0], four[1], four[2], four[3]);
      }
      first.next();
      step = times(step, further);
    }
  }
}

// The product with the spectrum, tile by tile, with the twiddles back.
__device__ __forceinline__ void multiply(Shared& shared, const u32* spectrum, const Params& p) {
  const Columns columns(shared.constants);
  const Rows rows(shared.constants);
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
  float2 first = root((16 * c + g) * (4 * warp + QUARTER), 4 * kSize), along = root(64 * (4 * warp + QUARTER), 4 * kSize);
  float2 across = root(8 * (4 * warp + QUARTER), 4 * kSize);
  const float2 by[3] = {root(kWarps * (16 * c + g), kSize), root(kWarps * 64, kSize), root(kWarps * 8, kSize)};
#pragma unroll 1
  for (int k = warp; k < kRows; k += kWarps) {
    convolve_tile(&shared.data[k * kPitch], spectrum + k * 256, columns, rows, [&](float2 z, int h, int t) {
      float2 w = h ? times(first, across) : first;
#pragma unroll
      for (int i = 0; i < t; i++) w = times(w, along);
      return times(z, w);
    });
    first = times(first, by[0]), along = times(along, by[1]), across = times(across, by[2]);
  }
}

// The transform over k back, and y.
__device__ __forceinline__ void store(const Shared& shared, int sequence, long row, const Params& p) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
  const Factors by(sequence / p.batch, p);
  const float scale = inverse_scale_of<kBound>(exponent_of<kBound>(largest_of(shared.largest)));
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    const int first = (warp + round * kWarps) * 32;
    u32 b[2 * kBlocks][4][2];
#pragma unroll
    for (int i = 0; i < 16 * kBlocks; i++) {
      const int n = i % 4, j = first + n / 2 * 16 + column_of(n % 2, g);
      b[i / 8][n][i / 4 % 2] = shared.data[(4 * (i / 4) + c) * kPitch + place_of(j / 16, j % 16)];
    }
#pragma unroll 1
    for (int block = 0; block < kBlocks; block++) {
      float d[4][4] = {};
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; i++)
        multiply_add(d, shared.backward[block * 2 * kBlocks + i][lane], b[i]);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float(&one)[4] = d[i / 2 * 2], (&two)[4] = d[i / 2 * 2 + 1];
        const int half = i % 2 * 2;
        const float y[4] = {one[half] * scale, one[half + 1] * scale, two[half] * scale, two[half + 1] * scale};
        store_output(y, row, by, (block * 16 + g + half * 4) * 256 + first + i / 2 * 16 + 4 * c, p);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) fft_conv_wide(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *(Shared*)memory;
  shared.constants.make();
  shared.make();
  __syncthreads();
  for (int sequence = blockIdx.x; sequence < p.end; sequence += gridDim.x) {
    const long row = row_of(sequence, p);
    load(shared, row, p);
    prefetch_next<1>(sequence, p);
    __syncthreads();
    multiply(shared, p.spectrum + (long)(sequence / p.batch / p.per_filter) * kSize, p);
    __syncthreads();
    store(shared, sequence, row, p);
    __syncthreads();
  }
}
