// The residual in slices, for many sequences. Each SM keeps some of its columns and adds the partials to these alone.
// It publishes the normed columns in bf16 and their sum of squares. Products of the residual read these words instead
// of all partials.
#pragma once
#include "gemv.cuh"

constexpr int kPartialsMost = 16;  // that a lane has in flight together

// residual slice += the partials of the last product, or = the embedding of the new token. Publishes residual · norm
// weight, 8 columns of a sequence in three words, and in the fourth word the sum of the residual's squares. A lane has
// 4 columns of one sequence, its neighbour the other 4.
template <int Partials>
__device__ __forceinline__ void add_to_slice(const Params& p, Shared& s, const Instruction& in, u32 flag, int step,
                                             const u64* partials, const float* norm) {
  const int items = in.k_tiles * BATCH * 4;
#pragma unroll 1
  for (int first = threadIdx.x; first - threadIdx.x % 32 < items; first += kConsumers) {
    const int item = min(first, items - 1), b = item / 4 % BATCH;
    const int own = item / 4 / BATCH * 16 + item % 4 * 4, column = in.k_tile * 16 + own;
    float4& residual = *(float4*)(s.residual + b * kResidual + own);
    const float4 weight = __ldg((const float4*)(norm + column));
    float4 x;
    if (partials == nullptr) {
      const uint2 raw = __ldg((const uint2*)(p.embedding + (size_t)s.token[b] * HIDDEN + column));
      const float2 low = unpack<bf16>(raw.x), high = unpack<bf16>(raw.y);
      x = make_float4(low.x, low.y, high.x, high.y);
    } else {
      x = first < items ? residual : float4{};  // lanes beyond the last item do not write the residual
      constexpr int kTogether = Partials < kPartialsMost ? Partials : kPartialsMost;
#if EXPERTS
      const int count = in.partial ? Partials : partials_at_work(s.distinct);
#else
      constexpr int count = Partials;
#endif
#pragma unroll 1
      for (int begin = 0; begin < count; begin += kTogether) {
        u32 from[kTogether];
        ulonglong2 words[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; i++) from[i] = ((min(begin + i, count - 1) * BATCH + b) * HIDDEN + column) / 2;
        load_flagged<false>(p, s, in, flag, partials, from, words);
#pragma unroll
        for (int i = 0; i < kTogether; i++) {
          if (begin + i >= count) break;
          x.x += first_float(words[i].x);
          x.y += second_float(words[i].x);
          x.z += first_float(words[i].y);
          x.w += second_float(words[i].y);
        }
      }
    }
    float squares = x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    squares += __shfl_xor_sync(~0u, squares, 1);
    const __nv_bfloat162 low = __floats2bfloat162_rn(x.x * weight.x, x.y * weight.y);
    const __nv_bfloat162 high = __floats2bfloat162_rn(x.z * weight.z, x.w * weight.w);
    const u32 two = *(const u32*)&low, more = *(const u32*)&high, next = __shfl_xor_sync(~0u, two, 1);
    if (first >= items) continue;
    residual = x;
#if DEBUG
    *(float4*)(p.residuals + (((size_t)step * (2 * LAYERS + 1) + in.layer * 2 + in.partial) * BATCH + b) * HIDDEN +
               column) = x;
#endif
    const u64 mine = flag_at(step, in.layer);
    u64* to = p.normed + ((size_t)(in.partial * HIDDEN + column) / 8 * BATCH + b) * 4;
    if (item % 2 == 0) {
      publish(to, (u64)(two & 0xffff) << 48 | (u64)(two >> 16) << 32 | (u64)(more & 0xffff) << 16 | mine);
      publish(to + 1, (u64)(more >> 16) << 48 | (u64)(next & 0xffff) << 32 | (u64)(next >> 16) << 16 | mine);
    } else {
      publish(to + 2, (u64)(more & 0xffff) << 48 | (u64)(more >> 16) << 32 | mine);
      publish(to + 3, one_value(__float_as_uint(squares), mine));
    }
  }
}

static_assert(!SLICE || !kRmsScaleWarp, "the sum of squares is the consumers'");

// input = the normed residual, from the SMs that published it.
__device__ __forceinline__ void load_slices(const Params& p, Shared& s, const Instruction& in, u32 flag) {
  const u64* normed = p.normed + (in.op == kAfterAttention) * (HIDDEN / 8 * BATCH * 4);
  float squares = load_eights(p, s, in, flag, normed,
                              HIDDEN / 16);  // of one sequence: a thread's groups are kColumns lanes from each other
#pragma unroll
  for (int o = kColumns; o < 32; o <<= 1) squares += __shfl_xor_sync(~0u, squares, o);
  if (threadIdx.x % 32 < BATCH) s.squares[threadIdx.x / 32 + threadIdx.x % 32 * WARPS] = squares;
}
