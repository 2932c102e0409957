// One chunk of a unit through `multiply_chunk`, by one group of warps: out[warp][row][column].
#include "../../../kernels/megakernel/weights.cuh"

extern "C" __global__ void unit(const char* chunk, int bytes, const char* input, int input_bytes, int tiles, float* out) {
  extern __shared__ __align__(128) char memory[];
  char* inputs = memory + kChunk;
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) memory[i] = chunk[i];
  for (int i = threadIdx.x; i < input_bytes; i += blockDim.x) inputs[i] = input[i];
  __syncthreads();
  float sum[kChains][4] = {}, row_scale[2] = {1.f, 1.f};
  if (tiles >= kChunkTiles)
    multiply_chunk<true>(sum, row_scale, memory, inputs, 0);
  else
    multiply_chunk<false>(sum, row_scale, memory, inputs, tiles);
  const int lane = threadIdx.x % 32, row = lane >> 2, column = (lane & 3) * 2;
  float* mine = out + threadIdx.x / 32 * 128;
  for (int c = 0; c < 2; c++) {
    mine[row * 8 + column + c] = (sum[0][c] + sum[1][c] + sum[2][c] + sum[3][c]) * row_scale[0];
    mine[(row + 8) * 8 + column + c] = (sum[0][c + 2] + sum[1][c + 2] + sum[2][c + 2] + sum[3][c + 2]) * row_scale[1];
  }
}
