// One warp of decode attention: loads keys and values into the registers of mma.sync, and multiplies.
#pragma once
#include <math_constants.h>

#include "tiles.cuh"

namespace tiles {

#if FP8
using Operand = f16;
#else
using Operand = ELEMENT;
#endif
constexpr int kThreads = 32 * WARPS, kTile = 16 * STEPS, kSteps16 = HEAD_DIM / 16, kRow = HEAD_DIM * (FP8 ? 1 : 2);
constexpr int kOutputs = GROUP * HEAD_DIM, kWords = kRow / 32;  // words of a value's row that a lane holds
constexpr float kHeadroom = 8;  // exponentials may reach 2^kHeadroom before a warp's base moves

__device__ __forceinline__ void load(u32* to, const char* from, int bytes) {  // volatile keeps the order
  if (bytes == 8)
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(from));
  else
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from));
}
// Transposes an 8×8 matrix of 16-bit values. Each lane has two neighbouring values of row lane / 4.
__device__ __forceinline__ u32 transposed(u32 pair) {
  u32 found;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(found) : "r"(pair));
  return found;
}

// 16 keys and their values in the registers of a warp. Lane 4g + t holds the 16-byte chunks t, t + 4 and so on of keys
// g and g + 8. They are an operand of mma.sync whose dimensions are permuted; q is permuted in the same way. The lane
// also holds an eighth of the dimensions of the values 2t, 2t + 1, 2t + 8 and 2t + 9; two neighbours together form an
// operand.
struct Step {
  u32 k[2][kRow / 16];
  u32 v[4][kWords];
};

// The cache of this block's KV head. `k` and `v` point at this lane's first key and value of a step.
struct Cache {
  const char *k, *v;
  const int* table;
  int end, pages;
  u32 k_token, v_token;
  long long k_page, v_page;
};

// Loads the keys or the values of the tile that begins at key `start`. Whole: the whole tile lies before the end.
// Otherwise the last key is loaded in place of the keys beyond the end.
template <bool Values, bool Whole>
__device__ __forceinline__ void load_rows(Step (&to)[STEPS], const Cache& cache, int start, const int (&page)[STEPS]) {
  constexpr int kRows = Values ? 4 : 2;
  const u32 token = Values ? cache.v_token : cache.k_token;
  const char* lane = (Values ? cache.v : cache.k) + (PAGE ? 0 : u64(start) * token);
  const int own = Values ? threadIdx.x % 4 * 2 : threadIdx.x % 32 / 4;
#pragma unroll
  for (int u = 0; u < STEPS; u++) {
    const int at = Whole ? start + 16 * u : min(start + 16 * u, (cache.end - 1) & ~15);
    const int from_lane = PAGE ? at % max(PAGE, 1) : at - start;
    const char* page_lane = lane + (PAGE ? page[u] * (Values ? cache.v_page : cache.k_page) : 0);
#pragma unroll
    for (int i = 0; i < kRows; i++) {
      const int row = Values ? i % 2 + i / 2 * 8 : 8 * i;
      const char* from = page_lane + (long long)(from_lane + row) * token;
      if (!Whole) from -= u64(max(0, at + own + row - (cache.end - 1))) * token;
      if constexpr (Values) {
#pragma unroll
        for (int c = 0; c < kWords; c += 4) load(to[u].v[i] + c, from + 32 * c, min(4 * kWords, 16));
      } else {
#pragma unroll
        for (int c = 0; c < kRow / 64; c++) load(to[u].k[i] + 4 * c, from + 64 * c, 16);
      }
    }
  }
}
template <bool Values>
__device__ __forceinline__ void load_tile(Step (&to)[STEPS], const Cache& cache, int tile, const int (&page)[STEPS]) {
  if ((tile + 1) * kTile <= cache.end) {
    load_rows<Values, true>(to, cache, tile * kTile, page);
  } else {
    load_rows<Values, false>(to, cache, tile * kTile, page);
  }
}
// The first of the two dimensions that a lane holds in tile e of the outputs.
__device__ __forceinline__ int dimension(int e) {
  const int g = threadIdx.x % 32 / 4;
  return FP8 ? g * (HEAD_DIM / 8) + 2 * e : (g + e / 4 * 8) * 8 + 2 * (e % 4);
}

// The running softmax of one warp for heads 2t and 2t + 1. `sum` covers the keys g and g + 8 of each step only.
struct Sums {
  float out[kSteps16][4] = {}, base[2] = {-CUDART_MAX_NORMAL_F, -CUDART_MAX_NORMAL_F}, sum[2] = {};

  __device__ __forceinline__ void move_base(const float (&tops)[2]) {
    float scores_scale[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
      float top = tops[j];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
      const float before = base[j];
      base[j] = fmaxf(before, top);
      scores_scale[j] = ex2_ftz(before - base[j]);
      sum[j] *= scores_scale[j];
    }
#pragma unroll
    for (int e = 0; e < kSteps16; e++)
#pragma unroll
      for (int i = 0; i < 4; i++) out[e][i] *= scores_scale[i % 2];
  }
};

// Scores of a step for the heads 2t and 2t + 1: to[0] and to[1] of key g, to[2] and to[3] of key g + 8.
__device__ __forceinline__ void score(float (&to)[4], const u32 (&k)[2][kRow / 16], const u32 (&q)[kSteps16][2]) {
#pragma unroll
  for (int s = 0; s < kSteps16; s++) {
    u32 a[2][2];
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int i = 0; i < 2; i++)
        a[h][i] = FP8 ? e4m3x2_to_f16x2(k[h][s % (kRow / 16)] >> 16 * i) : k[h][(2 * s + i) % (kRow / 16)];
    const u32 keys[4] = {a[0][0], a[1][0], a[0][1], a[1][1]};
    mma_sync<Operand>(to, keys, q[s][0], q[s][1]);
  }
}

