// The same convolution for N = P · 256, P from 16 to 128, in one kernel: n = i · 256 + j. The transform over i, at the
// frequencies k + 1/4, is a product of a real matrix: real values come in, and real ones go out at the end. Each of the
// P rows k is then a tile of 16 × 16 complex values.
//
// The matrix has at most 64 rows. With 128, HALVES is 2: the even and the odd i are transformed apart, and joined.
#include "sequences.cuh"
#include "tiles16.cuh"

constexpr int kHalves = HALVES, kRows = POINTS / 256, kOrder = kRows / kHalves, kSize = POINTS, kWarps = THREADS / 32;
constexpr int kBound = bound_of(kSize);
// A warp takes 32 columns j at a time, or 16 of both halves: 8 in each product.
constexpr int kProducts = 4 / kHalves, kColumns = 8 * kProducts, kGroups = 256 / kColumns, kRounds = kGroups / kWarps;
// Operands of the product, by lane: 16 outputs or inputs, real and imaginary parts, of 16.
constexpr int kBlocks = kOrder / 16, kOperands = 2 * kBlocks * kBlocks;
static_assert(kGroups % kWarps == 0, "whole rounds");

struct Shared {
  Constants constants;
  uint4 forward[kOperands][32], backward[kOperands][32];
  u32 largest[kGroups];
  alignas(16) u32 data[kRows * kPitch];

  // exp(-2πi · i · (k + QUARTER / 4) / kOrder) / √kOrder as operands a. Forward, rows are 8 k with their real, then their
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
    constexpr float kUnitary = unitary(kOrder);
    const float2 w = root(i * (4 * k + QUARTER), 4 * kOrder);
    return make_float2(w.x * kUnitary, w.y * kUnitary);
  }
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the size that Python asks for");

// What joins the transforms of even and odd values at the frequency k.
__device__ __forceinline__ float2 joint(int k) { return root(4 * k + QUARTER, 4 * kRows); }

// u · before, scaled; its transform over i, with the twiddles towards j, to shared memory.
__device__ __forceinline__ void load(Shared& shared, long row, const Params& p) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
  // Of each half and of 16 rows the rows 2c, 2c + 1, 2c + 8, 2c + 9, and kProducts columns beside each other.
  float x[kRounds][kHalves][kBlocks][4][kProducts];
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    float largest = 0;
#pragma unroll
    for (int half = 0; half < kHalves; half++)
#pragma unroll
      for (int i = 0; i < 4 * kBlocks; i++) {
        const int at = (i / 4 * 16 + 2 * c + i % 2 + i / 2 % 2 * 8) * kHalves + half;
        float(&to)[kProducts] = x[round][half][i / 4][i % 4];
        load_input(to, row, at * 256 + (warp + round * kWarps) * kColumns + kProducts * g, p);
        largest = larger_of(largest, to);
      }
    const u32 bits = largest_of_warp(largest);
    if (lane == 0) shared.largest[warp + round * kWarps] = bits;
  }
  __syncthreads();
  const float scale = scale_of<kBound>(exponent_of<kBound>(largest_of(shared.largest))) * unitary(kHalves);
  const float2 further = known_root<8, kSize>(), joint_further = known_root<8, kRows>();
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    constexpr int kBeside = 2 * kProducts;  // columns from j on
    const int j = (warp + round * kWarps) * kColumns + kBeside * c;
    u32 b[kHalves][kBlocks][kProducts][2];
#pragma unroll
    for (int i = 0; i < kHalves * kBlocks * kProducts * 2; i++) {
      const int pair = i % 2, n = i / 2 % kProducts, block = i / 2 / kProducts % kBlocks, half = i / 2 / kProducts / kBlocks;
      const float(&of)[4][kProducts] = x[round][half][block];
      b[half][block][n][pair] = tiles::pack<f16>(of[2 * pair][n] * scale, of[2 * pair + 1][n] * scale);
    }
    // The twiddles of the column j and the frequency k, those of the next columns, and both 8 frequencies on.
    float2 first = root(j * (4 * g + QUARTER), 4 * kSize), step = root(4 * g + QUARTER, 4 * kSize), join = joint(g);
    const float2 next = root(8 * j, kSize);
    float2 apart[kBeside];  // between the frequencies k and k + kOrder
