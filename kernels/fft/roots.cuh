// Roots of unity, and Fourier transforms of 1, 2, 4 or 8 values in registers whose frequencies lie at k + Quarter / 4.
#pragma once
#include "tiles.cuh"

// What depends on x is computed here, and not ahead of a loop around, where it would take registers all the time.
__device__ __forceinline__ void keep(int& x) { asm volatile("" : "+r"(x)); }

// exp(-2πi · turn / turns), where `turns` is a power of two.
__device__ __forceinline__ float2 root(tiles::u32 turn, tiles::u32 turns) {
  const int fraction = (int)(turn * (0xffffffffu / turns + 1u));  // of 2^32, so that whole turns vanish
  float2 w;
  __sincosf((float)fraction * -1.4629180792671596e-09f, &w.y, &w.x);
  return w;
}

__device__ __forceinline__ float2 times(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// cos(2π · turns) for the compiler, from -1 to 1.
__host__ __device__ constexpr float cosine(double turns) {
  double square = turns * turns * 39.47841760435743, term = 1, sum = 1;
  for (int i = 2; i < 40; i += 2) sum += term *= -square / (i * (i - 1));
  return (float)sum;
}

template <int N>
struct Roots {
  float re[N], im[N];
};
// exp(-2πi · (k + Quarter / 4) / Turns) for k = 0 to N - 1, known to the compiler.
template <int N, int Quarter>
__host__ __device__ constexpr Roots<N> roots(double turns) {
  Roots<N> found = {};
  for (int k = 0; k < N; k++) {
    const double turn = (k + Quarter * 0.25) / turns;
    found.re[k] = cosine(turn);
    found.im[k] = cosine(turn + 0.25 > 1 ? turn - 0.75 : turn + 0.25);
  }
  return found;
}

template <int R, int Quarter>
struct Radix {
  static constexpr int kHalf = R / 2;
  // z[k] = Σ x[i] · exp(-2πi · i · (k + Quarter / 4) / R)
  __device__ __forceinline__ static void forward(const float (&x)[R], float2 (&z)[R]) {
    constexpr Roots<kHalf> w = roots<kHalf, Quarter>(R);
    float even[kHalf], odd[kHalf];
    float2 a[kHalf], b[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; i++) even[i] = x[2 * i], odd[i] = x[2 * i + 1];
    Radix<kHalf, Quarter>::forward(even, a);
    Radix<kHalf, Quarter>::forward(odd, b);
#pragma unroll
    for (int k = 0; k < kHalf; k++) {
      const float2 turned = times(make_float2(w.re[k], w.im[k]), b[k]);
      z[k] = make_float2(a[k].x + turned.x, a[k].y + turned.y);
      z[k + kHalf] = make_float2(a[k].x - turned.x, a[k].y - turned.y);
    }
  }
  // y[i] = the real part of Σ z[k] · exp(-2πi · i · (k + Quarter / 4) / R)
  __device__ __forceinline__ static void backward(const float2 (&z)[R], float (&y)[R]) {
    constexpr Roots<kHalf> w = roots<kHalf, Quarter>(R);
    float2 even[kHalf], odd[kHalf];
    float a[kHalf], b[kHalf];
#pragma unroll
    for (int k = 0; k < kHalf; k++) {
      const float2 low = z[k], high = z[k + kHalf];
      even[k] = make_float2(low.x + high.x, low.y + high.y);
      odd[k] = times(make_float2(w.re[k], w.im[k]), make_float2(low.x - high.x, low.y - high.y));
    }
    Radix<kHalf, Quarter>::backward(even, a);
    Radix<kHalf, Quarter>::backward(odd, b);
#pragma unroll
    for (int i = 0; i < kHalf; i++) y[2 * i] = a[i], y[2 * i + 1] = b[i];
  }
};
template <int Quarter>
struct Radix<1, Quarter> {
  __device__ __forceinline__ static void forward(const float (&x)[1], float2 (&z)[1]) { z[0] = make_float2(x[0], 0.f); }
  __device__ __forceinline__ static void backward(const float2 (&z)[1], float (&y)[1]) { y[0] = z[0].x; }
};
