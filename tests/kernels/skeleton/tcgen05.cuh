// The tensor cores of sm_100a played by single threads of a Hopper GPU, with TMEM in device memory: what else a kernel
// does (copies, swizzles, barriers, order of tiles, stores) then runs on a chip. Slow, and for single blocks only.
#pragma once
#include "descriptors.cuh"
#include "tiles.cuh"

namespace tiles {

constexpr int kPlayedBlocks = 8;
__device__ u32 played_tmem[kPlayedBlocks][128][kTmemColumns];
__device__ __forceinline__ volatile u32& tmem_at(u32 lane, u32 column) {
  return played_tmem[blockIdx.x][lane][column];
}

template <int Blocks = 1>
__device__ __forceinline__ void tmem_take(u32* address) {
  if (blockIdx.x >= kPlayedBlocks) __trap();
  *address = 0;
}
template <int Blocks = 1>
__device__ __forceinline__ void tmem_free(u32 address) {}
__device__ __forceinline__ void tcgen05_fence_before() { __threadfence(); }
__device__ __forceinline__ void tcgen05_fence_after() { __threadfence(); }
__device__ __forceinline__ void tcgen05_cluster_sync() {
  __threadfence();
  cluster_sync();
}
template <int Blocks = 1>
__device__ __forceinline__ void tcgen05_commit(Barrier& barrier) {
  __threadfence();
  arrive(barrier);
}
__device__ __forceinline__ void arrive_expect_tx_first(Barrier& barrier, u32 bytes) {
  arrive_expect_tx(barrier, bytes);
}
template <int Blocks>
__device__ __forceinline__ void tma_load_first(void* to, const TensorMap& map, Barrier& barrier, int c0, int c1) {
  static_assert(Blocks == 1, "single blocks only");
  tma_load(to, map, barrier, c0, c1);
}
template <int Blocks>
__device__ __forceinline__ void tma_load_first(void* to, const TensorMap& map, Barrier& barrier, int c0, int c1,
                                               int c2) {
  static_assert(Blocks == 1, "single blocks only");
  tma_load(to, map, barrier, c0, c1, c2);
}
template <int Blocks, bool Both>
__device__ __forceinline__ void tma_load_both(void* to, const TensorMap& map, Barrier& barrier, int c0, int c1,
                                              int c2) {
  static_assert(!Both, "single blocks only");
  tma_load_first<Blocks>(to, map, barrier, c0, c1, c2);
}

__device__ __forceinline__ u32 operand_byte(u64 descriptor, int row, int byte) {
  const u32 start = (u32)(descriptor & 0x3fff) << 4, step = (u32)(descriptor >> 32 & 0x3fff) << 4;
  const u32 address = start + row / 8 * step + row % 8 * 128 + byte;
  return *(const volatile unsigned char*)__cvta_shared_to_generic(address ^ (address >> 7 & 7) << 4);
}
// Value number `k` of a row for one instruction.
template <MatrixKind Kind>
__device__ float operand_value(u64 descriptor, int row, int k) {
  if (Kind == kNvfp4) {
    const u32 code = operand_byte(descriptor, row, k / 2) >> k % 2 * 4 & 15, size = code & 7;
    const float value = size < 4 ? size * .5f : size < 6 ? size - 2.f : size * 2.f - 8.f;
    return code & 8 ? -value : value;
  }
  if (Kind == kE4m3 || Kind == kMxfp8) return unpack<f16>(e4m3x2_to_f16x2(operand_byte(descriptor, row, k))).x;
  const u32 both = operand_byte(descriptor, row, 2 * k) | operand_byte(descriptor, row, 2 * k + 1) << 8;
  return Kind == kBf16 ? unpack<bf16>(both).x : unpack<f16>(both).x;
}
// The scale of value `k` of a row whose word of scales is `word`; 1 without block scales.
template <MatrixKind Kind>
__device__ float scale_of(u32 word, int k, int id) {
  if (!is_block_scaled(Kind)) return 1.f;
  if (Kind == kNvfp4) return unpack<f16>(e4m3x2_to_f16x2(word >> k / 16 * 8 & 127)).x;
  return exp2f((float)(word >> id * 8 & 255) - 127.f);
}

template <MatrixKind Kind, int Blocks = 1>
__device__ void tcgen05_mma(u32 d, u64 a, u64 b, u32 instruction, int keep, u32 a_scales = 0, u32 b_scales = 0) {
  constexpr int kValues = Kind == kNvfp4 ? 64 : Kind == kBf16 || Kind == kF16 ? 16 : 32;
  constexpr bool kScaled = is_block_scaled(Kind);
  const int columns = (instruction >> 17 & 63) * 8, id = instruction >> 29 & 3;
  const auto word = [&](u32 scales, int row) { return kScaled ? (u32)tmem_at(row % 32, scales + row / 32) : 0u; };
  for (int r = 0; r < 128; r++) {
    const u32 a_word = word(a_scales, r);
    float of_a[kValues];
    for (int k = 0; k < kValues; k++) of_a[k] = operand_value<Kind>(a, r, k) * scale_of<Kind>(a_word, k, id);
    for (int c = 0; c < columns; c++) {
      const u32 b_word = word(b_scales, c);
      float sum = keep ? __uint_as_float(tmem_at(r, d + c)) : 0.f;
      for (int k = 0; k < kValues; k++)
        sum += of_a[k] * operand_value<Kind>(b, c, k) * scale_of<Kind>(b_word, k, id);
      tmem_at(r, d + c) = __float_as_uint(sum);
    }
  }
}
template <int Blocks = 1>
__device__ __forceinline__ void tmem_copy_scales(u32 to, u64 from) {
  const u32* words = (const u32*)__cvta_shared_to_generic((u32)(from & 0x3fff) << 4);
  for (int lane = 0; lane < 128; lane++)
    for (int i = 0; i < 4; i++) tmem_at(lane, to + i) = words[lane % 32 * 4 + i];
}
// Weights in TMEM, two 16-bit values in a column, times values of which a row is one K: 16 rows for an instruction.
template <MatrixKind Kind>
__device__ void tcgen05_mma_tmem(u32 d, u32 a, u64 b, u32 instruction, int keep) {
  const int columns = (instruction >> 17 & 63) * 8;
  const u32 panel = (u32)(b >> 16) & 0x3fff;
  const auto values = [](u32 both) { return Kind == kBf16 ? unpack<bf16>(both) : unpack<f16>(both); };
  for (int c = 0; c < columns; c++) {
    float of_b[16];
    for (int k = 0; k < 16; k++) of_b[k] = operand_value<Kind>(b + c / 64 * panel, k, c % 64);
    for (int r = 0; r < 128; r++) {
      float sum = keep ? __uint_as_float(tmem_at(r, d + c)) : 0.f;
      for (int k = 0; k < 16; k += 2) {
        const float2 weights = values(tmem_at(r, a + k / 2));
        sum += weights.x * of_b[k] + weights.y * of_b[k + 1];
      }
      tmem_at(r, d + c) = __float_as_uint(sum);
    }
  }
}
template <int N>
__device__ __forceinline__ void tmem_load(float (&to)[N], u32 address) {
#pragma unroll
  for (int i = 0; i < N; i++)
    to[i] = __uint_as_float(tmem_at((address >> 16) + threadIdx.x % 32, (address & 0xffff) + i));
}
template <int N>
__device__ __forceinline__ void tmem_store(u32 address, const float (&from)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++)
    tmem_at((address >> 16) + threadIdx.x % 32, (address & 0xffff) + i) = __float_as_uint(from[i]);
}

}  // namespace tiles
