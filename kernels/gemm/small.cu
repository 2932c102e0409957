// y[m, n] = epilogue(x[m, k] · w[n, k]ᵀ) for 17 to 256 rows of x: the transposed product, so that 64 rows of w fill the
// warpgroup's M and all of x its N; SPLITS blocks of a cluster divide k and add up in a fixed order.
//
//   one thread     copies 64 columns of this block's rows of w, and of x, into a ring; w of the first stages before the
//                  previous kernel has ended
//   WGS warpgroups multiply 64 rows of w by x
//   3 warps        with RMSNorm: sums of squares of the rows of x, from the same stages
//   all            sums to shared memory, there added over the cluster, a share of the outputs by each block
#include "tiles.cuh"

using namespace tiles;

#if HALF
using Value = f16;
#else
using Value = bf16;
#endif
#if SPLITS > 1
#define SMALL_CLUSTER __cluster_dims__(SPLITS, 1, 1)
#else
#define SMALL_CLUSTER
#endif

constexpr int kRows = WGS * 64, kOutputs = PAIRED ? 64 : kRows;  // paired: 64 rows of gate and the 64 of up
constexpr int kPitch = kRows + 4;                                // floats between the columns of the sums
constexpr int kConsumers = WGS * 128, kThreads = kConsumers + (NORM ? 128 : 32);
static_assert(!PAIRED || WGS == 2, "one warpgroup for gate, one for up");

struct Stage {
  SharedTile<Value, kRows, 64> w;
  SharedTile<Value, COLS, 64> x;
};
constexpr u32 kStageBytes = decltype(Stage::w)::kBytes + decltype(Stage::x)::kBytes;

struct Shared {
  Barrier full[STAGES], empty[STAGES];
  float squares[COLS], norm[COLS];
};

struct Params {
  Value* y;               // [m, n]
  const Value* bias;      // [n], or null
  const Value* residual;  // [m, n], or null
  int m, n, k;
  float eps;
};

// One thread. Rows of w from `row`, panels [first, end) of 64 columns.
__device__ __forceinline__ void copy_weights(Stage& to, const TensorMap& map, Barrier& full, int n, int row, int panel) {
#pragma unroll
  for (int g = 0; g < WGS; g++)
    copy_in(to.w.panel(0, g * 64), map, full, panel * 64, PAIRED && g ? n + row : row + g * 64);
}
__device__ __forceinline__ void produce(Shared& s, Stage* ring, const TensorMap& w, const TensorMap& x, int n, int row,
                                        int first, int end) {
  const int ahead = min(STAGES, end - first);
  for (int i = 0; i < ahead; i++) {
    expect(s.full[i], kStageBytes);
    copy_weights(ring[i], w, s.full[i], n, row, first + i);
  }
  wait_previous_kernel();
  for (int i = 0; i < ahead; i++) copy_in(ring[i].x.panel(0), x, s.full[i], (first + i) * 64, 0, kEvictLast);
  Cursor<STAGES> cursor;
  for (int i = 0; i < ahead; i++) cursor.advance();
  for (int panel = first + ahead; panel < end; panel++, cursor.advance()) {
    Barrier& full = s.full[cursor.stage];
    wait(s.empty[cursor.stage], cursor.parity ^ 1);
    expect(full, kStageBytes);
    copy_weights(ring[cursor.stage], w, full, n, row, panel);
    copy_in(ring[cursor.stage].x.panel(0), x, full, panel * 64, 0, kEvictLast);
  }
}

// One warpgroup: its 64 rows of w times x, into `sums` [COLS][kPitch], which lies where the ring was.
__device__ __forceinline__ void multiply_all(Shared& s, Stage* ring, float* sums, int group, int panels, int m) {
  Accumulator<COLS> d;
  pin(d);
  Cursor<STAGES> cursor;
  int before = -1;
  for (int i = 0; i < panels; i++, cursor.advance()) {
    wait(s.full[cursor.stage], cursor.parity);
    fence_products();
    multiply<Value, COLS>(d, ring[cursor.stage].w.panel(0, group * 64), ring[cursor.stage].x.panel(0), i);
    commit_products();
    wait_products<1>();
    if (before >= 0 && threadIdx.x % kWarpgroup == 0) arrive(s.empty[before]);
    before = cursor.stage;
  }
  wait_products<0>();
  pin(d);
  named_sync(1, NORM ? kConsumers + 96 : kConsumers);
  const int row = group * 64 + own_row();
#pragma unroll
  for (int i = 0; i < COLS / 2; i++) {
    const int column = i / 4 * 8 + own_column() + i % 2;
    if (column < m) sums[column * kPitch + row + i % 4 / 2 * 8] = d.at[i];
  }
}