#pragma unroll
    for (int i = 0; i < kBeside; i++)
      if (kHalves == 2) apart[i] = root(kOrder * (j + i), kSize);
#pragma unroll 1
    for (int k = 0; k < kOrder / 8; k++) {
      float d[kHalves][kProducts][4] = {};
#pragma unroll
      for (int block = 0; block < kBlocks; block++) {
        const uint4 a = shared.forward[k * kBlocks + block][lane];
#pragma unroll
        for (int half = 0; half < kHalves; half++) multiply_add(d[half], a, b[half][block]);
      }
      u32 words[kHalves][kBeside];
      float2 w = first;
#pragma unroll
      for (int i = 0; i < kBeside; i++) {
        const int n = i % kProducts, e = i / kProducts;
        float2 z = make_float2(d[0][n][e], d[0][n][2 + e]);
        if (kHalves == 2) {
          const float2 odd = times(make_float2(d[kHalves - 1][n][e], d[kHalves - 1][n][2 + e]), join);
          words[kHalves - 1][i] = packed_half(times(make_float2(z.x - odd.x, z.y - odd.y), times(w, apart[i])));
          z = make_float2(z.x + odd.x, z.y + odd.y);
        }
        words[0][i] = packed_half(times(z, w));
        w = times(w, step);
      }
#pragma unroll
      for (int i = 0; i < kHalves * kBeside; i += 4) {
        const int half = i / kBeside, at = j + i % kBeside;
        const u32* four = &words[half][i % kBeside];
        *(uint4*)&shared.data[(half * kOrder + 8 * k + g) * kPitch + place_of(at / 16, at % 16)] =
            make_uint4(four[0], four[1], four[2], four[3]);
      }
      first = times(first, next), step = times(step, further), join = times(join, joint_further);
    }
  }
}

// The transform over k back, and y.
__device__ __forceinline__ void store(const Shared& shared, int sequence, long row, const Params& p) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
  const Factors by(sequence / p.batch, p);
  const float scale = inverse_scale_of<kBound>(exponent_of<kBound>(largest_of(shared.largest))) * unitary(kHalves);
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    const int first = (warp + round * kWarps) * kColumns;
    u32 b[kHalves][2 * kBlocks][kProducts][2];
    float2 join = joint(c);
#pragma unroll
    for (int k = 0; k < 4 * kBlocks; k++) {
#pragma unroll
      for (int n = 0; n < kProducts; n++) {
        const int j = first + n / 2 * 16 + column_of(n % 2, g);
        const u32* at = &shared.data[(4 * k + c) * kPitch + place_of(j / 16, j % 16)];
        b[0][k / 2][n][k % 2] = *at;
        if (kHalves == 2) {
          const float2 low = tiles::unpack<f16>(*at), high = tiles::unpack<f16>(at[kOrder * kPitch]);
          b[0][k / 2][n][k % 2] = packed_half(make_float2(low.x + high.x, low.y + high.y));
          b[kHalves - 1][k / 2][n][k % 2] = packed_half(times(make_float2(low.x - high.x, low.y - high.y), join));
        }
      }
      join = times(join, known_root<4, kRows>());
    }
#pragma unroll 1
    for (int block = 0; block < kBlocks; block++) {
      float d[kHalves][kProducts][4] = {};
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; i++) {
        const uint4 a = shared.backward[block * 2 * kBlocks + i][lane];
#pragma unroll
        for (int half = 0; half < kHalves; half++) multiply_add(d[half], a, b[half][i]);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {  // of row g, then of row g + 8, the first and the second four columns or both halves
        const int low = i % 2 * 2, pair = i / 2, half = kHalves == 2 ? pair : 0, n = kHalves == 2 ? 0 : 2 * pair;
        const float(&one)[4] = d[half][n], (&two)[4] = d[half][n + 1];
        const float y[4] = {one[low] * scale, one[low + 1] * scale, two[low] * scale, two[low + 1] * scale};
        const int at = (block * 16 + g + low * 4) * kHalves + half;
        store_output(y, row, by, at * 256 + first + n * 8 + 4 * c, p);
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
    const u32* spectrum = p.spectrum + (long)(sequence / p.batch / p.per_filter) * kSize;
    convolve_rows<QUARTER, kRows, kWarps>(shared.data, shared.constants, spectrum);
    __syncthreads();
    store(shared, sequence, row, p);
    __syncthreads();
  }
}
