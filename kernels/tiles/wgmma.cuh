// Warpgroup products: Accumulator<N> (64 × N, float) += A (64 × K) · B (K × N), K the 32 bytes of one instruction.
#pragma once
#include "shared.cuh"

namespace tiles {

// 64 × N floats of a warpgroup. Thread t of warp w holds rows 16w + t/4 (+ 8) and columns 8i + 2(t mod 4) (+ 1):
// at[4i], at[4i + 1] in the first row, at[4i + 2], at[4i + 3] in the second.
template <int N>
struct Accumulator {
  float at[N / 2];
};

// wgmma_fence orders register writes before the products that follow. wgmma_commit makes the products so far one group.
// wgmma_wait waits until at most Pending groups run.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
// Keeps the compiler from moving reads or writes of these registers across this line.
template <int N>
__device__ __forceinline__ void fence_operand(Accumulator<N>& registers) {
#pragma unroll
  for (int i = 0; i < N / 2; i++) asm volatile("" : "+f"(registers.at[i])::"memory");
}

// Descriptor of a swizzled operand whose rows are M (or N) and whose 128-byte rows run along K: [row][k].
// The next instruction's K (16 values of 16 bits, 32 of 8) begins 32 bytes on: descriptor + 2.
constexpr u64 kSwizzle128 = 1ull << 62;
__device__ __forceinline__ u64 k_major(const void* panel) {
  return kSwizzle128 | (u64)(1024 >> 4) << 32 | 1ull << 16 | (shared_address(panel) & 0x3ffff) >> 4;
}
// Descriptor of a 16-bit operand in core matrices of 8 rows × 16 bytes, without a swizzle: those of one K lie one after
// the other, `k_bytes` before those of the next 8. The next instruction's K begins 2 · k_bytes on.
__device__ __forceinline__ u64 k_major_cores(const void* first, u32 k_bytes) {
  return (u64)(128 >> 4) << 32 | (u64)(k_bytes >> 4) << 16 | (shared_address(first) & 0x3ffff) >> 4;
}
// Descriptor of a 16-bit operand whose rows are K and whose 128-byte rows run along N (or M): [k][64 n], one panel of
// `panel_bytes` for each 64. The next instruction's K begins 16 rows on: descriptor + 128.
__device__ __forceinline__ u64 n_major(const void* panel, u32 panel_bytes) {
  return kSwizzle128 | (u64)(1024 >> 4) << 32 | (u64)(panel_bytes >> 4) << 16 | (shared_address(panel) & 0x3ffff) >> 4;
}
constexpr int kNextK = 2, kNextRows = 128;

template <typename T, int N>
struct Product;  // Product<bf16, 128>::run<B_IS_N_MAJOR>(acc, a, b, keep): a is a descriptor, or u32[4] of registers

#define TILES_O4(d, o) "+f"(d[o]), "+f"(d[o + 1]), "+f"(d[o + 2]), "+f"(d[o + 3])
#define TILES_O8(d, o) TILES_O4(d, o), TILES_O4(d, o + 4)
#define TILES_O12(d, o) TILES_O8(d, o), TILES_O4(d, o + 8)
#define TILES_O16(d, o) TILES_O8(d, o), TILES_O8(d, o + 8)
#define TILES_O20(d, o) TILES_O16(d, o), TILES_O4(d, o + 16)
#define TILES_O24(d, o) TILES_O16(d, o), TILES_O8(d, o + 16)
#define TILES_O28(d, o) TILES_O16(d, o), TILES_O12(d, o + 16)
#define TILES_O32(d, o) TILES_O16(d, o), TILES_O16(d, o + 16)
#define TILES_O36(d, o) TILES_O32(d, o), TILES_O4(d, o + 32)
#define TILES_O40(d, o) TILES_O32(d, o), TILES_O8(d, o + 32)
#define TILES_O44(d, o) TILES_O32(d, o), TILES_O12(d, o + 32)
#define TILES_O48(d, o) TILES_O32(d, o), TILES_O16(d, o + 32)
#define TILES_O52(d, o) TILES_O32(d, o), TILES_O20(d, o + 32)
#define TILES_O56(d, o) TILES_O32(d, o), TILES_O24(d, o + 32)
#define TILES_O60(d, o) TILES_O32(d, o), TILES_O28(d, o + 32)
#define TILES_O64(d, o) TILES_O32(d, o), TILES_O32(d, o + 32)
#define TILES_O68(d, o) TILES_O64(d, o), TILES_O4(d, o + 64)
#define TILES_O72(d, o) TILES_O64(d, o), TILES_O8(d, o + 64)
#define TILES_O76(d, o) TILES_O64(d, o), TILES_O12(d, o + 64)
#define TILES_O80(d, o) TILES_O64(d, o), TILES_O16(d, o + 64)
#define TILES_O84(d, o) TILES_O80(d, o), TILES_O4(d, o + 80)
#define TILES_O88(d, o) TILES_O80(d, o), TILES_O8(d, o + 80)
#define TILES_O92(d, o) TILES_O80(d, o), TILES_O12(d, o + 80)
#define TILES_O96(d, o) TILES_O64(d, o), TILES_O32(d, o + 64)
#define TILES_O100(d, o) TILES_O96(d, o), TILES_O4(d, o + 96)
#define TILES_O104(d, o) TILES_O96(d, o), TILES_O8(d, o + 96)
#define TILES_O108(d, o) TILES_O96(d, o), TILES_O12(d, o + 96)
#define TILES_O112(d, o) TILES_O96(d, o), TILES_O16(d, o + 96)
#define TILES_O116(d, o) TILES_O96(d, o), TILES_O20(d, o + 96)
#define TILES_O120(d, o) TILES_O96(d, o), TILES_O24(d, o + 96)
#define TILES_O124(d, o) TILES_O96(d, o), TILES_O28(d, o + 96)
#define TILES_O128(d, o) TILES_O64(d, o), TILES_O64(d, o + 64)
#define TILES_L4 "%0, %1, %2, %3"
#define TILES_L8 TILES_L4 ", %4, %5, %6, %7"
#define TILES_L12 TILES_L8 ", %8, %9, %10, %11"
#define TILES_L16 TILES_L12 ", %12, %13, %14, %15"
#define TILES_L20 TILES_L16 ", %16, %17, %18, %19"
#define TILES_L24 TILES_L20 ", %20, %21, %22, %23"
#define TILES_L28 TILES_L24 ", %24, %25, %26, %27"
#define TILES_L32 TILES_L28 ", %28, %29, %30, %31"
#define TILES_L36 TILES_L32 ", %32, %33, %34, %35"
#define TILES_L40 TILES_L36 ", %36, %37, %38, %39"
#define TILES_L44 TILES_L40 ", %40, %41, %42, %43"
#define TILES_L48 TILES_L44 ", %44, %45, %46, %47"
#define TILES_L52 TILES_L48 ", %48, %49, %50, %51"
#define TILES_L56 TILES_L52 ", %52, %53, %54, %55"
#define TILES_L60 TILES_L56 ", %56, %57, %58, %59"
#define TILES_L64 TILES_L60 ", %60, %61, %62, %63"
#define TILES_L68 TILES_L64 ", %64, %65, %66, %67"
#define TILES_L72 TILES_L68 ", %68, %69, %70, %71"
#define TILES_L76 TILES_L72 ", %72, %73, %74, %75"
#define TILES_L80 TILES_L76 ", %76, %77, %78, %79"
#define TILES_L84 TILES_L80 ", %80, %81, %82, %83"
#define TILES_L88 TILES_L84 ", %84, %85, %86, %87"
#define TILES_L92 TILES_L88 ", %88, %89, %90, %91"
#define TILES_L96 TILES_L92 ", %92, %93, %94, %95"
#define TILES_L100 TILES_L96 ", %96, %97, %98, %99"
#define TILES_L104 TILES_L100 ", %100, %101, %102, %103"
#define TILES_L108 TILES_L104 ", %104, %105, %106, %107"
#define TILES_L112 TILES_L108 ", %108, %109, %110, %111"
#define TILES_L116 TILES_L112 ", %112, %113, %114, %115"
#define TILES_L120 TILES_L116 ", %116, %117, %118, %119"
#define TILES_L124 TILES_L120 ", %120, %121, %122, %123"
#define TILES_L128 TILES_L124 ", %124, %125, %126, %127"

// R registers of accumulator, then the operands from number P0 on.
#define TILES_PRODUCT16(TYPE, PTX, N, R, P0, P1, P2, P3, P4, P5, P6)                                            \
  template <>                                                                                                   \
  struct Product<TYPE, N> {                                                                                     \
    template <bool B_IS_N_MAJOR = false>                                                                        \
    static __device__ __forceinline__ void run(Accumulator<N>& d, u64 a, u64 b, int keep = 1) {                 \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #P2                                                 \
                   ", 0;\n\t"                                                                                   \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " {" TILES_L##R                \
                   "}, %" #P0 ", %" #P1 ", p, 1, 1, 0, %" #P3 ";\n\t}"                                          \
                   : TILES_O##R(d.at, 0)                                                                        \
                   : "l"(a), "l"(b), "r"(keep), "n"(B_IS_N_MAJOR ? 1 : 0));                                     \
    }                                                                                                           \
    template <bool B_IS_N_MAJOR = false>                                                                        \
    static __device__ __forceinline__ void run(Accumulator<N>& d, const u32 (&a)[4], u64 b, int keep = 1) {     \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #P5                                                 \
                   ", 0;\n\t"                                                                                   \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " {" TILES_L##R                \
                   "}, {%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 "}, %" #P4 ", p, 1, 1, %" #P6 ";\n\t}"             \
                   : TILES_O##R(d.at, 0)                                                                        \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep), "n"(B_IS_N_MAJOR ? 1 : 0)); \
    }                                                                                                           \
  };
