// Products of one warp: d[16, 8] += a[16, 16] · b[16, 8] in 16-bit values, sums in float (mma.sync.m16n8k16).
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

}  // namespace tiles
