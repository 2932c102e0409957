// Streamed weights as operands of the tensor cores: a warp's blocks of a chunk times the inputs that they meet, in each
// precision but the integers (integers.cuh).
#pragma once
#include "chunk.cuh"

// A block is 512 bytes, 16 a lane: F::kBlockTiles tiles of 16 x 16. Lane 4g + t holds rows g and g + 8 of 4 *
// F::kBlockTiles consecutive elements of the input, in the order in which `store_input` keeps them, and multiplies them
// in F::kBlockTiles products. In lower precision
// - fp8: codes and inputs are converted to fp16. For each warp and sequence the input is multiplied by a power of two
//   that brings its largest element close to the largest fp16 number (`halve_inputs`).
// - nvfp4: moving bits turns codes into bf16 times 2^-126. With one or two sequences, scales multiply the products and
//   not the codes. The 8 columns of a product then keep the four tiles of a block separate: each tile has a column of
//   its own, in which only the lanes that hold the tile have an input. A single sequence has the next block's tiles in
//   the other four columns. The input is multiplied by 2^100 and the row's scale by 2^26, which together cancel 2^-126.
//   With more sequences scales multiply the codes; a scale is then 2^119 times itself, a normal number that moving bits
//   can make.
// - MXFP4: the same, but two tiles share a scale, whose byte is the exponent of a number.
template <class F>
constexpr bool kDiagonal = F::kBits == 4 && BATCH <= 2;
template <class F>
constexpr float kUndo = kDiagonal<F> ? 67108864.f : F::kBits == 4 ? 128.f : 1.f;
template <class F>
constexpr int kTogether = kDiagonal<F> && BATCH == 1 ? 2 : 1;  // blocks whose inputs share a lane's registers
constexpr int kChains = 4;  // independent sums of a warp, so that products do not wait for each other

// A lane's share of a warp's blocks of a chunk, and the inputs they meet.
template <class>
struct Codes {
  uint4 codes[kEach];
  u32 scales[kEach];  // nvfp4: scales of rows g (low byte) and g + 8 of a tile; with kDiagonal of two tiles and
                      // kTogether blocks. MXFP4: of a pair of tiles
};
template <class F>
struct Inputs {
  static_assert(kEach % kTogether<F> == 0, "a warp has whole pairs of blocks");
  uint2 of[kEach / kTogether<F>][F::kBlockTiles];
};
using Sums = float[kChains][4];

__device__ __forceinline__ u32 times(u32 pair, u32 factors) {
  u32 product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(pair), "r"(factors));
  return product;
}

// Eight e2m1 codes as four pairs of bf16, times 2^-126. weights.nvfp4_registers mixes the bits of a word so that one
// AND makes a pair. The compiler turns left shifts into multiplications, which do not wait for the logic unit.
__device__ __forceinline__ uint4 eight_e2m1(u32 word) {
  const u32 rotated = __funnelshift_l(word, word, 6);
  return make_uint4(word & 0x81c081c0u, word << 4 & 0x81c081c0u, rotated << 4 & 0x81c081c0u,
                    (rotated ^ rotated << 8) & 0x81c081c0u);
}

// The scale of row g (half 0) or g + 8 (half 1) as a pair of bf16, times 2^119.
template <class F>
__device__ __forceinline__ u32 scale_pair(u32 scales, int half) {
  const u32 both = __byte_perm(scales, 0, half ? 0x4141 : 0x4040);
  return F::kPowers ? both * 128 + 0x3b803b80u : both * 16 + 0x77807780u;
}

// Four e4m3 scales as floats, low byte first.
__device__ __forceinline__ float4 four_scales(u32 word) {
  const uint2 halves = e4m3x4_to_f16x4(word);
  const float2 low = unpack<f16>(halves.x), high = unpack<f16>(halves.y);
  return make_float4(low.x, low.y, high.x, high.y);
}

// Tile n of block i as an operand; nvfp4 codes are not scaled yet.
template <class F>
__device__ __forceinline__ uint4 operand(const Codes<F>& own, int i, int n) {
  const uint4 codes = own.codes[i];
  if constexpr (F::kBits == 16) return codes;
  if constexpr (F::kBits == 4) return eight_e2m1(n == 0 ? codes.x : n == 1 ? codes.y : n == 2 ? codes.z : codes.w);
  const uint2 low = e4m3x4_to_f16x4(n ? codes.z : codes.x), high = e4m3x4_to_f16x4(n ? codes.w : codes.y);
  return make_uint4(low.x, low.y, high.x, high.y);
}

