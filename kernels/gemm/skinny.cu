// The skinny product as a linear layer: scales of quantised rows, RMSNorm's scale, bias, SwiGLU, residual.
#include "skinny.cuh"

using namespace skinny;

extern "C" __global__ void __launch_bounds__(kBlock, BLOCKS) SKINNY_CLUSTER
    skinny_linear(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  const SharedLayout at(memory, p);
  const Share share(p);
  product(p, at, share, [&](const Output& out, float value, float above) {
    if (out.n() >= p.n) return;
    if (NORM) {
      value *= at.shared->norm[out.m];
      above *= at.shared->norm[out.m];
    }
    if (p.bias) value += at.bias[out.in_block()];
    if (PAIRED) value = __fdividef(value, 1 + __expf(-value)) * above;
    if (p.residual) value += (float)at.residual[out.m * p.most_units * kUnitOutputs + out.in_block()];
    ((Value*)p.y)[(long long)out.m * p.n + out.n()] = (Value)value;
  });
}
