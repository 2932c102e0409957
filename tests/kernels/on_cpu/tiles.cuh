// The part of the tiles layer that kernels use which run on fibers: barriers, copies, conversions, products.
#pragma once
#include "fibers.hpp"

namespace tiles {

using u32 = unsigned;
using u64 = unsigned long long;

struct bf16 {
  unsigned short bits;
  bf16() = default;
  bf16(float x) {
    const u32 wide = __float_as_uint(x);
    bits = (wide & 0x7fffffff) > 0x7f800000 ? 0x7fff : (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
  }
  operator float() const { return __uint_as_float((u32)bits << 16); }
};
struct f16 {
  unsigned short bits;
  f16() = default;
  f16(float x) {
    const _Float16 half = (_Float16)x;
    memcpy(&bits, &half, 2);
  }
  operator float() const {
    _Float16 half;
    memcpy(&half, &bits, 2);
    return (float)half;
  }
};
template <class T>
float2 unpack(u32 both) {
  T first, second;
  first.bits = both & 0xffff, second.bits = both >> 16;
  return {first, second};
}
template <class T>
u32 pack(float first, float second) {
  return T(first).bits | (u32)T(second).bits << 16;
}

inline u32 e4m3x2_to_f16x2(u32 codes) {
  const auto one = [](u32 b) {
    const int e = b >> 3 & 15, m = b & 7;
    const float x = (b & 127) == 127 ? NAN : e ? std::ldexp(1 + m / 8.f, e - 7) : std::ldexp(m / 8.f, -6);
    return f16(b & 128 ? -x : x).bits;
  };
  return one(codes & 255) | (u32)one(codes >> 8 & 255) << 16;
}
inline uint2 e4m3x4_to_f16x4(u32 codes) { return {e4m3x2_to_f16x2(codes), e4m3x2_to_f16x2(codes >> 16)}; }
inline uint2 int8x4_to_f16x4(u32 codes) {
  const auto value = [=](int i) { return (u32)f16((float)(codes >> 8 * i & 255) - 128).bits; };
  return {value(0) | value(1) << 16, value(2) | value(3) << 16};
}
template <class T> void mma_sync(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  struct Lane { u32 a[4], b0, b1; };
  fibers::put(Lane{{a[0], a[1], a[2], a[3]}, b0, b1});
  const auto dot = [](u32 x, u32 y) { return unpack<T>(x).x * unpack<T>(y).x + unpack<T>(x).y * unpack<T>(y).y; };
  for (int i = 0; i < 4; i++)
    for (int q = 0; q < 4; q++) {
      const Lane row = fibers::slot<Lane>(fibers::lane() / 4 * 4 + q);
      const Lane column = fibers::slot<Lane>((fibers::lane() % 4 * 2 + i % 2) * 4 + q);
      d[i] += dot(row.a[i / 2], column.b0) + dot(row.a[2 + i / 2], column.b1);
    }
  fibers::meet_warp();
}
// Of signed bytes, 32 columns of a.
inline void mma_sync(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  struct Lane { signed char a[16], b[8]; } own;
  memcpy(own.a, a, 16), memcpy(own.b, &b0, 4), memcpy(own.b + 4, &b1, 4);
  fibers::put(own);
  for (int i = 0; i < 4; i++)
    for (int q = 0; q < 4; q++) {
      const Lane row = fibers::slot<Lane>(fibers::lane() / 4 * 4 + q);
      const Lane column = fibers::slot<Lane>((fibers::lane() % 4 * 2 + i % 2) * 4 + q);
      for (int k = 0; k < 8; k++) d[i] += row.a[k / 4 * 8 + i / 2 * 4 + k % 4] * column.b[k];
    }
  fibers::meet_warp();
}

struct Barrier {
  int count, missing;
  long bytes;
  u32 phase;
};
inline void init(Barrier& b, u32 count) {
  fibers::note(fibers::kInit, fibers::offset(&b), count);
  b = {(int)count, (int)count, 0, 0};
}
template <int N>
void init_ring(Barrier (&ring)[N], u32 count) { for (Barrier& each : ring) init(each, count); }
inline void fence_init() {}
inline void settle(Barrier& b) {
  if (b.missing < 0) fprintf(stderr, "more arrivals than a barrier counts\n"), abort();
  if (b.missing == 0 && b.bytes == 0) b.missing = b.count, b.phase ^= 1, fibers::idle_rounds = 0;
}
inline void arrived(Barrier& b) { b.missing--, settle(b); }
inline void arrive(Barrier& b) { fibers::note(fibers::kArrive, fibers::offset(&b)), arrived(b); }
inline long offset_in(u32 rank, const void* at) { return (fibers::offset(at) & ((1 << 20) - 1)) + ((long)rank << 20); }
inline void arrive_remote(Barrier& b, u32 rank) {
  fibers::note(fibers::kArrive, offset_in(rank, &b)), arrived(fibers::of_rank(&b, rank));
}
inline void arrive_expect_tx(Barrier& b, u32 bytes) {
  fibers::note(fibers::kExpect, fibers::offset(&b), bytes);
  b.bytes += bytes, arrived(b);
}
inline void land(Barrier& b, u32 bytes) { b.bytes -= bytes, settle(b); }
template <class T>
void st_async(T* to, u32 rank, const T& value, Barrier& arrived) {
  fibers::of_rank(to, rank) = value, land(fibers::of_rank(&arrived, rank), sizeof value);
}
inline bool test_wait(Barrier& b, u32 parity) {
  fibers::yield();
  return b.phase != parity;
}
inline bool try_wait(Barrier& b, u32 parity) { return test_wait(b, parity); }
inline void arrive_address(u32 barrier) { arrived(*(Barrier*)(fibers::block().base + barrier)); }
inline void fence_mbarrier_init() {}
inline u64 nanoseconds() { return 0; }
inline float ex2_ftz(float x) { return std::exp2(x); }
inline void wait(Barrier& b, u32 parity) {
  fibers::note(fibers::kWait, fibers::offset(&b), parity);
  while (b.phase == parity) fibers::yield();
}
template <int Stages = 0>
struct PipelineState {
  int stage = 0;
  u32 parity = 0;
  void advance(int stages = Stages) { if (++stage == stages) stage = 0, parity ^= 1; }
};
inline void bulk_load(void* to, const void* from, u32 bytes, Barrier& b, u64) {
  fibers::note(fibers::kLoad, fibers::offset(&b), bytes, fibers::offset(to));
  fibers::later(fibers::loads, [=, &b] { memcpy(to, from, bytes), land(b, bytes); });
}
inline void bulk_prefetch_l2(const void*, u32) {}
inline float ld_cluster(const float* mine, u32 rank) { return fibers::of_rank(mine, rank); }
inline void cp_async_16(void* to, const void* from) { memcpy(to, from, 16); }
inline void cp_async_wait_all() {}
inline void named_barrier_sync(int id, int threads) { fibers::meet(fibers::block().barriers[id], threads); }
inline void cluster_sync() {
  fibers::note(fibers::kSync);
  fibers::meet(fibers::all_of_cluster, (int)fibers::cluster->size() * fibers::block().threads);
}
inline u32 cluster_rank() { return fibers::now->block; }
inline void cluster_arrive_relaxed() {}
inline void cluster_wait() { cluster_sync(); }
inline void fence_proxy_async_shared() {}
inline void griddepcontrol_wait() {}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T> T __ldg(const T* from) { return *from; }
inline void griddepcontrol_launch_dependents() {}
inline bool elect_one() { return fibers::lane() == 0; }
template <int Registers> void setmaxnreg_inc() {}
template <int Registers> void setmaxnreg_dec() {}
constexpr int kWarpgroup = 128;
inline int warpgroup() { return fibers::now->thread / kWarpgroup; }
constexpr u64 kEvictFirst = 0, kEvictLast = 0, kEvictNormal = 0;

// A map of a matrix [rows][cols] of values of `size` bytes for boxes of `box` rows of 128 bytes, in the 128-byte
// swizzle. A tensor [batch][rows][heads][cols] of 16-bit values has `heads`, and four coordinates. Without heads, four
// coordinates mean rows that are 8 of the first half and 8 of the second alternately. For tiles of scales `wide` is a
// box's tiles in a row of tiles.
struct TensorMap {
  const unsigned short* data;
  int rows, cols, box, size = 2, heads = 0, wide = 0;
  // The rows of one head of a sequence, as a map of a matrix.
  TensorMap of(int head, int batch) const {
    return {data + ((long)batch * rows * heads + head) * cols, rows, cols, box, size, heads};
  }
};
inline int element(int row, int column) { return row * 64 + ((column / 8 ^ row % 8) * 8) + column % 8; }
// Calls move(byte in the box, byte in the matrix or -1 where the box is outside of it).
template <class Move>
void each_byte(const TensorMap& map, int c0, int r0, Move move) {
  for (int r = 0; r < map.box; r++)
    for (int b = 0; b < 128; b++) {
      const bool inside = r0 + r >= 0 && r0 + r < map.rows && c0 + b / map.size < map.cols;
      move(r * 128 + (b / 16 ^ r % 8) * 16 + b % 16,
           inside ? ((long)(r0 + r) * max(1, map.heads) * map.cols + c0) * map.size + b : -1l);
    }
}
inline void load_box(void* to, const TensorMap& map, Barrier& barrier, int c0, int r0) {
  if (r0 + map.box <= 0) fprintf(stderr, "a box lies wholly before the first row\n"), abort();
  fibers::later(fibers::loads, [=, &barrier] {
    each_byte(map, c0, r0, [&](int in, long out) { ((char*)to)[in] = out < 0 ? 0 : ((const char*)map.data)[out]; });
    land(barrier, map.box * 128);
  });
}
inline void tma_load(void* to, const TensorMap& map, Barrier& barrier, int c0, int r0, u64 = 0) {
  fibers::note(fibers::kLoad, fibers::offset(&barrier), map.box * 128, fibers::offset(to));
  load_box(to, map, barrier, c0, r0);
}
inline void tma_load(void* to, const TensorMap& map, Barrier& barrier, int c0, int c1, int c2, int c3, u64 = 0) {
  if (map.heads) return tma_load(to, map.of(c1, c3), barrier, c0, c2);
  for (int r = 0; r < map.box; r++)
    for (int c = 0; c < 64; c++) {
      const int row = (c3 + r / 16) * 8 + r % 8, half = map.rows / 2;
      const bool inside = row < half && c0 + c < map.cols;
      ((unsigned short*)to)[element(r, c)] = inside ? map.data[(long)(row + r / 8 % 2 * half) * map.cols + c0 + c] : 0;
    }
  land(barrier, map.box * 128);
}
inline void tma_load(void*, const TensorMap&, Barrier&, int, int, int, u64) {
  fprintf(stderr, "boxes of three dimensions do not run here\n"), abort();
}
template <class T, int Rows, int Columns>
struct SharedTile {
  static constexpr int kPanelCols = 128 / sizeof(T), kPanels = Columns / kPanelCols;
  static constexpr u32 kBytes = Rows * Columns * sizeof(T);
  alignas(1024) T at[Rows * Columns];
  T* panel(int index, int row = 0) { return at + (index * Rows + row) * kPanelCols; }
  const T* panel(int index, int row = 0) const { return at + (index * Rows + row) * kPanelCols; }
};
template <class T, int Rows, int Columns, class... Rest>
void tma_load_tile(SharedTile<T, Rows, Columns>& to, const TensorMap& map, Barrier& barrier, int c0, Rest... rest) {
  for (int p = 0; p < to.kPanels; p++) tma_load(to.panel(p), map, barrier, c0 + p * to.kPanelCols, rest...);
}

// Addresses count from the beginning of the block's shared memory.
inline u32 shared_address(const void* at) { return (char*)at - fibers::block().base; }
inline u32 swizzled(u32 row, u32 chunk) { return row * 128 + (chunk ^ row % 8) * 16; }
template <int N, class Move>
void each_transposed(u32 address, Move move) {
  fibers::put(address);
  for (int i = 0; i < 2 * N; i++) {
    const u32 row = fibers::slot<u32>(i / 2 * 8 + fibers::lane() % 4 * 2 + i % 2);
    move(i, ((unsigned short*)(fibers::block().base + row))[fibers::lane() / 4]);
  }
  fibers::meet_warp();
}
inline void ldmatrix(u32 (&to)[4], u32 address) {
  fibers::put(address);
  for (int i = 0; i < 4; i++)
    to[i] = *(u32*)(fibers::block().base + fibers::slot<u32>(i * 8 + fibers::lane() / 4) + fibers::lane() % 4 * 4);
  fibers::meet_warp();
}
inline void ldmatrix_transposed(u32 (&to)[2], u32 address) {
  to[0] = to[1] = 0;
  each_transposed<2>(address, [&](int i, unsigned short& value) { to[i / 2] |= (u32)value << i % 2 * 16; });
}
template <int N>
void stmatrix_transposed(u32 address, const u32 (&from)[N]) {
  each_transposed<N>(address, [&](int i, unsigned short& value) { value = from[i / 2] >> i % 2 * 16; });
}

template <int N>
struct Accumulator {
  float at[N / 2];
};
template <int N>
void zero(Accumulator<N>& d) {
  for (float& x : d.at) x = 0;
}
template <int N>
void fence_operand(Accumulator<N>&) {}
inline void wgmma_fence() {}
inline void wgmma_commit() {}
// A product is the whole warpgroup's: its end is the same for all.
template <int Pending>
void wgmma_wait() {
  fibers::meet(fibers::block().barriers[16 + warpgroup()], kWarpgroup);
}
inline int own_row() { return fibers::now->thread / 32 % 4 * 16 + fibers::lane() / 4; }
inline int own_column() { return fibers::now->thread % 4 * 2; }
inline float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
template <class T, int N>
void multiply(Accumulator<N>& d, const T* a, const T* b, int keep = 1) {
  for (int i = 0; i < N / 2; i++) {
    const int row = own_row() + i % 4 / 2 * 8, column = i / 4 * 8 + own_column() + i % 2;
    float sum = keep ? d.at[i] : 0;
    for (int k = 0; k < 64; k++) sum += (float)a[element(row, k)] * (float)b[element(column, k)];
    d.at[i] = sum;
  }
}

// A descriptor here is an address and the number of a step of k behind it.
constexpr int kNextK = 1;
inline u64 k_major(const void* panel) { return (u64)panel << 8; }
template <class T, int N>
struct Product {
  // 64 rows of a in registers, as mma.m16n8k16 has 16 of each warp, times N rows of b.
  static void run(Accumulator<N>& d, const u32 (&a)[4], u64 b, int keep = 1) {
    struct Lane { u32 a[4]; } own;
    memcpy(own.a, a, 16);
    fibers::put(own);
    float rows[2][16];
    for (int q = 0; q < 4; q++) {
      const Lane lane = fibers::slot<Lane>(fibers::lane() / 4 * 4 + q);
      for (int i = 0; i < 4; i++) {
        const float2 two = unpack<T>(lane.a[i]);
        rows[i % 2][i / 2 * 8 + 2 * q] = two.x, rows[i % 2][i / 2 * 8 + 2 * q + 1] = two.y;
      }
    }
    fibers::meet_warp();
    for (int i = 0; i < N / 2; i++) {
      const int column = i / 4 * 8 + own_column() + i % 2;
      float sum = keep ? d.at[i] : 0;
      for (int k = 0; k < 16; k++)
        sum += rows[i % 4 / 2][k] * (float)((const T*)(b >> 8))[element(column, (b & 255) * 16 + k)];
      d.at[i] = sum;
    }
  }
};

inline void cluster_sync_unaligned() { cluster_sync(); }

}  // namespace tiles

using __nv_bfloat16 = tiles::bf16;
struct __nv_bfloat162 {
  tiles::bf16 x, y;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
struct __half {
  unsigned short bits;
};
struct __half2 {
  tiles::f16 x, y;
};
inline __half2 __hmul2(__half2 a, __half2 b) { return {(float)a.x * (float)b.x, (float)a.y * (float)b.y}; }
inline __half2 __hadd2(__half2 a, __half2 b) { return {(float)a.x + (float)b.x, (float)a.y + (float)b.y}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {(float)a.x * (float)b.x + (float)c.x, (float)a.y * (float)b.y + (float)c.y};
}
inline __half2 __hneg2(__half2 a) { return {-(float)a.x, -(float)a.y}; }
inline __half2 __low2half2(__half2 a) { return {a.x, a.x}; }
inline __half2 __high2half2(__half2 a) { return {a.y, a.y}; }
inline __half2 __float2half2_rn(float x) { return {x, x}; }
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline float __half2float(__half x) {
  tiles::f16 value;
  value.bits = x.bits;
  return value;
}
