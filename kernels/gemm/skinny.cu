// The skinny product as a linear layer: scales of quantised rows, RMSNorm's scale, bias, SwiGLU, residual.
#include "skinny.cuh"

using namespace skinny;

extern "C" __global__ void __launch_bounds__(kBlock, BLOCKS) SKINNY_CLUSTER
    skinny_linear(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  const Places at(memory, p);
  const Share share(p);
  product(p, at, share, [&](int unit, int tile, int row, int m, float value, float above) {
    const int local = unit * kUnitTiles + tile, out = local * kTileRows + row, n = share.first * kUnitOutputs + out;
    if (n >= p.n) return;
    if (kRowScales) {
      value *= at.scales[local * 16 + row];
      if (PAIRED) above *= at.scales[local * 16 + row + 8];
    }
    if (NORM) value *= at.shared->norm[m], above *= at.shared->norm[m];
    if (p.bias) value += at.bias[out];
    if (PAIRED) value = value / (1 + __expf(-value)) * above;
    if (p.residual) value += (float)at.residual[m * p.most_units * kUnitOutputs + out];
    ((Value*)p.y)[(long long)m * p.n + n] = (Value)value;
  });
}
