// How weights lie in a chunk of the ring, and where a warp's sums of a unit go. Without PTX: it also runs on a CPU.
#pragma once
#include "tiles.cuh"

using namespace tiles;

// kernels/megakernel/program/weights.py: codes of so many bits; of integers the tiles of a scale, and zeros.
template <int Bits, int Scaled, int Zeros>
struct Form {
  static constexpr bool kInteger = Scaled > 0, kPowers = false;
  static constexpr int kBits = Bits, kZeros = Zeros;
  static constexpr int kBlockTiles = 16 / Bits;               // 16 x 16 tiles of a block
  static constexpr int kGroups = kInteger ? kBlockTiles / 2 : 1;  // of two tiles, whose input shares a unit
  static constexpr int kScales = kInteger ? kBlockTiles / Scaled : 0;  // of a row of a block
  static constexpr int kScaleBytes = Zeros ? 64 : 32;         // of 16 rows, with zeros
  static constexpr int kBlock = 512 + (kInteger ? kScales * kScaleBytes : Bits == 4 ? 64 : 0);
  static constexpr int kHeader = Bits == 16 || kInteger ? 0 : 64;
  static constexpr int kChunkTiles = CHUNK_BLOCKS * kBlockTiles;
  static constexpr int kChunk = (kHeader + CHUNK_BLOCKS * kBlock + 127) / 128 * 128;
};
// Experts in MXFP4: e2m1 codes, and a power of two for a row of two tiles. Units are read where they lie, in whole blocks.
struct Mxfp4 : Form<4, 0, 0> {
  static constexpr bool kPowers = true;
  static constexpr int kBlock = 512 + 32, kHeader = 0;
  static constexpr int kChunk = (CHUNK_BLOCKS * kBlock + 127) / 128 * 128;
};
using Own = Form<WEIGHT_BITS, SCALED_TILES, ZEROS>;
// The LM head's: the same, or more bits, of integers where the others are.
using Head = Form<HEAD_BITS, HEAD_BITS == WEIGHT_BITS ? SCALED_TILES : INTEGERS ? 2 : 0, HEAD_BITS == WEIGHT_BITS ? ZEROS : 0>;
constexpr bool kHeadApart = HEAD_BITS != WEIGHT_BITS;
#if EXPERT_BITS != WEIGHT_BITS
using Expert = Mxfp4;
#else
using Expert = Own;
#endif
constexpr int kBlockCodes = 512;  // bytes of a block's codes: 16 a lane
constexpr int kChunkBlocks = CHUNK_BLOCKS;
constexpr int kChunkMost = Own::kChunk > Head::kChunk ? Own::kChunk : Head::kChunk;
constexpr int kChunk = kChunkMost > Expert::kChunk ? kChunkMost : Expert::kChunk;  // a slot of the ring
constexpr int kEach = kChunkBlocks / WARPS;  // blocks of a chunk that a warp multiplies: every WARPS-th
static_assert(kChunkBlocks % WARPS == 0, "all warps have equally many blocks of a chunk");
// Input vectors of a product in shared memory: BATCH, rounded up to a power of two. The additional columns have no
// words, and no result of theirs is read.
constexpr int kColumns = BATCH > 4 ? 8 : BATCH > 2 ? 4 : BATCH;
template <class F>
constexpr int kChunkInput = F::kChunkTiles * kColumns * 32;  // bytes
constexpr int kInputBytes = INPUT_LENGTH * kColumns * 2;
constexpr int kUnitWords = ZEROS ? 2 : 1;
constexpr int kUnitBytes = INTEGERS ? (INPUT_LENGTH + 31) / 32 * kColumns * kUnitWords * 4 : 0;  // behind: integers.cuh

// Stores a lane's sums of rows g and g + 8 of a unit for the sum over warps. LANES neighbouring lanes have parts of the
// sum of one sequence; the first of them of sequence `first`.
template <int LANES>
__device__ __forceinline__ void leave_rows(float (&mine)[16 * BATCH], float low, float high, int first = 0) {
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4, sequence = first + quad / LANES;
  if constexpr (LANES == 1) {
    if (BATCH % 4 && sequence >= BATCH) return;
    mine[sequence * 16 + row] = low;
    mine[sequence * 16 + row + 8] = high;
  } else {
    const bool odd = quad % 2;  // even lanes sum row g, odd ones row g + 8
    float sum = (odd ? high : low) + __shfl_xor_sync(~0u, odd ? low : high, 1);
    if (LANES == 4) sum += __shfl_xor_sync(~0u, sum, 2);
    if (quad % LANES < 2) mine[sequence * 16 + row + odd * 8] = sum;
  }
}