// sum += the warp's blocks of a chunk of `tiles` times their inputs. With kDiagonal only sum[0] is used: scaled sums of
// rows g and g + 8, columns 2t and 2t + 1.
template <class F>
__device__ __forceinline__ void multiply(Sums& sum, const Codes<F>& own, const Inputs<F>& input, int tiles) {
#pragma unroll
  for (int first = 0; first < kEach; first += kTogether<F>) {
    if (first * WARPS * F::kBlockTiles >= tiles) break;  // no warp has such blocks
    float product[kTogether<F>][4] = {};
#pragma unroll
    for (int i = first; i < first + kTogether<F>; i++) {
      if (i * WARPS * F::kBlockTiles >= tiles) break;
      const u32 low = scale_pair<F>(own.scales[i], 0), high = scale_pair<F>(own.scales[i], 1);
#pragma unroll
      for (int n = 0; n < F::kBlockTiles; n++) {
        uint4 a = operand(own, i, n);
        const uint2 x = input.of[i / kTogether<F>][n];
        if (F::kBits == 4 && !kDiagonal<F>)
          a = make_uint4(times(a.x, low), times(a.y, high), times(a.z, low), times(a.w, high));
        if constexpr (F::kBits == 8)
          mma_sync<f16>(sum[(i * 2 + n) % kChains], {a.x, a.y, a.z, a.w}, x.x, x.y);
        else
          mma_sync<bf16>(F::kBits == 16 ? sum[i % kChains]
                         : kDiagonal<F>       ? product[i - first]
                                           : sum[n],
                         {a.x, a.y, a.z, a.w}, x.x, x.y);
      }
    }
    if constexpr (kDiagonal<F>) {
      const bool second = kTogether<F> == 2 && threadIdx.x % 4 >= 2;  // columns of the second block
      float by[4];
      if constexpr (F::kPowers) {
        by[0] = by[1] = __uint_as_float((own.scales[first] & 0xff) << 23);
        by[2] = by[3] = __uint_as_float(own.scales[first] >> 8 << 23);
      } else {
        const float4 scale = four_scales(own.scales[first]);
        by[0] = scale.x, by[1] = scale.z, by[2] = scale.y, by[3] = scale.w;
      }
#pragma unroll
      for (int n = 0; n < 4; n++)
        sum[0][n] = fmaf(second ? product[kTogether<F> - 1][n] : product[0][n], by[n], sum[0][n]);
    }
  }
}

// Loads the inputs of this warp's blocks of a chunk of `tiles` tiles. The first tile's input lies at `input`.
template <bool, class F>
__device__ __forceinline__ void load_inputs(Inputs<F>& x, const char* input, int, int tiles) {
  const int warp = threadIdx.x / 32, column = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
  const int tile = quad * F::kBlockTiles / 4, quarter = quad * F::kBlockTiles % 4;
  const int sequence = !kDiagonal<F> ? column : BATCH == 2 ? column / 4 : 0;
  const bool mine = kDiagonal<F> ? column % 4 == quad : column < BATCH;
#pragma unroll
  for (int i = 0; i < kEach / kTogether<F>; i++) {
    const int block = (i * kTogether<F> + (kTogether<F> == 2 ? column / 4 : 0)) * WARPS + warp;
    const bool inside = mine && block * F::kBlockTiles + tile < tiles;
    const char* from = input + ((block * F::kBlockTiles + tile) * kColumns + sequence) * 32 + quarter * 8;
#pragma unroll
    for (int n = 0; n < F::kBlockTiles; n++) {
      if (F::kBlockTiles == 1) {
        x.of[i][n] = inside ? *(const uint2*)from : make_uint2(0, 0);
      } else if (n % 2 == 0) {
        const uint4 two = inside ? *(const uint4*)(from + n * 8) : make_uint4(0, 0, 0, 0);
        x.of[i][n] = make_uint2(two.x, two.y);
        x.of[i][(n + 1) % F::kBlockTiles] = make_uint2(two.z, two.w);
      }
      if (kDiagonal<F>) x.of[i][n] = make_uint2(times(x.of[i][n].x, 0x71807180u), times(x.of[i][n].y, 0x71807180u));
    }
  }
}

// Loads this warp's blocks of a chunk of `tiles` tiles, and zeros for blocks beyond the chunk.
template <class F>
__device__ __forceinline__ void load_codes(Codes<F>& own, const char* chunk, int tiles) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const char* blocks = chunk + F::kHeader + warp * F::kBlock;
  // with kDiagonal<F> the lane scales tiles 2 (t % 2) and 2 (t % 2) + 1, of the second block if t > 1 and two are held
  const int behind = kDiagonal<F> && kTogether<F> == 2 ? lane % 4 / 2 : 0;
  const int scales = kBlockCodes + (F::kPowers      ? lane / 4 * 4 + (kDiagonal<F> ? lane % 2 : lane % 4 / 2) * 2
                                    : kDiagonal<F> ? lane / 4 * 8 + lane % 2 * 4
                                                   : lane * 2);
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    own.codes[i] = make_uint4(0, 0, 0, 0);
    own.scales[i] = 0;
    const auto inside = [&](int n) {
      return (n + 1) * WARPS * F::kBlockTiles <= tiles || (n * WARPS + warp) * F::kBlockTiles < tiles;
    };
    if (inside(i)) own.codes[i] = *(const uint4*)(blocks + i * WARPS * F::kBlock + lane * 16);
    if (F::kBits != 4 || i % kTogether<F> || !inside(i + behind)) continue;
    const char* from = blocks + (i + behind) * WARPS * F::kBlock + scales;
    own.scales[i] = kDiagonal<F> && !F::kPowers ? *(const u32*)from : *(const unsigned short*)from;
  }
}

