// int8 and int4 weights as operands of the integer tensor cores: they are multiplied as they lie in the ring, int4 spread
// to bytes, by inputs in 16-bit fixed point.
//
// A block is one group of 32 columns in int8, two in int4. Of a group, lane 4g + t holds rows g and g + 8 of 8
// consecutive elements of the input, in the order in which `store_input` keeps them. An element is unit · (256 · high +
// low): two signed bytes, and a power of two that the 32 elements share which meet a group. Each byte has a column of the
// product: a lane gets both sums of a sequence, joins them as an integer, which is exact, and multiplies by the unit and
// the scales of the rows. Elements of at least 1/128 of the largest of the 32 are exact. Others err by half a unit at
// most, less than 1/32,600 of the largest.
//
// A code of int4 is spread to the high half of a byte, 16 times itself: no sign has to be extended. Units are 1/16 then.
//
// With zero points or minimums codes are 0 to 15. They lie in the ring less 8, and a group's sum of inputs is multiplied
// by what that leaves out.
//
// A product has columns for four sequences. With one or two of them, the sums of four or two groups are joined before
// they are scaled: each group has columns of its own, in which the others meet zeros.
#pragma once
#include "chunk.cuh"

template <class>
constexpr float kUndo = 1.f;                             // rows have no scale of their own
constexpr int kLanes = kColumns < 4 ? 4 / kColumns : 1;  // lanes, and groups, of one sequence in a product
constexpr int kPasses = kColumns > 4 ? 2 : 1;            // products of a group
template <class F>
constexpr int kOwn = kEach * F::kGroups;  // groups of a chunk that a warp multiplies
template <class F>
constexpr int kSpans = (kOwn<F> + kLanes - 1) / kLanes;  // of kLanes groups, of these

// A lane's share of a warp's blocks of a chunk, and their inputs; scales and units are those of its group.
template <class F>
struct Codes {
  uint4 codes[kEach];
  u32 scales[kSpans<F>][F::kZeros ? 2 : 1];  // of rows g and g + 8 in float16; and their zeros
};
template <class F>
struct Inputs {
  uint2 bytes[kOwn<F>][kPasses];
  float units[kSpans<F>][kPasses][F::kZeros ? 2 : 1];  // and the sum of a group's elements
};
using Sums = float[kPasses][2];  // of rows g and g + 8

// The place of the warp's i-th group among the groups of a chunk.
template <class F>
__device__ __forceinline__ int group_in_chunk(int i) {
  return (i / F::kGroups * WARPS + threadIdx.x / 32) * F::kGroups + i % F::kGroups;
}

// Loads this warp's blocks of a chunk of `tiles` tiles, and zeros for blocks beyond the chunk.
template <class F>
__device__ __forceinline__ void load_codes(Codes<F>& own, const char* chunk, int tiles) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto inside = [&](int n) {
    return n < kEach && ((n + 1) * WARPS * F::kBlockTiles <= tiles || (n * WARPS + warp) * F::kBlockTiles < tiles);
  };
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    const char* codes = chunk + (i * WARPS + warp) * F::kBlock + lane * 16;
    own.codes[i] = inside(i) ? *(const uint4*)codes : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int span = 0; span < kSpans<F>; span++) {
    const int group = span * kLanes + lane % 4 % kLanes, i = group / F::kGroups;
    const int scale = group % F::kGroups * F::kScales / F::kGroups;
    const char* scales = chunk + (i * WARPS + warp) * F::kBlock + kBlockCodes + scale * F::kScaleBytes;
    if constexpr (F::kZeros) {
      const uint2 both = inside(i) ? *(const uint2*)(scales + lane / 4 * 8) : make_uint2(0, 0);
      own.scales[span][0] = both.x;
      own.scales[span][1] = both.y;
    } else {
      own.scales[span][0] = inside(i) ? *(const u32*)(scales + lane / 4 * 4) : 0;
    }
  }
}

// The codes of a group as an operand: four of row g, of row g + 8, then the next four of each.
template <class F>
__device__ __forceinline__ uint4 operand(const uint4& codes, int group) {
  if (F::kBits == 8) return codes;
  constexpr u32 kHigh = 0xf0f0f0f0u;
  const u32 row = group ? codes.z : codes.x, below = group ? codes.w : codes.y;
  return make_uint4(row << 4 & kHigh, below << 4 & kHigh, row & kHigh, below & kHigh);
}

// What a code less 8 times the scale leaves out of a value.
template <class F>
__device__ __forceinline__ float left_out(float scale, float zero) {
  return F::kZeros == 1 ? (8.f - zero) * scale : fmaf(8.f, scale, zero);
}

