// Loops whose times tell what a barrier costs and how fast shared memory is read: limits.py launches and times them.

constexpr int VECTORS = 8;

// `rounds` barriers of the threads of a block.
extern "C" __global__ void __launch_bounds__(THREADS) block_barriers(unsigned*, long long rounds) {
  for (long long round = 0; round < rounds; ++round) __syncthreads();
}

// `rounds` barriers of all blocks, which must run at once. `arrived` is 0 before.
extern "C" __global__ void __launch_bounds__(THREADS) grid_barriers(unsigned* arrived, long long rounds) {
  for (long long round = 1; round <= rounds; ++round) {
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
      unsigned seen = 0;
      while (seen < round * gridDim.x) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
      }
    }
    __syncthreads();
  }
}

// `rounds` times each thread reads VECTORS words of 16 bytes, a warp 512 bytes in a row. `out` takes the bits of all.
extern "C" __global__ void __launch_bounds__(THREADS) shared_reads(unsigned* out, long long rounds) {
  __shared__ uint4 words[VECTORS * THREADS];
  for (int at = threadIdx.x; at < VECTORS * THREADS; at += THREADS) words[at] = make_uint4(at, at + 1, at + 2, at + 3);
  __syncthreads();
  const unsigned mine = __cvta_generic_to_shared(words + threadIdx.x);
  uint4 bits = make_uint4(0, 0, 0, 0);
#pragma unroll 1
  for (long long round = 0; round < rounds; ++round) {
#pragma unroll
    for (int at = 0; at < VECTORS; ++at) {
      uint4 word;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                   : "r"(mine + at * THREADS * 16));
      bits.x ^= word.x;
      bits.y ^= word.y;
      bits.z ^= word.z;
      bits.w ^= word.w;
    }
  }
  atomicXor(out, bits.x ^ bits.y ^ bits.z ^ bits.w);
}
