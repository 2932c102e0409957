// One chunk of a unit times its inputs, by all consumer warps: out[warp][sequence][row].
#include "../../../kernels/megakernel/cuda/gemv.cuh"

extern "C" __global__ void unit(const char* chunk, int bytes, const char* input, int input_bytes, int tiles, float* out) {
  extern __shared__ __align__(128) char memory[];
  char* inputs = memory + kChunk;
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) memory[i] = chunk[i];
  for (int i = threadIdx.x; i < input_bytes; i += blockDim.x) inputs[i] = input[i];
  __syncthreads();
  const float2 undo = prepare_inputs<Expert, Expert::kChunkTiles, true>(inputs, tiles);
  const float* scales = (const float*)memory + threadIdx.x % 32 / 4;
  const float2 row_scale = make_float2((Expert::kHeader ? scales[0] : 1.f) * kUndo<Expert>, (Expert::kHeader ? scales[8] : 1.f) * kUndo<Expert>);
  Codes<Expert> codes;
  Inputs<Expert> x;
  load_codes(codes, memory, tiles);
  load_inputs<false>(x, inputs, 0, tiles);
  Sums sum = {};
  multiply(sum, codes, x, tiles);
  leave_sums<Expert>(((float(*)[16 * BATCH])out)[threadIdx.x / 32], sum, row_scale, undo);
}
