// Streamed weights as operands of the matrix units: a chunk's blocks times the inputs they meet, in each precision.
#pragma once
#include "stream.cuh"

// A block is 512 bytes, 16 a lane: kBlockTiles tiles of 16 x 16. Lane 4g + t holds rows g and g + 8 of 4 * kBlockTiles
// consecutive elements of the input, in the order in which `store_input` keeps them, and multiplies them in kBlockTiles
// products. In lower precision
// - fp8: codes come out as bf16 times 2^-120 by moving bits alone, the input goes in times 2^100, and the row's scale
//   times 2^20 makes it good;
// - nvfp4: codes come out as bf16 times 2^-126, their tile's e4m3 scale times 2^119 (a normal number, so moving bits is
//   enough), and the row's scale times 2^7.
constexpr float kUndo = WEIGHT_BITS == 8 ? 1048576.f : WEIGHT_BITS == 4 ? 128.f : 1.f;

constexpr int kBlocksEach = kChunkBlocks / kGroupWarps;
static_assert(kChunkBlocks % kGroupWarps == 0, "a chunk is dealt evenly to a group of warps");
constexpr int kMost = WEIGHT_BITS == 4 || DEBUG ? 4 : 8;  // more would spill
constexpr int kTogether = kBlocksEach < kMost ? kBlocksEach : kMost;  // blocks that a warp loads before it multiplies
constexpr int kChains = 4;                                            // independent sums of a warp

// a lane's share of a block, and the inputs it meets
struct Loaded {
  uint4 codes;
  uint2 input[kBlockTiles];
  u32 scales;  // nvfp4: of rows g (low byte) and g + 8
};

__device__ __forceinline__ u32 rotated_right(u32 x, int bits) { return __funnelshift_r(x, x, bits); }
__device__ __forceinline__ u32 times(u32 pair, u32 factors) {
  u32 product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(pair), "r"(factors));
  return product;
}

// Four e4m3 codes as two pairs of bf16, times 2^-120.
__device__ __forceinline__ uint2 four_e4m3(u32 word) {
  return make_uint2(word & 0x87f087f0u, (rotated_right(word, 4) & 0x87808780u) | (word << 4 & 0x00700070u));
}

// Eight e2m1 codes as four pairs of bf16, times 2^-126.
__device__ __forceinline__ uint4 eight_e2m1(u32 word) {
  return make_uint4(word & 0x81c081c0u, word << 3 & 0x81c081c0u,
                    (word << 6 & 0x01c001c0u) | (word << 2 & 0x80008000u),
                    (word >> 3 & 0x01c001c0u) | (word << 1 & 0x80008000u));
}

// The scale of row g (half 0) or g + 8 (half 1) as a pair of bf16, times 2^119.
__device__ __forceinline__ u32 scale_pair(u32 scales, int half) {
  return __byte_perm(scales, 0, half ? 0x4141 : 0x4040) * 16 + 0x77807780u;
}

__device__ __forceinline__ void multiply_block(float (&sum)[kChains][4], const Loaded& x, int chain) {
  const u32 words[4] = {x.codes.x, x.codes.y, x.codes.z, x.codes.w};
  if constexpr (WEIGHT_BITS == 16) {
    mma_bf16(sum[chain % kChains], x.codes, x.input[0]);
  } else if constexpr (WEIGHT_BITS == 8) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint2 low = four_e4m3(words[2 * i]), high = four_e4m3(words[2 * i + 1]);
      const uint2 input = make_uint2(times(x.input[i].x, 0x71807180u), times(x.input[i].y, 0x71807180u));
      mma_bf16(sum[(chain * 2 + i) % kChains], make_uint4(low.x, low.y, high.x, high.y), input);
    }
  } else {
    const u32 low = scale_pair(x.scales, 0), high = scale_pair(x.scales, 1);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint4 a = eight_e2m1(words[i]);
      mma_bf16(sum[i], make_uint4(times(a.x, low), times(a.y, high), times(a.z, low), times(a.w, high)), x.input[i]);
    }
  }
}

// Multiplies this warp's blocks of a chunk by the inputs they meet. `input` is the first that the chunk meets. Only a
// chunk that is not Full, but has `tiles`, asks for each block whether it is there. `row_scale` gets the scales of rows
// g and g + 8, which are the same in all chunks of a unit.
template <bool Full>
__device__ __forceinline__ void multiply_chunk(float (&sum)[kChains][4], float (&row_scale)[2], const char* chunk,
                                               const char* input, int tiles) {
  const int warp = threadIdx.x / 32 % kGroupWarps, lane = threadIdx.x % 32, column = lane >> 2;
  const int tile = (lane & 3) * kBlockTiles / 4, quarter = (lane & 3) * kBlockTiles % 4;
  const char* codes = chunk + kChunkHeader + lane * 16;
  const char* scales = chunk + kChunkHeader + kBlockCodes + lane * 2;
  const char* mine = input + (tile * BATCH + column) * 32 + quarter * 8;
  if (WEIGHT_BITS < 16) {
    row_scale[0] = ((const float*)chunk)[column] * kUndo;
    row_scale[1] = ((const float*)chunk)[column + 8] * kUndo;
  }
#pragma unroll 1
  for (int begin = 0; begin < kBlocksEach; begin += kTogether) {
    if (!Full && WEIGHT_BITS == 4 && begin * kGroupWarps * kBlockTiles >= tiles) break;
    Loaded x[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; i++) {
      const int block = (begin + i) * kGroupWarps + warp;
      const bool there = Full || block * kBlockTiles < tiles;
      if (!Full) x[i].codes = make_uint4(0, 0, 0, 0);
      if (there) x[i].codes = *(const uint4*)(codes + block * kBlock);
      if (WEIGHT_BITS == 4) x[i].scales = there ? *(const unsigned short*)(scales + block * kBlock) : 0;
#pragma unroll
      for (int n = 0; n < kBlockTiles; n++) x[i].input[n] = make_uint2(0, 0);
      if ((Full || block * kBlockTiles + tile < tiles) && (BATCH == 8 || column < BATCH)) {
        const char* from = mine + block * kBlockTiles * BATCH * 32;
        if constexpr (kBlockTiles == 1) {
          x[i].input[0] = *(const uint2*)from;
        } else {
#pragma unroll
          for (int n = 0; n < kBlockTiles; n += 2) {
            const uint4 two = *(const uint4*)(from + n * 8);
            x[i].input[n] = make_uint2(two.x, two.y);
            x[i].input[n + 1] = make_uint2(two.z, two.w);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kTogether; i++) multiply_block(sum, x[i], i);
  }
}
