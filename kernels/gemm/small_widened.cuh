// int8 and e4m3 weights of small.cu as operands of its products, in the order of kernels/gemm/small_pack.py.
#pragma once
#include "small_producer.cuh"

#if INT8 || FP8
// This thread's operands of a panel: for each of four products 64 × 16 its weights in bf16.
struct Widened {
  u32 at[4][4];

  __device__ __forceinline__ void load(const char* tile) {
    const int warp = threadIdx.x % kWarpgroup / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int group = 0; group < 2; group++) {  // of 32 columns
      const uint4 codes = *(const uint4*)(tile + ((warp * 2 + group) * 32 + lane) * 16);
      const u32 words[4] = {codes.x, codes.y, codes.z, codes.w};
#if FP8
#pragma unroll
      for (int i = 0; i < 8; i++)  // pairs of row g, in the upper bytes of a word's halves, and of row g + 8
        at[group * 2 + i / 4][i % 4] = e4m3_pair(i % 2 ? words[i / 2] << 8 : words[i / 2]);
#else
      const float2 scale = unpack<f16>(*(const u32*)(tile + kCodesBytes + ((warp * 2 + group) * 8 + lane / 4) * 4));
      const float by[2] = {scale.x / 256, scale.y / 256}, zero[2] = {scale.x * -32896.f, scale.y * -32896.f};
#pragma unroll
      for (int i = 0; i < 8; i++) {  // pairs of row g, and of row g + 8
        const int row = i % 2, byte = i % 2 * 2;
        const float first = fmaf(magic(words[i / 2], byte), by[row], zero[row]);
        const float second = fmaf(magic(words[i / 2], byte + 1), by[row], zero[row]);
        at[group * 2 + i / 4][i % 4] = pack<bf16>(first, second);
      }
#endif
    }
  }
  // The e4m3 codes in the upper bytes of both halves as bf16, exactly. Their bits make bf16 numbers that are too small by
  // the difference of the exponents' biases, 2^120, subnormals included.
  static __device__ __forceinline__ u32 e4m3_pair(u32 codes) {
    return times((codes & 0x80008000u) | (codes >> 4 & 0x07f007f0u), 0x7b807b80u);
  }
  static __device__ __forceinline__ u32 times(u32 pair, u32 factors) {
    u32 product;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(pair), "r"(factors));
    return product;
  }
  // The float 2^23 + 256 · byte. Its product with scale / 256, less 32896 scales, is (byte - 128) · scale, exactly.
  static __device__ __forceinline__ float magic(u32 word, int byte) {
    return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7604 + (byte << 4)));
  }
  __device__ __forceinline__ void fence() {
#pragma unroll
    for (int i = 0; i < 16; i++) asm volatile("" : "+r"(at[i / 4][i % 4])::"memory");
  }
  // Products read their operands while they run, which the compiler does not know: without a later use it gives these
  // registers to other values. The use never happens: no block has -1 panels.
  __device__ __forceinline__ void keep(u32 address, int panels) const {
#pragma unroll
    for (int k = 0; k < 4; k++)
      asm volatile(
          "{\n\t.reg .pred p;\n\tsetp.eq.s32 p, %5, -1;\n\t@p st.shared.v4.b32 [%4], {%0, %1, %2, %3};\n\t}" ::"r"(
              at[k][0]),
          "r"(at[k][1]), "r"(at[k][2]), "r"(at[k][3]), "r"(address), "r"(panels)
          : "memory");
  }
};
#endif
