// Products of one warp: d[16, 8] += a[16, 16] · b[16, 8] in 16-bit values, sums in float (mma.sync.m16n8k16); and in bytes.
//
// Lane 4g + t holds of a: rows g and g + 8, columns 2t, 2t + 1 (a[0], a[1]) and 2t + 8, 2t + 9 (a[2], a[3]);
// of b: rows 2t, 2t + 1 (b0) and 2t + 8, 2t + 9 (b1) of column g; of d: rows g (d[0], d[1]) and g + 8 (d[2], d[3]),
// columns 2t and 2t + 1.
#pragma once
#include "shared.cuh"

namespace tiles {

template <typename T>
__device__ __forceinline__ void mma_sync(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);

#define TILES_MMA(TYPE, PTX)                                                                       \
  template <>                                                                                      \
  __device__ __forceinline__ void mma_sync<TYPE>(float(&d)[4], const u32(&a)[4], u32 b0, u32 b1) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." PTX "." PTX                                       \
        ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "                                             \
        "{%0,%1,%2,%3};"                                                                           \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                           \
  }
TILES_MMA(bf16, "bf16")
TILES_MMA(f16, "f16")
#undef TILES_MMA

// d[16, 8] += a[16, 32] · b[32, 8] in signed bytes, sums in integers (mma.sync.m16n8k32). Lane 4g + t holds of a: rows g
// and g + 8, columns 4t to 4t + 3 (a[0], a[1]) and 4t + 16 to 4t + 19 (a[2], a[3]); of b: these rows (b0, b1) of column
// g; of d as above.
__device__ __forceinline__ void mma_sync(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tiles
