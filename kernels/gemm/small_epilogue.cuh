// Epilogues of small.cu: RMSNorm's scale, bias, SwiGLU, residual on registers; then through shared memory to y.
#pragma once
#include "tiles.cuh"

using namespace tiles;

#if HALF
using Value = f16;
#else
using Value = bf16;
#endif
struct Params {
  Value* y;               // [m, n]
  const Value* bias;      // [n], or null
  const Value* residual;  // [m, n], or null
  int m, n, k, pdl;
  float inverse_k, eps;
};
static_assert(sizeof(Params) == PARAMS_BYTES, "small_call.PARAMS");

__device__ __forceinline__ float gated(float gate, float up) { return __fdividef(gate, 1 + __expf(-gate)) * up; }

// Rows of w and of x in a block's tile, and columns of y. PAIRED: 8 rows of gate and 8 of up alternate.
constexpr int kWRows = ACROSS ? COLS : WGS * 64, kXRows = ACROSS ? WGS * 64 : COLS,
              kOutputs = PAIRED ? kWRows / 2 : kWRows;

constexpr int kOwn = (COLS / 8 + SPLITS - 1) / SPLITS;  // of 8 rows of x, those whose sums a block owns
constexpr int kChunks = PAIRED ? 4 : 8;                 // of 8 outputs, those of a warpgroup
constexpr int kPieces = (kOwn * 8 * kChunks + kWarpgroup - 1) / kWarpgroup;  // of 16 bytes, those a thread moves

// A warpgroup's part of y: `rows` rows from `token`, kChunks · 8 columns from `column`, staged and swizzled.
struct Output {
  const Params& p;
  int token, rows, column;
  __device__ __forceinline__ Output(const Params& p, int token, int rows, int column)
      : p(p), token(token), rows(min(rows, p.m - token)), column(column) {}

  // Calls move(piece, row, chunk, offset in y) for the 16 bytes that this thread moves and that exist.
  template <class Move>
  __device__ __forceinline__ void each_piece(Move move) const {
#pragma unroll
    for (int i = 0; i < kPieces; i++) {
      const int at = i * kWarpgroup + threadIdx.x % kWarpgroup, row = at / kChunks, chunk = at % kChunks;
      if (row < rows && column + chunk * 8 < p.n)
        move(i, row, chunk, (long long)(token + row) * p.n + column + chunk * 8);
    }
  }
  // The bias of this thread's outputs: of its first row, and of the row 8 below.
  __device__ __forceinline__ float2 bias() const {
    const int n = column + threadIdx.x % kWarpgroup / 32 * (PAIRED ? 8 : 16) + threadIdx.x % 32 / 4;
    return make_float2(p.bias && n < p.n ? (float)p.bias[n] : 0.f,
                       p.bias && !PAIRED && n + 8 < p.n ? (float)p.bias[n + 8] : 0.f);
  }
  __device__ __forceinline__ void fetch_residual(uint4 (&to)[kPieces]) const {
    each_piece([&](int i, int, int, long long at) { to[i] = *(const uint4*)(p.residual + at); });
  }
  __device__ __forceinline__ void put_residual(char* staging, const uint4 (&from)[kPieces]) const {
    each_piece([&](int i, int row, int chunk, long long) { *(uint4*)(staging + swizzled(row, chunk)) = from[i]; });
    named_barrier_sync(2 + warpgroup(), kWarpgroup);
  }
  // One over the root mean square of a row of x, from sums [SPLITS][COLS]; with SPLITS 1 it is there already.
  __device__ __forceinline__ float scale(const float* squares) const {
    float sum = 0.f;
#pragma unroll
    for (int split = 0; split < SPLITS; split++) sum += squares[split * COLS];
    return SPLITS == 1 ? sum : rsqrtf(sum * p.inverse_k + p.eps);
  }
  // Applies the epilogue to the sums `v` of the `group`-th 8 rows, in the accumulator's order, and stages the outputs.
  // `squares` begins at the first of these rows.
  __device__ __forceinline__ void finish(char* staging, const float* squares, float4 v, int group, float2 bias) const {
    float value[4] = {v.x, v.y, v.z, v.w};
    const int warp = threadIdx.x % kWarpgroup / 32, lane = threadIdx.x % 32;
    const u32 to = shared_address(staging) + swizzled(group * 8 + lane % 8, PAIRED ? warp : warp * 2 + lane / 8 % 2);
    u32 held[2] = {};
    if (RESIDUAL) ldmatrix_transposed(held, to);
    const float2 first = unpack<Value>(held[0]), second = unpack<Value>(held[1]);
    const float added[4] = {first.x, first.y, second.x, second.y};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (NORM) value[j] *= scale(squares + own_column() + j % 2);
      value[j] += j < 2 ? bias.x : bias.y;
      if (RESIDUAL) value[j] += added[j];
    }
#pragma unroll
    for (int j = 0; PAIRED && j < 2; j++) value[j] = gated(value[j], value[j + 2]);
    const u32 above[1] = {pack<Value>(value[0], value[1])};
    const u32 both[2] = {above[0], pack<Value>(value[2], value[3])};
    if constexpr (PAIRED)
      stmatrix_transposed(to, above);
    else
      stmatrix_transposed(to, both);
  }
  __device__ __forceinline__ void write(const char* staging) const {
    named_barrier_sync(2 + warpgroup(), kWarpgroup);
    each_piece([&](int, int row, int chunk, long long at) {
      *(uint4*)(p.y + at) = *(const uint4*)(staging + swizzled(row, chunk));
    });
  }
};
