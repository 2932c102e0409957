// The draw of a token by Gumbel-max, shared by LM head and megakernel; in numpy kernels/ops/sampling.py.
#pragma once
#include "tiles.cuh"

namespace tiles {

// A logit and its token as one integer in the logits' order, of equal ones the smaller token larger; NaN is lowest.
__device__ __forceinline__ u64 candidate(float logit, int token) {
  const u32 bits = __float_as_uint(logit + 0.f);
  const u32 ordered = logit != logit ? 0 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (u64)ordered << 32 | (u32)~token;
}
__device__ __forceinline__ float logit_of(u64 candidate) {
  const u32 ordered = (u32)(candidate >> 32);
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}
__device__ __forceinline__ u64 larger(u64 a, u64 b) { return a > b ? a : b; }

// Philox 4x32-10 (Salmon et al., SC 2011): the first 32 bits of counter (a, b, c, 0).
__device__ __forceinline__ u32 philox(u64 key, u32 a, u32 b, u32 c) {
  u32 d = 0, first = (u32)key, second = (u32)(key >> 32);
#pragma unroll
  for (int i = 0; i < 10; i++) {
    const u32 one = a * 0xD2511F53u, two = c * 0xCD9E8D57u;
    const u32 one_high = __umulhi(a, 0xD2511F53u), two_high = __umulhi(c, 0xCD9E8D57u);
    a = two_high ^ b ^ first;
    b = two;
    c = one_high ^ d ^ second;
    d = one;
    first += 0x9E3779B9u;
    second += 0xBB67AE85u;
  }
  return a;
}

// logit / temperature + Gumbel noise. The token with the largest score is a draw from the softmax (the Gumbel-max
// trick: Gumbel, 1954). `index` is the place of the drawn token in its sequence; sequences with one seed have different
// values of `stream`.
__device__ __forceinline__ float gumbel_score(float logit, float inverse_temperature, u64 seed, u32 stream, int index,
                                              int token) {
  const float bits = (float)philox(seed, token, index, stream);
  const float uniform = fminf(fmaf(bits, 0x1p-32f, 0x1p-33f), 0x1.fffffep-1f);
  return logit * inverse_temperature - __logf(-log1pf(-uniform));
}

}  // namespace tiles