#define TILES_PRODUCT8(N, R, P0, P1, P2)                                                                        \
  template <>                                                                                                   \
  struct Product<e4m3, N> {                                                                                     \
    static __device__ __forceinline__ void run(Accumulator<N>& d, u64 a, u64 b, int keep = 1) {                 \
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #P2                                                 \
                   ", 0;\n\t"                                                                                   \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" TILES_L##R "}, %" #P0 ", %" #P1 \
                                                                                           ", p, 1, 1;\n\t}"    \
                   : TILES_O##R(d.at, 0)                                                                        \
                   : "l"(a), "l"(b), "r"(keep));                                                                \
    }                                                                                                           \
  };
#define TILES_PRODUCTS_16(N, R, P0, P1, P2, P3, P4, P5, P6)       \
  TILES_PRODUCT16(bf16, "bf16", N, R, P0, P1, P2, P3, P4, P5, P6) \
  TILES_PRODUCT16(f16, "f16", N, R, P0, P1, P2, P3, P4, P5, P6)
#define TILES_PRODUCTS(N, R, P0, P1, P2, P3, P4, P5, P6) \
  TILES_PRODUCTS_16(N, R, P0, P1, P2, P3, P4, P5, P6)    \
  TILES_PRODUCT8(N, R, P0, P1, P2)

