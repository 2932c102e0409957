// Small kernels that use every part of the tiles layer; test_tiles.py compares them with torch on a GPU.
#include "tiles.cuh"
using namespace tiles;

template <typename T, typename Y>
struct Operands {
  SharedTile<T, 64, 128 / sizeof(T)> x;
  SharedTile<T, 128, 128 / sizeof(T)> w;
  SharedTile<Y, 64, 128> y;
  Barrier full, empty;
};

template <typename T, typename Y>
__device__ __forceinline__ Operands<T, Y>& begin(const TensorMap& x) {
  extern __shared__ unsigned char raw[];
  Operands<T, Y>& s = *(Operands<T, Y>*)(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) {
    prefetch(x);
    init(s.full, 1);
    init(s.empty, 2);
    fence_init();
  }
  cluster_sync();
  return s;
}

// y [128, 128] = x [128, k] · wᵀ [k, 128] + y: two blocks of 64 rows share w, of which each fetches one half for both.
template <typename T, typename Y>
__device__ __forceinline__ void product(const TensorMap& x, const TensorMap& w, const TensorMap& y, int k) {
  constexpr int kStep = 128 / sizeof(T);
  Operands<T, Y>& s = begin<T, Y>(x);
  const int rank = cluster_rank();
  Accumulator<128> d;
  zero(d);
  for (int at = 0, parity = 0; at < k; at += kStep, parity ^= 1) {
    if (warp_of_warpgroup() == 0 && elect_one()) {
      wait(s.empty, parity ^ 1);
      arrive_expect_tx(s.full, s.x.kBytes + s.w.kBytes);
      tma_load_tile(s.x, x, s.full, at, 64 * rank);
      tma_load_multicast(s.w.panel(0, 64 * rank), w, s.full, 3, at, 64 * rank, kEvictLast);
    }
    wait(s.full, parity);
    fence_operand(d);
    wgmma_fence();
    multiply(d, s.x.panel(0), s.w.panel(0));
    wgmma_commit();
    wgmma_wait<0>();
    fence_operand(d);
    if (threadIdx.x < 2) arrive_remote(s.empty, threadIdx.x);
  }
  if (threadIdx.x == 0) {
    arrive_expect_tx(s.full, s.y.kBytes);
    tma_load_tile(s.y, y, s.full, 0, 64 * rank);
  }
  wait(s.full, k / kStep % 2);
  for (int part = 0; part < 2; part++) {
    add_panel(d, s.y.panel(part), part);
    put_panel(s.y.panel(part), d, part);
  }
  fence_proxy_async_shared();
  named_barrier_sync(1, 128);
  if (threadIdx.x == 0) {
    tma_store_tile(y, s.y, 0, 64 * rank);
    tma_store_commit();
    tma_store_wait();
  }
  cluster_sync();
}

#define PROOF extern "C" __global__ void __launch_bounds__(128, 1)
#define MAPS \
  const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap y

PROOF __cluster_dims__(2) product_16(MAPS, int k) { product<TYPE, TYPE>(x, w, y, k); }
PROOF __cluster_dims__(2) product_8(MAPS, int k) { product<e4m3, bf16>(x, w, y, k); }

// y [64, 128] = (x [64, 64] · wᵀ) · v with w [64, 64] and v [64, 128]: the first product's result stays in registers.
PROOF chain(MAPS, const __grid_constant__ TensorMap v) {
  extern __shared__ unsigned char raw[];
  struct Chain {
    SharedTile<TYPE, 64, 64> x, w;
    SharedTile<TYPE, 64, 128> v;
    Barrier full;
  };
  Chain& s = *(Chain*)(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) {
    init(s.full, 1);
    fence_init();
    arrive_expect_tx(s.full, s.x.kBytes + s.w.kBytes + s.v.kBytes);
    tma_load_tile(s.x, x, s.full, 0, 0);
    tma_load_tile(s.w, w, s.full, 0, 0);
    tma_load_tile(s.v, v, s.full, 0, 0);
  }
  __syncthreads();
  wait(s.full, 0);
  Accumulator<64> p;
  Accumulator<128> o;
  wgmma_fence();
  multiply(p, s.x.panel(0), s.w.panel(0), 0);
  wgmma_commit();
  wgmma_wait<0>();
  fence_operand(p);
  u32 a[4][4];
  for (int step = 0; step < 4; step++) convert<TYPE>(a[step], p, step);
  const u64 b = n_major(s.v.panel(0), s.v.kRows * 128);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < 4; step++) Product<TYPE, 128>::template run<true>(o, a[step], b + step * kNextRows, step);
  wgmma_commit();
  wgmma_wait<0>();
  fence_operand(o);
  __syncthreads();
  for (int part = 0; part < 2; part++) put_panel(s.v.panel(part), o, part);
  fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store_tile(y, s.v, 0, 0);
    tma_store_commit();
    tma_store_wait();
  }
}

// Two warpgroups with unequal registers hand one value on; own_row and own_column name what a thread holds.
extern "C" __global__ void __launch_bounds__(256, 1) roles(float* y) {
  griddepcontrol_wait();
  __shared__ float handed;
  if (warpgroup() == 0) {
    setmaxnreg_dec<40>();
    if (threadIdx.x == 0) handed = 3.f;
    named_barrier_arrive(2, 256);
  } else {
    setmaxnreg_inc<232>();
    named_barrier_sync(2, 256);
    const float most = row_max(own_column()), sum = row_sum(own_column());
    if (threadIdx.x % 4 == 0) y[own_row()] = handed * (most * 100 + sum), y[own_row() + 8] = handed;
  }
  griddepcontrol_launch_dependents();
}