// sum += the warp's blocks of a chunk of `tiles` times their inputs.
template <class F>
__device__ __forceinline__ void multiply(Sums& sum, const Codes<F>& own, const Inputs<F>& input, int tiles) {
#pragma unroll
  for (int span = 0; span < kSpans<F>; span++) {
    if (span * kLanes / F::kGroups * WARPS * F::kBlockTiles >= tiles) break;  // no warp has such groups
    const float2 scale = unpack<f16>(own.scales[span][0]);
#pragma unroll
    for (int pass = 0; pass < kPasses; pass++) {
      int product[kLanes][4] = {};  // of each group, so that products do not wait for each other
#pragma unroll
      for (int n = 0; n < kLanes && span * kLanes + n < kOwn<F>; n++) {
        const int i = span * kLanes + n;
        const uint4 a = operand<F>(own.codes[i / F::kGroups], i % F::kGroups);
        const uint2 x = input.bytes[i][pass];
        mma_sync(product[n], {a.x, a.y, a.z, a.w}, x.x, x.y);
      }
#pragma unroll
      for (int i = 1; i < kLanes; i++)
#pragma unroll
        for (int n = 0; n < 4; n++) product[0][n] += product[i][n];
      const float unit = input.units[span][pass][0];
      sum[pass][0] = fmaf((float)(product[0][0] * 256 + product[0][1]), scale.x * unit, sum[pass][0]);
      sum[pass][1] = fmaf((float)(product[0][2] * 256 + product[0][3]), scale.y * unit, sum[pass][1]);
      if constexpr (F::kZeros) {
        const float2 zero = unpack<f16>(own.scales[span][1]);
        const float total = input.units[span][pass][1];
        sum[pass][0] = fmaf(left_out<F>(scale.x, zero.x), total, sum[pass][0]);
        sum[pass][1] = fmaf(left_out<F>(scale.y, zero.y), total, sum[pass][1]);
      }
    }
  }
}

template <class>
__device__ __forceinline__ void leave_sums(float (&mine)[16 * BATCH], const Sums& sum, float2, float2) {
#pragma unroll
  for (int pass = 0; pass < kPasses; pass++) leave_rows<kLanes>(mine, sum[pass][0], sum[pass][1], pass * 4);
}

// The bytes of 8 elements, eight bf16, that the lane's column has: high ones in even columns, low ones in odd. Lanes 4i
// to 4i + 3 have the 32 elements of one unit. It is NaN where one of them is not finite.
template <class F>
__device__ __forceinline__ uint2 fixed_point(const uint4& elements, float& unit) {
  const u32 pairs[4] = {elements.x, elements.y, elements.z, elements.w};
  u32 most = 0;
#pragma unroll
  for (const u32 pair : pairs) most = __vmaxu2(most, pair & 0x7fff7fffu);
  most = __vmaxu2(most, __shfl_xor_sync(~0u, most, 1));
  most = __vmaxu2(most, __shfl_xor_sync(~0u, most, 2));
  // The largest becomes 2^14 to 32,512, whose high byte is 127: a number that would round up counts as the next power
  // of two. Numbers under 2^-112, in int4 2^-108, become 0; factor and unit are normal then.
  constexpr u32 kSpread = 8 - F::kBits;  // the logarithm of what codes are multiplied by
  const u32 exponent = max((max(most & 0xffff, most >> 16) + 1) >> 7, 15u + kSpread);
  unit = exponent < 255 ? __uint_as_float((exponent - 14 - kSpread) << 23) : __uint_as_float(0x7fffffffu);
  const float factor = __uint_as_float((268 - exponent) << 23);
  const bool low = threadIdx.x / 4 % 2;
  u32 bits[4];  // of two numbers, 128 added: the high byte is then rounded, and the low one is as if unsigned
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 pair = unpack<bf16>(pairs[i]);
    constexpr float kInteger = 12582912.f + 128.f;  // 1.5 · 2^23: the bits of the sum end in the integer
    const u32 first = __float_as_uint(fmaf(pair.x, factor, kInteger));
    bits[i] = __byte_perm(first, __float_as_uint(fmaf(pair.y, factor, kInteger)), 0x5410);
  }
  const u32 chosen = low ? 0x6420 : 0x7531, sign = low ? 0x80808080u : 0;
  return make_uint2(__byte_perm(bits[0], bits[1], chosen) ^ sign, __byte_perm(bits[2], bits[3], chosen) ^ sign);
}

