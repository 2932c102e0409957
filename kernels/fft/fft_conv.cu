// Convolution of real sequences with filters as long as they are, in one kernel: a Fourier transform of each sequence,
// the product with the filter's, made ahead, and the transform back. A causal convolution of N values is a complex
// transform of N points at the frequencies k + 1/4: what wraps around is multiplied by -i, and the real part is left.
//
// N = P · 256, n = i · 256 + j. The transform over i is a product of a real matrix: real values come in, and real ones go
// out at the end. Each of the P rows k is then a tile of 16 × 16 complex values. The matrix has 16 to 64 rows:
//   below 4,096 values a block takes SEQUENCES = 16 / P sequences, whose matrices stand along the diagonal of one;
//   with 128 rows HALVES is 2: the even and the odd i are transformed apart, and joined.
#include "sequences.cuh"
#include "tiles16.cuh"

constexpr int kSequences = SEQUENCES, kHalves = HALVES, kSize = POINTS, kWarps = THREADS / 32;
constexpr int kPart = POINTS / 256, kRows = kPart * kSequences, kOrder = kRows / kHalves;  // rows of a sequence, of all
constexpr int kBound = bound_of(kSize);
// A warp takes 32 columns j at a time, or 16 of both halves: 8 in each product.
constexpr int kProducts = 4 / kHalves, kColumns = 8 * kProducts, kRounds = 256 / kColumns / kWarps;
// Operands of the product, by lane: 16 outputs or inputs, real and imaginary parts, of 16.
constexpr int kBlocks = kOrder / 16, kOperands = 2 * kBlocks * kBlocks;
static_assert(256 / kColumns % kWarps == 0, "whole rounds");
static_assert(kSequences == 1 || (kRows == 16 && kHalves == 1), "several sequences share one matrix");

struct Shared {
  Constants constants;
  Twiddles<kPart, QUARTER> twiddles;
  uint2 joints[kHalves == 2 ? kOrder : 2];  // what joins the even and the odd part at the frequency k: w and i · w
  uint4 forward[kOperands][32], backward[kOperands][32];
  u32 largest[2][kSequences];  // bits of the largest value of each sequence, and zeros for the next ones
  alignas(16) u32 data[kRows * kPitch];

  // exp(-2πi · i · (k + QUARTER / 4) / n) / √n of n rows as operands a. Forward, rows are 8 k with their real, then their
  // imaginary parts, and columns 16 i. Backward, rows are 16 i and columns 8 k with both parts in turn.
  __device__ void make() {
    const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
    constants.make(), twiddles.make();
    for (int k = threadIdx.x; kHalves == 2 && k < kOrder; k += THREADS) {
      const float2 w = root(4 * k + QUARTER, 4 * kRows);
      joints[k] = make_uint2(packed_half(w), packed_half(make_float2(-w.y, w.x)));
    }
    if (threadIdx.x < 2 * kSequences) largest[threadIdx.x / kSequences][threadIdx.x % kSequences] = 0;
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
    constexpr int kOwn = kOrder / kSequences;
    constexpr float kUnitary = unitary(kOwn);
    const float2 w = root(i % kOwn * (4 * (k % kOwn) + QUARTER), 4 * kOwn);
    return k / kOwn == i / kOwn ? make_float2(w.x * kUnitary, w.y * kUnitary) : make_float2(0, 0);
  }
};
static_assert(sizeof(Shared) == SHARED_BYTES, "the size that Python asks for");

// Where a row of the block lies; `first` is its first sequence. No row exists beyond the last sequence.
struct Row {
  int sequence, n;  // the place in its sequence
  long at;
  bool exists;
  __device__ __forceinline__ Row(int row, int column, int first, const Params& p)
      : sequence(min(first + row / kPart, p.end - 1)),
        n(row % kPart * 256 + column),
        at(row_of(sequence, p) + n),
        exists(kSequences == 1 || first + row / kPart < p.end) {}
};