// Three warps: sums of squares of the rows of x, from the stages that pass by.
__device__ __forceinline__ void sum_squares(Shared& s, Stage* ring, int panels, int m) {
  const int thread = threadIdx.x - kConsumers - 32;
  float sum[(COLS + 95) / 96] = {};
  Cursor<STAGES> cursor;
  for (int i = 0; i < panels; i++, cursor.advance()) {
    wait(s.full[cursor.stage], cursor.parity);
#pragma unroll
    for (int r = 0; r < (COLS + 95) / 96; r++) {
      const int row = thread + r * 96;
      if (row >= COLS) break;
#pragma unroll
      for (int c = 0; c < 8; c++) {
        const uint4 v = *(const uint4*)((const char*)ring[cursor.stage].x.panel(0, row) + ((c + thread) % 8) * 16);
        const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const float2 two = unpack<Value>(words[j]);
          sum[r] += two.x * two.x + two.y * two.y;
        }
      }
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(s.empty[cursor.stage]);
  }
  for (int r = 0; r < (COLS + 95) / 96; r++)
    if (thread + r * 96 < COLS) s.squares[thread + r * 96] = sum[r];
  named_sync(1, kConsumers + 96);
}

__device__ __forceinline__ float4 of_rank(const float* mine, int rank) {
  float4 v;
  u32 address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(mine)), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ float4 over_ranks(const float* mine) {
  if (SPLITS == 1) return *(const float4*)mine;
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int rank = 0; rank < SPLITS; rank++) {
    const float4 v = of_rank(mine, rank);
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  return sum;
}

// Four neighbouring outputs of one row of y.
__device__ __forceinline__ void finish(const Params& p, float norm, const float4& first, const float4& second, int m, int n) {
  float value[4] = {first.x, first.y, first.z, first.w};
  const float above[4] = {second.x, second.y, second.z, second.w};
  const long long place = (long long)m * p.n + n;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    if (n + j >= p.n) continue;
    if (NORM) value[j] *= norm;
    if (p.bias) value[j] += (float)p.bias[n + j];
    if (PAIRED) value[j] = value[j] / (1 + __expf(-value[j])) * (NORM ? above[j] * norm : above[j]);
    if (p.residual) value[j] += (float)p.residual[place + j];
  }
  if (p.n % 4 == 0) {
    if (n < p.n) *(uint2*)(p.y + place) = make_uint2(pack<Value>(value[0], value[1]), pack<Value>(value[2], value[3]));
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; j++)
    if (n + j < p.n) p.y[place + j] = (Value)value[j];
}

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS) SMALL_CLUSTER
    small_gemm(const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ Shared s;
  Stage* ring = (Stage*)memory;
  float* sums = (float*)memory;
  const int rank = SPLITS > 1 ? blockIdx.x % SPLITS : 0, row = blockIdx.x / SPLITS * kOutputs, panels = (p.k + 63) / 64;
  const int first = panels * rank / SPLITS, end = panels * (rank + 1) / SPLITS;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) init(s.full[i], 1), init(s.empty[i], WGS + (NORM ? 3 : 0));
    fence_init();
  }
  __syncthreads();
  let_next_kernel_start();
  const int warp = threadIdx.x / 32;
  if (threadIdx.x < kConsumers) {
    multiply_all(s, ring, sums, warpgroup(), end - first, p.m);
  } else if (warp == kConsumers / 32) {
    if (elected()) produce(s, ring, w, x, p.n, row, first, end);
    __syncwarp();
    wait_previous_kernel();
  } else {
    sum_squares(s, ring, end - first, p.m);
  }
  if (SPLITS > 1) cluster_sync();
  else __syncthreads();
  if (NORM) {
    for (int m = threadIdx.x * 4; m < COLS; m += kThreads * 4) {
      const float4 q = over_ranks(&s.squares[m]);
      *(float4*)&s.norm[m] = make_float4(rsqrtf(q.x / p.k + p.eps), rsqrtf(q.y / p.k + p.eps), rsqrtf(q.z / p.k + p.eps),
                                         rsqrtf(q.w / p.k + p.eps));
    }
    __syncthreads();
  }
  for (int i = rank * kThreads + threadIdx.x; i < p.m * (kOutputs / 4); i += SPLITS * kThreads) {
    const int m = i / (kOutputs / 4), n = i % (kOutputs / 4) * 4;
    const float* at = &sums[m * kPitch + n];
    finish(p, NORM ? s.norm[m] : 1.f, over_ranks(at), PAIRED ? over_ranks(at + 64) : make_float4(0, 0, 0, 0), m, row + n);
  }
  if (SPLITS > 1) cluster_sync();  // nobody leaves while others read its sums
}
