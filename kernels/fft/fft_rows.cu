// What comes between the kernels of fft_outer.cu: rows of kSize = P · 256 complex values in the workspace, OUTER for each
// sequence, are transformed, multiplied with their part of the filter's spectrum, and transformed back. n = i · 256 + j:
// the transform over i is one complex product, and each of the P rows k is then a tile of 16 × 16.
#include "strips.cuh"

constexpr int kRows = POINTS / 256, kSize = POINTS, kWarps = THREADS / 32;
// A warp takes 32 columns j at a time: 8 in each of four products.
constexpr int kGroups = 8, kRounds = kGroups / kWarps;
// Operands of the product, by lane: 8 outputs, real and imaginary parts, of 8 inputs.
constexpr int kBlocks = kRows / 8;
static_assert(kGroups % kWarps == 0, "whole rounds");

struct Shared {
  Constants constants;
  Twiddles<kRows, 0> twiddles;
  uint4 matrix[kBlocks * kBlocks][32];
  alignas(16) u32 data[kRows * kPitch];

  // exp(-2πi · k · i / kRows) / √kRows: rows are 8 k, real then imaginary, columns 8 i with both in turn.
  __device__ void make() {
    constexpr float kUnitary = unitary(kRows);
    constants.make(), twiddles.make();
    const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
    for (int operand = threadIdx.x / 32; operand < kBlocks * kBlocks; operand += kWarps) {
      u32 four[4];
      for (int j = 0; j < 2; j++) {
        const float2 w = root((operand / kBlocks * 8 + g) * (operand % kBlocks * 8 + 4 * j + c), kRows);
        four[2 * j] = tiles::pack<f16>(w.x * kUnitary, -w.y * kUnitary);
        four[2 * j + 1] = tiles::pack<f16>(w.y * kUnitary, w.x * kUnitary);
      }
      matrix[operand][lane] = make_uint4(four[0], four[1], four[2], four[3]);
    }
  }
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the size that Python asks for");

__device__ __forceinline__ u32 scaled(u32 word, __half2 by) {
  const __half2 product = __hmul2(*(const __half2*)&word, by);
  return *(const u32*)&product;
}

// The transform over i of a row whose strips get one scale, with the twiddles towards j, to shared memory.
__device__ __forceinline__ void load(Shared& shared, const u32* row, const int* exponents) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
  const int largest = largest_exponent<kSize>(exponents) + kMore<kSize>;
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    const Strip<4> strip(warp + round * kWarps);
    int own = strip.column(g);
    keep(own);
    u32 b[kBlocks][4][2];
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; i++) {
      const int at = (4 * i + c) * 256 + own;
      const uint4 four = *(const uint4*)(row + at);
      const int apart = max(127 + exponents[at / kStrip] - largest, 0);
      const __half2 by = __float2half2_rn(__uint_as_float((u32)apart << 23));
      b[i / 2][0][i % 2] = scaled(four.x, by), b[i / 2][1][i % 2] = scaled(four.y, by);
      b[i / 2][2][i % 2] = scaled(four.z, by), b[i / 2][3][i % 2] = scaled(four.w, by);
    }
#pragma unroll 1
    for (int k = 0; k < kBlocks; k++) {
      u32 d[4][2] = {};
#pragma unroll
      for (int i = 0; i < kBlocks; i++) multiply_add(d, shared.matrix[k * kBlocks + i][lane], b[i]);
      const Pair z[4] = {{d[0][0], d[0][1]}, {d[1][0], d[1][1]}, {d[2][0], d[2][1]}, {d[3][0], d[3][1]}};
      strip.store(&shared.data[(8 * k + g) * kPitch], shared.twiddles, 8 * k + g, z);
    }
  }
}

// The transform back, of the row `outer` of its sequence, with the twiddles between rows, to the workspace.
__device__ __forceinline__ void store(const Shared& shared, u32* row, int outer) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
  const float2 onward = outer_twiddle<kSize>(outer, 1), further = outer_twiddle<kSize>(outer, 8 * 256);
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    const int first = (warp + round * kWarps) * 32;
    u32 b[kBlocks][4][2];
#pragma unroll
    for (int i = 0; i < 8 * kBlocks; i++) {
      const int n = i % 4, j = first + n / 2 * 16 + column_of(n % 2, g);
      b[i / 8][n][i / 4 % 2] = shared.data[(4 * (i / 4) + c) * kPitch + place_of(j / 16, j % 16)];
    }
    float2 start[2] = {outer_twiddle<kSize>(outer, g * 256 + first + 4 * c),
                       outer_twiddle<kSize>(outer, g * 256 + first + 16 + 4 * c)};
#pragma unroll 1
    for (int k = 0; k < kBlocks; k++) {
      float d[4][4] = {};
#pragma unroll
      for (int i = 0; i < kBlocks; i++) multiply_add(d, shared.matrix[k * kBlocks + i][lane], b[i]);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float2 w = start[half];
        u32 four[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const float(&from)[4] = d[2 * half + i / 2];
          four[i] = packed_half(times(make_float2(from[i % 2], from[2 + i % 2]), w));
          w = times(w, onward);
        }
        *(uint4*)(row + (8 * k + g) * 256 + first + 16 * half + 4 * c) = make_uint4(four[0], four[1], four[2], four[3]);
        start[half] = times(start[half], further);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) fft_conv_rows(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *(Shared*)memory;
  shared.make();
  __syncthreads();
  for (int number = blockIdx.x; number < (p.end - p.begin) * OUTER; number += gridDim.x) {
    const int local = number / OUTER, outer = number % OUTER;
    u32* row = p.workspace + (long)number * kSize;
    load(shared, row, p.exponents + (long)local * (kSize / kStrip));
    const u32* spectrum = p.spectrum + ((long)filter_of(p.begin + local) * OUTER + outer) * kSize;
    convolve_rows<kRows, kRows, kWarps>(shared.data, shared.constants, shared.twiddles, [&](int k) { return spectrum + k * 256; });
    __syncthreads();
    store(shared, row, outer);
    __syncthreads();
  }
}