// The largest |x| of each sequence, of the rows 2c, 2c + 1, 2c + 8, 2c + 9 in every block of 16, to shared memory.
__device__ __forceinline__ void note_largest(u32 (&largest)[kSequences], const float (&of)[4]) {
  const int c = threadIdx.x % 4;
  if (kSequences == 1) {
    const u32 bits = largest_of_warp(fmaxf(fmaxf(of[0], of[1]), fmaxf(of[2], of[3])));
    if (threadIdx.x % 32 == 0) atomicMax(&largest[0], bits);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i += kPart == 1 ? 1 : 2) {
    float x = kPart == 1 ? of[i] : fmaxf(of[i], of[i + 1]);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
      if (mask >= 4 || 2 * mask * 2 <= kPart) x = fmaxf(x, __shfl_xor_sync(~0u, x, mask));
    if (threadIdx.x % 32 < 4) atomicMax(&largest[(2 * c + i % 2 + i / 2 * 8) / kPart % kSequences], __float_as_uint(x));
  }
}

// u · before, scaled; its transform over i, with the twiddles towards j, to shared memory.
__device__ __forceinline__ void load(Shared& shared, int first, int turn, const Params& p) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
  // Of each half and of 16 rows the rows 2c, 2c + 1, 2c + 8, 2c + 9, and kProducts columns beside each other.
  float x[kRounds][kHalves][kBlocks][4][kProducts], largest[4] = {};
#pragma unroll
  for (int i = 0; i < (kSequences == 1 ? 1 : 4); i++) {
    const Row row((2 * c + i % 2 + i / 2 * 8) * kHalves, Strip<kProducts>(warp).column(g), first, p);
#pragma unroll
    for (int each = 0; each < kRounds * kHalves * kBlocks * (kSequences == 1 ? 4 : 1); each++) {
      const int round = each % kRounds, half = each / kRounds % kHalves, block = each / kRounds / kHalves % kBlocks;
      const int slot = kSequences == 1 ? each / kRounds / kHalves / kBlocks : i;
      const int on = ((block * 16 + slot % 2 + slot / 2 * 8 - i % 2 - i / 2 * 8) * kHalves + half) * 256;
      const int further = on + Strip<kProducts>(round * kWarps).column(0);
      float(&to)[kProducts] = x[round][half][block][slot];
#pragma unroll
      for (int e = 0; e < kProducts; e++) to[e] = 0;
      if (row.exists) load_input(to, row.at + further, row.n + further, p);
      largest[slot] = larger_of(largest[slot], to);
    }
  }
  note_largest(shared.largest[turn], largest);
  __syncthreads();
  if (threadIdx.x < kSequences) shared.largest[1 - turn][threadIdx.x] = 0;
  float scale[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const u32 bits = shared.largest[turn][(2 * c + i % 2 + i / 2 * 8) / kPart % kSequences];
    scale[i] = scale_of<kBound>(exponent_of<kBound>(bits)) * unitary(kHalves);
  }
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const Strip<kProducts> strip(warp + round * kWarps);
    u32 b[kHalves][kBlocks][kProducts][2];
#pragma unroll
    for (int i = 0; i < kHalves * kBlocks * kProducts * 2; i++) {
      const int pair = i % 2, n = i / 2 % kProducts, block = i / 2 / kProducts % kBlocks, half = i / 2 / kProducts / kBlocks;
      const float(&of)[4][kProducts] = x[round][half][block];
      b[half][block][n][pair] =
          tiles::pack<f16>(of[2 * pair][n] * scale[2 * pair], of[2 * pair + 1][n] * scale[2 * pair + 1]);
    }
#pragma unroll 1
    for (int k = 0; k < kOrder / 8; k++) {
      u32 d[kHalves][kProducts][2] = {};
#pragma unroll
      for (int block = 0; block < kBlocks; block++) {
        const uint4 a = shared.forward[k * kBlocks + block][lane];
#pragma unroll
        for (int half = 0; half < kHalves; half++) multiply_add(d[half], a, b[half][block]);
      }
      Pair z[kHalves][kProducts];
#pragma unroll
      for (int n = 0; n < kProducts; n++) {
        z[0][n] = {d[0][n][0], d[0][n][1]};
        if (kHalves == 1) continue;
        const Pair even = z[0][n], odd = times(Pair{d[kHalves - 1][n][0], d[kHalves - 1][n][1]}, shared.joints[8 * k + g].x);
        z[0][n] = {sum(even.re, odd.re), sum(even.im, odd.im)};
        z[kHalves - 1][n] = {difference(even.re, odd.re), difference(even.im, odd.im)};
      }
#pragma unroll
      for (int half = 0; half < kHalves; half++) {
        const int row = half * kOrder + 8 * k + g;
        strip.store(&shared.data[row * kPitch], shared.twiddles, row % kPart, z[half]);
      }
    }
  }
}