__device__ __forceinline__ void add_values(Sums& sums, const u32 (&v)[4][kWords], const u32 (&p)[2]) {
#pragma unroll
  for (int w = 0; w < kWords; w++) {
    if constexpr (FP8) {
#pragma unroll
      for (int part = 0; part < 2; part++) {
        const u32 one = __byte_perm(v[0][w], v[1][w], part ? 0x7362 : 0x5140);
        const u32 two = __byte_perm(v[2][w], v[3][w], part ? 0x7362 : 0x5140);
        const u32 values[4] = {e4m3x2_to_f16x2(one), e4m3x2_to_f16x2(one >> 16), e4m3x2_to_f16x2(two),
                               e4m3x2_to_f16x2(two >> 16)};
        mma_sync<Operand>(sums.out[2 * w + part], values, p[0], p[1]);
      }
    } else {
      const u32 values[4] = {__byte_perm(v[0][w], v[1][w], 0x5410), __byte_perm(v[0][w], v[1][w], 0x7632),
                             __byte_perm(v[2][w], v[3][w], 0x5410), __byte_perm(v[2][w], v[3][w], 0x7632)};
      mma_sync<Operand>(sums.out[w], values, p[0], p[1]);
    }
  }
}

// Loads q of head g, with the dimensions in the order of the keys. For an fp8 cache each row is divided by its largest
// magnitude and converted to fp16; the returned scale makes up for it.
__device__ __forceinline__ float load_query(u32 (&to)[kSteps16][2], const char* q, float scale) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  constexpr int kEach = FP8 ? 4 : 2;
  float largest = 0;
  u32 raw[kSteps16][2] = {};
#pragma unroll
  for (int s = 0; s < kSteps16; s++)
    if (g < GROUP) load(raw[s], q + 2 * ((t + s / kEach * 4) * 4 * kEach + 4 * (s % kEach)), 8);
#pragma unroll
  for (int s = 0; s < kSteps16; s++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float2 pair = unpack<ELEMENT>(raw[s][i]);
      largest = fmaxf(largest, fmaxf(fabsf(pair.x), fabsf(pair.y)));
      to[s][i] = raw[s][i];
    }
  if constexpr (FP8) {
    largest = row_max(largest);
    largest = largest > 0 ? largest : 1;
#pragma unroll
    for (int s = 0; s < kSteps16; s++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const float2 pair = unpack<ELEMENT>(raw[s][i]);
        to[s][i] = pack<f16>(pair.x / largest, pair.y / largest);
      }
    return scale * largest;
  }
  return scale;
}

// Attends to every WARPS-th tile from `tile` on. Each tile is loaded while the one before is multiplied.
__device__ __forceinline__ void attend(Sums& sums, const Cache& cache, const char* q, float factor, int tile,
                                       int tiles) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  Step held[STEPS];
  int page[STEPS];
  bool missing = false;
  const auto find_pages = [&](int next) {
#pragma unroll
    for (int u = 0; u < STEPS && PAGE; u++) {
      page[u] = cache.table[min(min(next, tiles - 1) * kTile + 16 * u, cache.end - 1) / max(PAGE, 1)];
      if (page[u] < 0 || page[u] >= cache.pages) {
        missing = true;
        page[u] = 0;
      }
    }
  };
  find_pages(tile);
  load_tile<false>(held, cache, tile, page);
  load_tile<true>(held, cache, tile, page);
  u32 query[kSteps16][2];
  factor = load_query(query, q, factor);
  const float scale[2] = {__shfl_sync(~0u, factor, 8 * t), __shfl_sync(~0u, factor, 8 * t + 4)};
  find_pages(tile + WARPS);
  for (; tile < tiles; tile += WARPS) {
    const int start = tile * kTile;
    float s[STEPS][4] = {}, top[2] = {-CUDART_INF_F, -CUDART_INF_F};
#pragma unroll
    for (int u = 0; u < STEPS; u++) score(s[u], held[u].k, query);
    if (tile + WARPS < tiles) load_tile<false>(held, cache, tile + WARPS, page);
    if (start + kTile > cache.end) {
#pragma unroll
      for (int u = 0; u < STEPS; u++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          if (start + 16 * u + g + i / 2 * 8 >= cache.end) s[u][i] = -CUDART_INF_F;
          if (start + 16 * u + 2 * t + i % 2 + i / 2 * 8 >= cache.end)
#pragma unroll
            for (int w = 0; w < kWords; w++) held[u].v[i][w] = 0;
        }
    }
#pragma unroll
    for (int i = 0; i < 4 * STEPS; i++) top[i % 2] = fmaxf(top[i % 2], s[i / 4][i % 4]);
    top[0] *= scale[0];
    top[1] *= scale[1];
    if (__any_sync(~0u, top[0] > sums.base[0] + kHeadroom || top[1] > sums.base[1] + kHeadroom)) sums.move_base(top);
#pragma unroll
    for (int u = 0; u < STEPS; u++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        s[u][i] = ex2_ftz(fmaf(s[u][i], scale[i % 2], -sums.base[i % 2]));
        sums.sum[i % 2] += s[u][i];
      }
      const u32 p[2] = {transposed(pack<Operand>(s[u][0], s[u][1])), transposed(pack<Operand>(s[u][2], s[u][3]))};
      add_values(sums, held[u].v, p);
    }
    if (tile + WARPS < tiles) load_tile<true>(held, cache, tile + WARPS, page);
    find_pages(tile + 2 * WARPS);
  }
  if (missing) sums.sum[0] = sums.sum[1] = CUDART_NAN_F;
}

}  // namespace tiles