// The sum of the elements of which lanes 4i to 4i + 3 have the high bytes, and the next four lanes the low ones.
template <class F>
__device__ __forceinline__ float total_of(const uint2& bytes, float unit) {
  int sum = __dp4a((int)bytes.x, 0x01010101, __dp4a((int)bytes.y, 0x01010101, 0));
  if (threadIdx.x / 4 % 2 == 0) sum *= 256;
#pragma unroll
  for (int o = 1; o <= 4; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
  return (float)sum * (unit * (1 << (8 - F::kBits)));
}

// Where the 8 elements lie that this lane needs for a group, and where their unit lies, with the total behind it: behind
// the elements of all INPUT_LENGTH. The input's first tile lies at `input`.
__device__ __forceinline__ char* elements_at(char* input, int group, int sequence) {
  const int quad = threadIdx.x % 4;
  return input + ((group * 2 + quad / 2) * kColumns + sequence) * 32 + quad % 2 * 16;
}
__device__ __forceinline__ float* unit_at(char* input, int group, int sequence) {
  return (float*)(input + kInputBytes) + (group * kColumns + sequence) * kUnitWords;
}

// Loads the inputs of this warp's blocks of a chunk, the product's number `c`, of `tiles` tiles. The first tile's input
// lies at `input`. KEPT: `prepare_inputs` has left the inputs as bytes.
template <bool KEPT, class F>
__device__ __forceinline__ void load_inputs(Inputs<F>& x, char* input, int c, int tiles) {
  const int column = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
  const int own = column / 2 % kLanes;  // of the span, the group that this lane's column is for
#pragma unroll
  for (int span = 0; span < kSpans<F>; span++)
#pragma unroll
    for (int pass = 0; pass < kPasses; pass++) {
      const int i = span * kLanes + own, group = group_in_chunk<F>(i);
      const int sequence = column / 2 / kLanes + pass * 4;
      const char* from = elements_at(input, group, sequence);
      const bool inside = i < kOwn<F> && group * 2 + quad / 2 < tiles;
      float unit = 0, total = 0;
      uint2 bytes = make_uint2(0, 0);
      if (KEPT) {
        if (inside) bytes = *(const uint2*)(from + column % 2 * 8);
        if (i < kOwn<F> && group * 2 < tiles) {
          const float* at = unit_at(input - c * kChunkInput<F>, c * kChunkBlocks * F::kGroups + group, sequence);
          unit = *at;
          if (F::kZeros) total = at[1];
        }
      } else {
        bytes = fixed_point<F>(inside ? *(const uint4*)from : make_uint4(0, 0, 0, 0), unit);
        if (F::kZeros) total = total_of<F>(bytes, unit);
      }
      if constexpr (F::kZeros) x.units[span][pass][1] = __shfl_sync(~0u, total, quad * 8);
      x.units[span][pass][0] = __shfl_sync(~0u, unit, quad * 8);  // of column 2t
#pragma unroll
      for (int other = 0; other < kLanes && span * kLanes + other < kOwn<F>; other++)
        x.bytes[span * kLanes + other][pass] = kLanes == 1 || own == other ? bytes : make_uint2(0, 0);
    }
}

// A warp that does not keep the inputs of its blocks in registers leaves them as bytes in the place of the elements.
template <class F, int Tiles, bool IN_REGISTERS>
__device__ __forceinline__ float2 prepare_inputs(char* input, int tiles) {
  const int column = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
  constexpr int kWarps = IN_REGISTERS ? 0 : (Tiles + F::kBlockTiles * WARPS - 1) / (F::kBlockTiles * WARPS) * F::kGroups;
#pragma unroll 4
  for (int at = column / 2; at - column / 2 < kWarps * kColumns; at += 4) {
    const int group = group_in_chunk<F>(at / kColumns), sequence = at % kColumns;
    char* place = elements_at(input, group, sequence);
    const bool inside = group * 2 + quad / 2 < tiles;
    float unit;
    const uint2 bytes = fixed_point<F>(inside ? *(const uint4*)place : make_uint4(0, 0, 0, 0), unit);
    const float total = F::kZeros ? total_of<F>(bytes, unit) : 0.f;
    __syncwarp();
    if (inside) *(uint2*)(place + column % 2 * 8) = bytes;
    if (inside && column % 2 == 0 && quad == 0) {
      float* at = unit_at(input, group, sequence);
      *at = unit;
      if (F::kZeros) at[1] = total;
    }
  }
  __syncwarp();
  return make_float2(1.f, 1.f);
}