// Waits for the block; the transform over k back, and y. What y takes beside it is fetched a block of 16 rows ahead.
__device__ __forceinline__ void store(const Shared& shared, int first, int turn, const Params& p) {
  const int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4, warp = threadIdx.x / 32;
  // The rows g and g + 8 of each block of 16, and of both the first and the second four columns, or both halves.
  Row rows[2] = {Row(g * kHalves, warp * kColumns + 4 * c, first, p),
                 Row((g + 8) * kHalves, warp * kColumns + 4 * c, first, p)};
  constexpr int kApart = 8 * kHalves * 256;  // of rows of one sequence, known to the compiler
  if (kSequences == 1) rows[1].n = rows[0].n + kApart, rows[1].at = rows[0].at + kApart;
  const auto further = [](int i) { return i / 2 * (kHalves == 2 ? 256 : 16); };
  const auto fetch = [&](Beside(&beside)[4], int on) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const Row& row = rows[i % 2];
      if (row.exists) beside[i].load(row.at + on + further(i), row.n + on + further(i), p);
    }
  };
  Beside beside[4];
  fetch(beside, 0);
  Factors by[2] = {Factors(rows[0].sequence, p), Factors(rows[1].sequence, p)};
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const u32 largest = shared.largest[turn][rows[i].sequence - first];
    by[i].scale *= inverse_scale_of<kBound>(exponent_of<kBound>(largest)) * unitary(kHalves);
  }
  __syncthreads();
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    u32 b[kHalves][2 * kBlocks][kProducts][2];
#pragma unroll
    for (int k = 0; k < 4 * kBlocks; k++) {
#pragma unroll
      for (int n = 0; n < kProducts; n++) {
        const int j = (warp + round * kWarps) * kColumns + n / 2 * 16 + column_of(n % 2, g);
        const u32* at = &shared.data[(4 * k + c) * kPitch + place_of(j / 16, j % 16)];
        b[0][k / 2][n][k % 2] = *at;
        if (kHalves == 1) continue;
        const u32 low = *at, high = at[kOrder * kPitch];
        b[0][k / 2][n][k % 2] = sum(low, high);
        b[kHalves - 1][k / 2][n][k % 2] = turned(difference(low, high), shared.joints[4 * k + c]);
      }
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
      Beside next[4];
      const int on = round * kWarps * kColumns + block * 4096 * kHalves;
      const bool last = block + 1 == kBlocks;
      if (!last || round + 1 < kRounds) fetch(next, last ? (round + 1) * kWarps * kColumns : on + 4096 * kHalves);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int low = i % 2 * 2, half = kHalves == 2 ? i / 2 : 0, n = kHalves == 2 ? 0 : i / 2 * 2;
        const float(&one)[4] = d[half][n], (&two)[4] = d[half][n + 1];
        const float y[4] = {one[low], one[low + 1], two[low], two[low + 1]};
        const Row& row = rows[i % 2];
        if (row.exists)
          store_output(y, beside[i], by[i % 2], row.at + on + further(i), row.n + on + further(i), p);
        beside[i] = next[i];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) fft_conv(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *(Shared*)memory;
  shared.make();
  __syncthreads();
  // A warp that has stored its part begins to load the next sequences: load waits for the block before it writes.
  for (int first = blockIdx.x * kSequences, turn = 0; first < p.end; first += gridDim.x * kSequences, turn ^= 1) {
    load(shared, first, turn, p);
    prefetch_next<kSequences>(first, p);
    convolve_rows<kRows, kPart, kWarps>(shared.data, shared.constants, shared.twiddles, [&](int row) {
      const int sequence = min(first + row / kPart, p.end - 1);
      return p.spectrum + (long)filter_of(sequence) * kSize + row % kPart * 256;
    });
    store(shared, first, turn, p);
  }
}