// The same of blocks in core matrices (kernels/tiles/core_matrices.py), as the experts are.
__device__ __forceinline__ void load_cores(Codes<Own>& own, const char* chunk, int tiles) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    u32 tile[4] = {};
    if (i * WARPS + warp < tiles) ldmatrix(tile, shared_address(chunk + (i * WARPS + warp) * Own::kBlock + lane * 16));
    own.codes[i] = make_uint4(tile[0], tile[1], tile[2], tile[3]);
  }
}

// fp8: converts this warp's inputs of `tiles` (at most Tiles) to fp16 in place, each sequence times a power of two.
// Returns the inverse factors of the sequences of columns 2t and 2t + 1.
template <int Tiles>
__device__ __forceinline__ float2 halve_inputs(char* input, int tiles) {
  constexpr int kPieces = Own::kBlockTiles * kColumns * 2, kAtOnce = 32 / kPieces;  // of 16 bytes, of a block; blocks
  constexpr int kBlocks = (Tiles + Own::kBlockTiles * WARPS - 1) / (Own::kBlockTiles * WARPS);
  constexpr int kRounds = (kBlocks + kAtOnce - 1) / kAtOnce;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, piece = lane % kPieces;
  u32 largest = 15u << 7;  // smaller inputs become 0; both factors are finite then
  uint4 pieces[kRounds];
#pragma unroll
  for (int i = 0; i < kRounds; i++) {
    const int block = (i * kAtOnce + lane / kPieces) * WARPS + warp;
    const bool inside = block * Own::kBlockTiles + piece / (kColumns * 2) < tiles;
    pieces[i] = inside ? ((const uint4*)input)[block * kPieces + piece] : make_uint4(0, 0, 0, 0);
    const u32 most = __vmaxu2(__vmaxu2(pieces[i].x & 0x7fff7fffu, pieces[i].y & 0x7fff7fffu),
                              __vmaxu2(pieces[i].z & 0x7fff7fffu, pieces[i].w & 0x7fff7fffu));
    largest = max(largest, max(most & 0xffff, most >> 16));
  }
  if (BATCH == 1) {
    largest = __reduce_max_sync(~0u, largest);
  } else {
    largest = max(largest, __shfl_xor_sync(~0u, largest, 1));  // of the sequence lane / 2 % kColumns
#pragma unroll
    for (int o = 2 * kColumns; o < 32; o *= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, o));
  }
  const float factor = __uint_as_float((268 - (largest >> 7)) << 23),
              undo = __uint_as_float(((largest >> 7) - 14) << 23);
#pragma unroll
  for (int i = 0; i < kRounds; i++) {
    const int block = (i * kAtOnce + lane / kPieces) * WARPS + warp;
    u32 pairs[4] = {pieces[i].x, pieces[i].y, pieces[i].z, pieces[i].w};
#pragma unroll
    for (u32& pair : pairs) pair = pack<f16>(unpack<bf16>(pair).x * factor, unpack<bf16>(pair).y * factor);
    if (block * Own::kBlockTiles + piece / (kColumns * 2) < tiles)
      ((uint4*)input)[block * kPieces + piece] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
  __syncwarp();
  const int first = lane % 4 * 2;
  return BATCH == 1 ? make_float2(undo, undo)
                    : make_float2(__shfl_sync(~0u, undo, first % kColumns * 2),
                                  __shfl_sync(~0u, undo, (first + 1) % kColumns * 2));
}

template <class F, int Tiles, bool>
__device__ __forceinline__ float2 prepare_inputs(char* input, int tiles) {
  if constexpr (F::kBits == 8) return halve_inputs<Tiles>(input, tiles);
  return make_float2(1.f, 1.f);
}

// Stores a warp's sums of a unit; `undo` are the factors of the sequences of columns 2t and 2t + 1.
template <class F>
__device__ __forceinline__ void leave_sums(float (&mine)[16 * BATCH], const Sums& sum, float2 row_scale, float2 undo) {
  const int column = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
  if constexpr (kDiagonal<F>) {
    leave_rows<kDiagonal<F> ? 4 / BATCH : 1>(mine, (sum[0][0] + sum[0][1]) * row_scale.x,
                                          (sum[0][2] + sum[0][3]) * row_scale.y);
    return;
  }
  const float by[2] = {undo.x, undo.y};
#pragma unroll
  for (int c = 0; c < 2; c++) {
    if (quad * 2 + c >= BATCH) break;
    const float low = (sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c]);
    const float high = (sum[0][c + 2] + sum[1][c + 2]) + (sum[2][c + 2] + sum[3][c + 2]);
    mine[(quad * 2 + c) * 16 + column] = low * (row_scale.x * by[c]);
    mine[(quad * 2 + c) * 16 + column + 8] = high * (row_scale.y * by[c]);
  }
}