TILES_PRODUCTS(16, 8, 8, 9, 10, 11, 12, 13, 14)
TILES_PRODUCTS(32, 16, 16, 17, 18, 19, 20, 21, 22)
TILES_PRODUCTS(64, 32, 32, 33, 34, 35, 36, 37, 38)
TILES_PRODUCTS(96, 48, 48, 49, 50, 51, 52, 53, 54)
TILES_PRODUCTS(128, 64, 64, 65, 66, 67, 68, 69, 70)
TILES_PRODUCTS(192, 96, 96, 97, 98, 99, 100, 101, 102)
TILES_PRODUCTS(256, 128, 128, 129, 130, 131, 132, 133, 134)

// Widths for the rows of small products and of experts.
TILES_PRODUCTS_16(48, 24, 24, 25, 26, 27, 28, 29, 30)
TILES_PRODUCTS_16(56, 28, 28, 29, 30, 31, 32, 33, 34)
TILES_PRODUCTS_16(72, 36, 36, 37, 38, 39, 40, 41, 42)
TILES_PRODUCTS_16(80, 40, 40, 41, 42, 43, 44, 45, 46)
TILES_PRODUCTS_16(88, 44, 44, 45, 46, 47, 48, 49, 50)
TILES_PRODUCTS_16(104, 52, 52, 53, 54, 55, 56, 57, 58)
TILES_PRODUCTS_16(112, 56, 56, 57, 58, 59, 60, 61, 62)
TILES_PRODUCTS_16(120, 60, 60, 61, 62, 63, 64, 65, 66)
TILES_PRODUCTS_16(136, 68, 68, 69, 70, 71, 72, 73, 74)
TILES_PRODUCTS_16(144, 72, 72, 73, 74, 75, 76, 77, 78)
TILES_PRODUCTS_16(152, 76, 76, 77, 78, 79, 80, 81, 82)
TILES_PRODUCTS_16(160, 80, 80, 81, 82, 83, 84, 85, 86)
TILES_PRODUCTS_16(168, 84, 84, 85, 86, 87, 88, 89, 90)
TILES_PRODUCTS_16(176, 88, 88, 89, 90, 91, 92, 93, 94)
TILES_PRODUCTS_16(184, 92, 92, 93, 94, 95, 96, 97, 98)
TILES_PRODUCTS_16(200, 100, 100, 101, 102, 103, 104, 105, 106)
TILES_PRODUCTS_16(208, 104, 104, 105, 106, 107, 108, 109, 110)
TILES_PRODUCTS_16(216, 108, 108, 109, 110, 111, 112, 113, 114)
TILES_PRODUCTS_16(224, 112, 112, 113, 114, 115, 116, 117, 118)
TILES_PRODUCTS_16(232, 116, 116, 117, 118, 119, 120, 121, 122)
TILES_PRODUCTS_16(240, 120, 120, 121, 122, 123, 124, 125, 126)
TILES_PRODUCTS_16(248, 124, 124, 125, 126, 127, 128, 129, 130)

// One panel of K (128 bytes: four instructions): d += a · bᵀ, or d = a · bᵀ when `keep` is 0; both operands K-major.
template <typename T, int N>
__device__ __forceinline__ void multiply(Accumulator<N>& d, const T* a_panel, const T* b_panel, int keep = 1) {
  const u64 a = k_major(a_panel), b = k_major(b_panel);
#pragma unroll
  for (int k = 0; k < 4; k++) Product<T, N>::run(d, a + k * kNextK, b + k * kNextK, k ? 1 : keep);
}
// The same, a in core matrices of `Rows` rows, of which the first is a_core's.
template <int Rows, typename T, int N>
__device__ __forceinline__ void multiply_cores(Accumulator<N>& d, const T* a_core, const T* b_panel, int keep = 1) {
  const u64 a = k_major_cores(a_core, Rows * 16), b = k_major(b_panel);
#pragma unroll
  for (int k = 0; k < 4; k++) Product<T, N>::run(d, a + k * (2 * Rows), b + k * kNextK, k ? 1 : keep);
}

}  // namespace tiles
