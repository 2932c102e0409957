// y [n] = x [k] · w [n, k]ᵀ: a warp for each element of y, 16 bytes of w a lane and step, sums in float.
#include "tiles.cuh"

using namespace tiles;

extern "C" __global__ void __launch_bounds__(WARPS * 32) gemv(const ELEMENT* x, const ELEMENT* w, ELEMENT* y, int n, int k) {
  const int row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n) return;
  float sum = 0;
  for (int column = lane * 8; column < k; column += 32 * 8) {
    const uint4 of_w = *(const uint4*)(w + (long long)row * k + column), of_x = *(const uint4*)(x + column);
    const u32 ws[4] = {of_w.x, of_w.y, of_w.z, of_w.w}, xs[4] = {of_x.x, of_x.y, of_x.z, of_x.w};
    for (int i = 0; i < 4; i++) {
      const float2 a = unpack<ELEMENT>(ws[i]), b = unpack<ELEMENT>(xs[i]);
      sum += a.x * b.x + a.y * b.y;
    }
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0) y[row] = ELEMENT(sum);
}
