// What the passes over a long sequence share: the scales of strips of columns, and the twiddles between rows.
#pragma once
#include "sequences.cuh"
#include "tiles16.cuh"

// Long sequences: OUTER rows of `points` values. The kStrip columns that are transformed at once share an exponent.
constexpr int kStrip = STRIP, kStripBound = bound_of(OUTER * kStrip);

// The largest exponent of a sequence's strips. A whole warp calls it.
template <int Points>
__device__ __forceinline__ int largest_exponent(const int* exponents) {
  int largest = 0;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < Points / kStrip; i += 32) largest = max(largest, exponents[i]);
  return __reduce_max_sync(~0u, (u32)largest);
}
// By how much, as a power of two, rows are scaled down more than strips: the sums of squares of all strips add up.
template <int Points>
constexpr int kMore = (log2_of(Points / kStrip) + 1) / 2;

// The twiddle between the frequency k over the rows and the place j in a row.
template <int Points>
__device__ __forceinline__ float2 outer_twiddle(int k, int j) {
  return root(j * (4 * k + QUARTER), 4 * OUTER * Points);
}
