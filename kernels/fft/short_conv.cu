// Causal convolution with few taps, as products with Toeplitz matrices on tensor cores. A warp takes 16 segments of a
// row, each SEGMENT · 16 values long. In each it makes 16 outputs at a time of the 16 inputs beside them and of those
// before, STEPS · 16 in all, which stay in its registers. Nothing goes through shared memory.
#include "sequences.cuh"

constexpr int kSteps = STEPS, kAhead = 4, kSpan = 16 * SEGMENT, kWarps = THREADS / 32;
static_assert(SEGMENT % kAhead == 0, "whole groups of loads");

// u · before at place n of the segments g and g + 8, as a of a product: this lane has the inputs 4c to 4c + 3 of 16.
__device__ __forceinline__ void load_inputs(u32 (&a)[4], long row, int n, const Params& p) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float x[4] = {};
    const int at = n + h * 8 * kSpan;
    if (at >= 0) load_input(x, row + at, at, p);
    a[h] = tiles::pack<Element>(x[0], x[1]), a[2 + h] = tiles::pack<Element>(x[2], x[3]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) short_conv(const __grid_constant__ Params p) {
  const int chunks = (p.length + 16 * kSpan - 1) / (16 * kSpan), job = blockIdx.x * kWarps + threadIdx.x / 32;
  const int sequence = job / chunks, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
  if (sequence >= p.end) return;
  const int start = job % chunks * 16 * kSpan + g * kSpan + 4 * c;
  const long row = row_of(sequence, p);
  const Factors by(sequence, p);
  const Element* taps = (const Element*)p.spectrum + (long)filter_of(sequence) * TAPS;
  // The input s of the group that lies `step` groups back enters the output r by tap 16 · step + r - s. The columns
  // 2c, 2c + 1 of both products are the outputs 4c to 4c + 3.
  u32 matrix[kSteps][2][2];
#pragma unroll
  for (int step = 0; step < kSteps; step++)
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int tap = 16 * step + g / 2 * 4 + 2 * n + g % 2 - (4 * c + 2 * half);
        const float first = tap >= 0 && tap < TAPS ? (float)taps[tap] : 0.f;
        const float second = tap >= 1 && tap <= TAPS ? (float)taps[tap - 1] : 0.f;
        matrix[step][n][half] = tiles::pack<Element>(first, second);
      }
  u32 x[kSteps - 1 + kAhead][4];
#pragma unroll
  for (int i = 0; i < kSteps - 1; i++) load_inputs(x[i], row, start + 16 * (i - kSteps + 1), p);
#pragma unroll 1
  for (int group = 0; group < SEGMENT; group += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; i++) load_inputs(x[kSteps - 1 + i], row, start + 16 * (group + i), p);
    Beside beside[kAhead][2];
#pragma unroll
    for (int i = 0; i < 2 * kAhead; i++) {
      const int n = start + 16 * (group + i / 2) + i % 2 * 8 * kSpan;
      beside[i / 2][i % 2].load(row + n, n, p);
    }
#pragma unroll
    for (int i = 0; i < kAhead; i++) {
      float d[2][4] = {};
#pragma unroll
      for (int step = 0; step < kSteps; step++)
#pragma unroll
        for (int n = 0; n < 2; n++)
          tiles::mma_sync<Element>(d[n], x[kSteps - 1 + i - step], matrix[step][n][0], matrix[step][n][1]);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const float y[4] = {d[0][2 * h], d[0][2 * h + 1], d[1][2 * h], d[1][2 * h + 1]};
        const int n = start + 16 * (group + i) + h * 8 * kSpan;
        store_output(y, beside[i][h], by, row + n, n, p);
      }
    }
#pragma unroll
    for (int i = 0; i < kSteps - 1; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) x[i][j] = x[i + kAhead][j];
  }
}
