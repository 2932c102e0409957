// Rows of the tensors u, gates and y [batch][width][length], four neighbours at a time, and their scales.
#pragma once
#include "tiles.cuh"

using tiles::u32;
using Element = tiles::ELEMENT;

struct Params {
  const Element *u, *before, *after;  // [batch][width][length]; before and after may be null
  const u32* spectrum;                // [filters][OUTER][points], in the order of the registers
  const float *scales, *skip;         // [filters]; [width] or null
  Element* y;
  u32* workspace;                      // [sequences][OUTER][points]; null where OUTER is 1
  int* exponents;                      // [sequences][strips]
  int width, length;
  int prefetched;                      // bytes of a row that are fetched to L2 ahead, a multiple of 16
  int begin, end;                      // the sequences of this launch
};
static_assert(sizeof(Params) == PARAMS_BYTES, "the fields of Python");

// Where a sequence begins. They count channel by channel, so that a filter is read by neighbours in time.
__device__ __forceinline__ long row_of(int sequence, const Params& p) {
  return ((long)(sequence % BATCH) * p.width + sequence / BATCH) * p.length;
}
// The channel of a sequence, and its filter.
__device__ __forceinline__ int channel_of(int sequence) { return sequence / BATCH; }
__device__ __forceinline__ int filter_of(int sequence) { return channel_of(sequence) / PER_FILTER; }

// Fetches what is read next to L2: the gates behind the convolution, then the inputs of the next sequences.
template <int Sequences>
__device__ __forceinline__ void prefetch_next(int first, const Params& p) {
  const int sequence = first + threadIdx.x, following = sequence + gridDim.x * Sequences;
  if (!p.prefetched || threadIdx.x >= Sequences) return;
  if (GATED && sequence < p.end) tiles::bulk_prefetch_l2(p.after + row_of(sequence, p), p.prefetched);
  if (following >= p.end) return;
  tiles::bulk_prefetch_l2(p.u + row_of(following, p), p.prefetched);
  if (GATED) tiles::bulk_prefetch_l2(p.before + row_of(following, p), p.prefetched);
}

// Whether place n lies in a row. FULL: every place does.
__device__ __forceinline__ bool inside(int n, const Params& p) { return FULL || n < p.length; }

// `at` is where place n of a row lies in a tensor.

// Two or four values from place n of a row; zeros beyond its end. FOURS: rows begin at multiples of four values.
template <int N>
struct Packed {
  u32 words[N / 2] = {};
  __device__ __forceinline__ void load(const Element* from, int n, const Params& p) {
    if (!FOURS) {
#pragma unroll
      for (int e = 0; e < N; e++)
        if (inside(n + e, p)) words[e / 2] |= (u32)(*(const unsigned short*)(from + e)) << e % 2 * 16;
    } else if (inside(n, p)) {
      if (N == 4)
        *(uint2*)words = *(const uint2*)from;
      else
        words[0] = *(const u32*)from;
    }
  }
  __device__ __forceinline__ void unpack(float (&to)[N]) const {
#pragma unroll
    for (int e = 0; e < N; e += 2) {
      const float2 two = tiles::unpack<Element>(words[e / 2]);
      to[e] = two.x, to[e + 1] = two.y;
    }
  }
};

// u · before from place n of a row.
template <int N>
__device__ __forceinline__ void load_input(float (&to)[N], long at, int n, const Params& p) {
  Packed<N> u, before;
  u.load(p.u + at, n, p);
  if (GATED) before.load(p.before + at, n, p);
  u.unpack(to);
  if (!GATED) return;
  float gate[N];
  before.unpack(gate);
#pragma unroll
  for (int e = 0; e < N; e++) to[e] *= gate[e];
}

// What a sequence's y takes from its channel.
struct Factors {
  float scale, skip;
  __device__ __forceinline__ Factors(int sequence, const Params& p)
      : scale(p.scales[filter_of(sequence)]), skip(SKIP ? p.skip[channel_of(sequence)] : 0.f) {}
};
// What four places of y take from u and the gate, loaded ahead of their use.
struct Beside {
  Packed<4> after, u;
  __device__ __forceinline__ void load(long at, int n, const Params& p) {
    *this = Beside();
    if (GATED) after.load(p.after + at, n, p);
    if (SKIP) u.load(p.u + at, n, p);
  }
};
// y = convolved · scale · after + skip · u at place n of a row.
__device__ __forceinline__ void store_output(const float (&convolved)[4], const Beside& beside,
                                             const Factors& by, long at, int n, const Params& p) {
  float gate[4], u[4], y[4];
  beside.after.unpack(gate), beside.u.unpack(u);
#pragma unroll
  for (int e = 0; e < 4; e++) {
    y[e] = convolved[e] * by.scale;
    if (GATED) y[e] *= gate[e];
    if (SKIP) y[e] += by.skip * u[e];
  }
  Element* to = p.y + at;
  if (FOURS) {
    if (inside(n, p)) *(uint2*)to = make_uint2(tiles::pack<Element>(y[0], y[1]), tiles::pack<Element>(y[2], y[3]));
  } else {
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (inside(n + e, p)) to[e] = (Element)y[e];
  }
}

// The largest |x|, NaN left out: it comes out of a transform in every place, whatever the scale.
template <int N>
__device__ __forceinline__ float larger_of(float largest, const float (&x)[N]) {
#pragma unroll
  for (int e = 0; e < N; e++) largest = fmaxf(largest, fabsf(x[e]));
  return largest;
}
// The same of a warp, as bits, which are ordered as the values are.
__device__ __forceinline__ u32 largest_of_warp(float largest) {
  return __reduce_max_sync(~0u, __float_as_uint(largest));
}
template <int N>
__device__ __forceinline__ u32 largest_of(const u32 (&values)[N]) {
  u32 largest = 0;
#pragma unroll
  for (int i = 0; i < N; i++) largest = max(largest, values[i]);
  return largest;
}
// The exponent that scales values whose largest is given to below 2^Bound; it is bounded so that the scale and the
// inverse are normal numbers. Infinity is not scaled.
template <int Bound>
__device__ __forceinline__ int exponent_of(u32 largest) {
  const int exponent = largest >> 23;
  return exponent == 255 ? Bound + 126 : max(exponent, Bound);
}
template <int Bound>
__device__ __forceinline__ float scale_of(int exponent) {
  return __uint_as_float((u32)(Bound + 253 - exponent) << 23);
}
template <int Bound>
__device__ __forceinline__ float inverse_scale_of(int exponent) {
  return __uint_as_float((u32)(exponent + 1 - Bound) << 23);
}
__host__ __device__ constexpr int log2_of(int power) { return power < 2 ? 0 : 1 + log2_of(power / 2); }
// Values below this power of two: `count` squares stay in fp16's range, and every unitary step keeps it.
__host__ __device__ constexpr int bound_of(int count) { return 15 - (log2_of(count) + 1) / 2; }
// 1 / √count.
__host__ __device__ constexpr float unitary(int count) {
  return count == 1 ? 1.f : count == 2 ? 0.70710678f : unitary(count / 4) / 2;
}
