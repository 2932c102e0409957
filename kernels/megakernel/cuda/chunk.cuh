// How weights lie in a chunk of the ring, and where a warp's sums of a unit go. Without PTX: it also runs on a CPU.
#pragma once
#include "tiles.cuh"

using namespace tiles;

// kernels/megakernel/program/weights.py
constexpr int kBlockTiles = 16 / WEIGHT_BITS;  // 16 x 16 tiles of a block
constexpr int kBlockCodes = 512;               // bytes of their codes: 16 a lane
constexpr int kGroups = INTEGERS ? kBlockTiles / 2 : 1;  // of two tiles, whose columns share a scale a row
constexpr int kBlock = kBlockCodes + (WEIGHT_BITS == 4 ? 64 : INTEGERS ? 32 : 0);
constexpr int kChunkHeader = WEIGHT_BITS == 16 || INTEGERS ? 0 : 64;
constexpr int kChunkBlocks = CHUNK_BLOCKS;
constexpr int kChunkTiles = kChunkBlocks * kBlockTiles;
constexpr int kChunk = (kChunkHeader + kChunkBlocks * kBlock + 127) / 128 * 128;
constexpr int kEach = kChunkBlocks / WARPS;  // blocks of a chunk that a warp multiplies: every WARPS-th
static_assert(kChunkBlocks % WARPS == 0, "all warps have equally many blocks of a chunk");
// Input vectors of a product in shared memory: BATCH, rounded up to a power of two. The additional columns have no
// words, and no result of theirs is read.
constexpr int kColumns = BATCH > 4 ? 8 : BATCH > 2 ? 4 : BATCH;
constexpr int kChunkInput = kChunkTiles * kColumns * 32;  // bytes
constexpr int kInputBytes = INPUT_LENGTH * kColumns * 2;
constexpr int kUnitBytes = INTEGERS ? (INPUT_LENGTH + 31) / 32 * kColumns * 4 : 0;  // behind them: integers.cuh

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
