// The epilogues of small.cu where rows of w lie across: a warpgroup holds 64 rows of y and all columns of the block.
#pragma once
#include "small_epilogue.cuh"

// kOutputs columns of y from `column`, 64 rows from `token`. They are staged in shared memory with a pitch of an odd
// number of 16 bytes, so that the 8 rows that a warp writes at once cause no bank conflict.
struct Across {
  static constexpr int kChunks = kOutputs / 8, kPitch = (kChunks | 1) * 16;
  static constexpr int kPieces = (64 * kChunks + kWarpgroup - 1) / kWarpgroup;  // of 16 bytes, those a thread moves
  const Params& p;
  int token, column;
  __device__ __forceinline__ Across(const Params& p, int token, int column) : p(p), token(token), column(column) {}

  // Calls move(piece, byte in shared memory, offset in y) for the 16 bytes that this thread moves and that exist.
  template <class Move>
  __device__ __forceinline__ void each_piece(Move move) const {
#pragma unroll
    for (int i = 0; i < kPieces; i++) {
      const int at = i * kWarpgroup + threadIdx.x % kWarpgroup, row = at / kChunks, chunk = at % kChunks;
      if (row < min(64, p.m - token) && column + chunk * 8 < p.n)
        move(i, row * kPitch + chunk * 16, (long long)(token + row) * p.n + column + chunk * 8);
    }
  }
  __device__ __forceinline__ void fetch_residual(uint4 (&to)[kPieces]) const {
    each_piece([&](int i, int, long long at) { to[i] = *(const uint4*)(p.residual + at); });
  }
  __device__ __forceinline__ void put_residual(char* staging, const uint4 (&from)[kPieces]) const {
    each_piece([&](int i, int to, long long) { *(uint4*)(staging + to) = from[i]; });
    named_barrier_sync(2 + warpgroup(), kWarpgroup);
  }
  __device__ __forceinline__ float bias(int n) const { return p.bias && n < p.n ? (float)p.bias[n] : 0.f; }
  // `scales` of the warpgroup's rows of x.
  __device__ __forceinline__ void finish(char* staging, const float* scales, const Accumulator<COLS>& d) const {
    float by[2];
#pragma unroll
    for (int j = 0; j < 2; j++) by[j] = NORM ? scales[own_row() + 8 * j] : 1.f;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; chunk++)
#pragma unroll
      for (int j = 0; j < 2; j++) {  // row r, and the one 8 below
        const int from = chunk * (PAIRED ? 8 : 4) + 2 * j, n = column + chunk * 8 + own_column();
        u32& to = *(u32*)(staging + (own_row() + 8 * j) * kPitch + chunk * 16 + own_column() * 2);
        float first = d.at[from] * by[j] + bias(n), second = d.at[from + 1] * by[j] + bias(n + 1);
        if (PAIRED) {
          first = gated(first, d.at[from + 4] * by[j]);
          second = gated(second, d.at[from + 5] * by[j]);
        }
        const float2 added = RESIDUAL ? unpack<Value>(to) : make_float2(0.f, 0.f);
        to = pack<Value>(first + added.x, second + added.y);
      }
  }
  __device__ __forceinline__ void write(const char* staging) const {
    named_barrier_sync(2 + warpgroup(), kWarpgroup);
    each_piece([&](int, int from, long long at) { *(uint4*)(p.y + at) = *(const uint4*)(staging + from); });
  }
};
