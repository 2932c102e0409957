// y[rows, n] = epilogue(x · w[e]ᵀ) of a mixture's experts with few rows each, w in int8 or MXFP4 in the order of
// skinny_pack.py: each block multiplies rows of one expert's weights.
//
//   grid (WARPS / K_WARPS units of 16 rows of w, the i-th expert that has rows)   its rows of x, up to kColumns at once
//   K_WARPS warps     multiply a unit, each by its part of k
//   K_WARPS = WARPS   for few units: a warp gathers its columns of x, and waits for no other before the sum
//   K_WARPS < WARPS   for many: all warps of the block gather the rows of x; the first weights are loaded meanwhile
//
// x is converted to fp16. An expert's weights come from memory once; where it has more rows, again from the L2.
#include "skinny_halves.cuh"

using namespace skinny;
using Weight = Step<kWeights>;

enum Gate { kNoGate, kSwiglu, kSwigluoai };
constexpr int kThreads = WARPS * 32, kUnits = WARPS / K_WARPS;
constexpr int kColumns = 8 * N_TILES, kStride = 20, kSums = kColumns * kStride;
constexpr int kOutputs = GATE == kNoGate ? 16 : 8;  // gated, row r and row r + 8 of w are gate and up
constexpr int kRounds = (EXPERTS + 31) / 32;
constexpr bool kByWarp = K_WARPS == WARPS;
constexpr int kScales = kByWarp ? WARPS : 1;  // of a row of x
constexpr int kWarpsOfSm = !kByWarp ? 16 : N_TILES > 1 ? 20 : 24;  // at least
constexpr int kBatch = 4;               // loads of x in flight, and of weights where not kByWarp
constexpr int kUnrolled = 4 / N_TILES;  // steps whose weights are in flight where kByWarp

struct Params {
  const char* stream;      // [EXPERTS, units, steps, Weight::kBytes]
  const Value* x;          // [·, k]
  const long long* token;  // the row of x of each row of y; null where it is the same one
  const int* offs;         // [EXPERTS]: where the rows of each expert end
  const Value* bias;       // [EXPERTS, n or 2n], as the model has it, or null
  Value* y;                // [rows, n]
  int rows, n, k, units, steps, x_bytes, most;  // most: rows of x at once, at most kColumns
};
static_assert(sizeof(Params) == PARAMS_BYTES, "grouped_few_call.PARAMS");

struct Share {
  int expert, begin, end;
};

// The expert of this block, the i-th that has rows, and its rows; none where there are fewer. Every warp looks.
__device__ __forceinline__ Share share_of(const Params& p) {
  const int lane = threadIdx.x % 32;
  int begin[kRounds], end[kRounds];
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const int expert = round * 32 + lane;
    end[round] = expert < EXPERTS ? min(p.offs[expert], p.rows) : 0;
    begin[round] = expert > 0 && expert < EXPERTS ? max(p.offs[expert - 1], 0) : 0;
  }
  int wanted = blockIdx.y;
  Share share = {0, 0, 0};
#pragma unroll
  for (int round = 0; round < kRounds; round++) {
    const u32 with = __ballot_sync(~0u, end[round] > begin[round]);
    const bool mine = (with >> lane & 1) && __popc(with & ((1u << lane) - 1)) == wanted;
    const u32 found = __ballot_sync(~0u, mine);
    const int at = found ? __ffs(found) - 1 : 0, from = __shfl_sync(~0u, begin[round], at);
    const int to = __shfl_sync(~0u, end[round], at);
    if (found) share = {round * 32 + at, from, to};
    wanted -= __popc(with);
  }
  return share;
}

// A warp's columns of `count` rows of x, from `first` on, into shared memory as fp16; `unscale` gets what each row's sums
// are to be multiplied by. `words` of 8 values are loaded, zeros behind the end of a row.
__device__ __forceinline__ void load_columns(const Params& p, int first, int count, int column, int words, char* x,
                                       float* unscale) {
  const int lane = threadIdx.x % 32, valid = p.k / 8 - column / 8;
#pragma unroll 1
  for (int base = lane; base < count * words; base += 32 * kBatch) {
    uint4 v[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; i++) {
      const int at = base + i * 32, row = at / words, word = at % words;
      v[i] = make_uint4(0, 0, 0, 0);
      if (at >= count * words || word >= valid) continue;
      const long long from = p.token ? p.token[first + row] : first + row;
      v[i] = __ldcg((const uint4*)(p.x + from * p.k + column) + word);
    }
#pragma unroll
    for (int i = 0; i < kBatch; i++) {
      const int at = base + i * 32;
      if (at < count * words) ((uint4*)(x + at / words * p.x_bytes))[at % words] = v[i];
    }
  }
  __syncwarp();
#pragma unroll 1
  for (int row = 0; row < count; row++) {
    uint4* own = (uint4*)(x + row * p.x_bytes);
    u32 largest = 0;
    if (kScaled) {
#pragma unroll 1
      for (int word = lane; word < words; word += 32) largest = largest_of(largest, own[word]);
      largest = __reduce_max_sync(~0u, max(largest & 0xffff, largest >> 16));
      const float scale = __uint_as_float(scale_exponent(largest) << 23);
#pragma unroll 1
      for (int word = lane; word < words; word += 32) {
        const uint4 v = own[word];
        own[word] = make_uint4(scaled(v.x, scale), scaled(v.y, scale), scaled(v.z, scale), scaled(v.w, scale));
      }
    }
    if (lane == 0) unscale[row] = kScaled ? __uint_as_float((254 - scale_exponent(largest)) << 23) : 1.f;
  }
  __syncwarp();
}

// A piece of 32 words of 8 values of x: a warp takes every WARPS-th of all rows' pieces.
struct Piece {
  int row, at, pieces;
  __device__ __forceinline__ Piece(int pieces) : row(0), at(threadIdx.x / 32), pieces(pieces) { carry(); }
  __device__ __forceinline__ void next() {
    at += WARPS;
    carry();
  }
  __device__ __forceinline__ void carry() {
    for (; at >= pieces; at -= pieces) row++;
  }
  __device__ __forceinline__ int word() const { return at * 32 + threadIdx.x % 32; }
};

// The same of whole rows, by all threads. `largest` is for the bits of each row's largest value, 0 before and after.
__device__ __forceinline__ void load_rows(const Params& p, int first, int count, char* x, u32* largest,
                                          float* unscale) {
  const int lane = threadIdx.x % 32, words = p.steps * Weight::kK / 8, pieces = (words + 31) / 32;
  const long long own = !p.token ? first + lane : lane < count ? p.token[first + lane] : 0;
#pragma unroll 1
  for (Piece piece(pieces); piece.row < count;) {
    uint4 v[kBatch];
    int row[kBatch], word[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; i++, piece.next()) {
      row[i] = piece.row, word[i] = piece.word();
      const long long from = __shfl_sync(~0u, own, row[i] % 32);
      v[i] = make_uint4(0, 0, 0, 0);
      if (row[i] < count && word[i] < p.k / 8) v[i] = __ldcg((const uint4*)(p.x + from * p.k) + word[i]);
    }
#pragma unroll
    for (int i = 0; i < kBatch; i++) {
      if (row[i] >= count) break;
      if (word[i] < words) ((uint4*)(x + row[i] * p.x_bytes))[word[i]] = v[i];
      if (kScaled) {
        const u32 pair = largest_of(0, v[i]), value = __reduce_max_sync(~0u, max(pair & 0xffff, pair >> 16));
        if (lane == 0) atomicMax(&largest[row[i]], value);
      }
    }
  }
  __syncthreads();
  if (kScaled) {
#pragma unroll 1
    for (Piece piece(pieces); piece.row < count; piece.next()) {
      if (piece.word() >= words) continue;
      uint4* const to = (uint4*)(x + piece.row * p.x_bytes) + piece.word();
      const float scale = __uint_as_float(scale_exponent(largest[piece.row]) << 23);
      const uint4 v = *to;
      *to = make_uint4(scaled(v.x, scale), scaled(v.y, scale), scaled(v.z, scale), scaled(v.w, scale));
    }
  }
  if (threadIdx.x < count)
    unscale[threadIdx.x] = kScaled ? __uint_as_float((254 - scale_exponent(largest[threadIdx.x])) << 23) : 1.f;
  __syncthreads();
  if (threadIdx.x < count) largest[threadIdx.x] = 0;
}

// A lane's weights of kBatch steps, or of those that are left.
struct Batch {
  uint4 codes[kBatch];
  u32 scales[kBatch];
  __device__ __forceinline__ void load(const char* w, int left) {
    const int lane = threadIdx.x % 32;
    const char *codes_at = w + lane * 16, *scales_at = w + 512 + lane / 4 * 4;
    if (left >= kBatch) {
#pragma unroll
      for (int i = 0; i < kBatch; i++) {
        codes[i] = __ldcg((const uint4*)(codes_at + i * Weight::kBytes));
        scales[i] = __ldcg((const u32*)(scales_at + i * Weight::kBytes));
      }
    } else {
#pragma unroll
      for (int i = 0; i < kBatch - 1; i++) {
        if (i >= left) break;
        codes[i] = __ldcg((const uint4*)(codes_at + i * Weight::kBytes));
        scales[i] = __ldcg((const u32*)(scales_at + i * Weight::kBytes));
      }
    }
  }
  __device__ __forceinline__ void multiply(int i, Sums& sums, const char* const (&x)[kInputs]) const {
    Inputs in[Weight::kK / 32];
#pragma unroll
    for (int j = 0; j < Weight::kK / 32; j++) in[j] = Inputs(x, i * Weight::kK + j * 32);
    Weight::multiply(sums, codes[i], scales[i], in);
  }
};

// The output of a row of w, and of the row eight below it, which is its up.
__device__ __forceinline__ float finished(const Params& p, int expert, int n, float value, float above) {
  if (p.bias) {
    const Value* own = p.bias + (long long)expert * p.n * (GATE == kNoGate ? 1 : 2);
    value += (float)own[GATE == kSwigluoai ? 2 * n : n];
    if (GATE == kSwigluoai) above += (float)own[2 * n + 1];
  }
  if (GATE == kSwiglu) return value / (1 + __expf(-value)) * above;
  if (GATE == kSwigluoai) {  // comparisons that keep NaN
    const float limit = SWIGLUOAI_LIMIT, gate = value > limit ? limit : value;
    const float up = above > limit ? limit : above < -limit ? -limit : above;
    return gate / (1 + __expf(-(float)SWIGLUOAI_ALPHA * gate)) * (up + 1);
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(kThreads, kWarpsOfSm / WARPS) grouped_few(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char x[];
  __shared__ float partial[WARPS][kSums];
  __shared__ float unscale[kScales][kColumns];
  __shared__ u32 largest[kColumns];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int unit = blockIdx.x * kUnits + warp / K_WARPS, part = warp % K_WARPS, first = p.steps * part / K_WARPS;
  const int steps = kByWarp || unit < p.units ? p.steps * (part + 1) / K_WARPS - first : 0;
  if (!kByWarp) {
    if (threadIdx.x < kColumns) largest[threadIdx.x] = 0;
    __syncthreads();
  }
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();
  const Share share = share_of(p);
  if (share.end <= share.begin) return;
  const char* w = p.stream + (((long long)share.expert * p.units + unit) * p.steps + first) * Weight::kBytes;
  if (lane == 0 && steps > 0) bulk_prefetch_l2(w, steps * Weight::kBytes);
#pragma unroll 1
  for (int begin = share.begin; begin < share.end; begin += p.most) {
    const int count = min(p.most, share.end - begin);
    Sums sums[1] = {};
    char* const columns = x + first * Weight::kK * 2;
    const char* own[kInputs];
#pragma unroll
    for (int i = 0; i < kInputs; i++) own[i] = columns + min(8 * i + g, count - 1) * p.x_bytes + t * 16;
    if (kByWarp) {
      load_columns(p, begin, count, first * Weight::kK, steps * Weight::kK / 8, columns, unscale[warp]);
#pragma unroll kUnrolled
      for (int step = 0; step < steps; step++) {
        const char* here[kInputs];
#pragma unroll
        for (int i = 0; i < kInputs; i++) here[i] = own[i] + step * Weight::kK * 2;
        Weight::run(sums, w + step * Weight::kBytes, here);
      }
    } else {
      Batch now, next;
      now.load(w, steps);
      load_rows(p, begin, count, x, largest, unscale[0]);
      const char* at = w;
      int left = steps;
#pragma unroll 1
      for (; left >= kBatch; left -= kBatch) {
        next.load(at += kBatch * Weight::kBytes, left - kBatch);
#pragma unroll
        for (int i = 0; i < kBatch; i++) now.multiply(i, sums[0], own);
#pragma unroll
        for (int i = 0; i < kInputs; i++) own[i] += kBatch * Weight::kK * 2;
        now = next;
      }
#pragma unroll
      for (int i = 0; i < kBatch - 1; i++)
        if (i < left) now.multiply(i, sums[0], own);
    }
#pragma unroll
    for (int i = 0; i < N_TILES * 4; i++) {
      const int column = i / 4 * 8 + 2 * t + i % 2;
      partial[warp][column * kStride + g + i % 4 / 2 * 8] = sums[0][i / 4][i % 4] * unscale[warp % kScales][column];
    }
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < count * kUnits * kOutputs; i += kThreads) {
      const int row = i % kOutputs, own_unit = i / kOutputs % kUnits, m = i / (kOutputs * kUnits);
      const int n = (blockIdx.x * kUnits + own_unit) * kOutputs + row;
      if (n >= p.n) continue;
      float value = 0, above = 0;
#pragma unroll
      for (int other = 0; other < K_WARPS; other++) {
        const float* sums_of = partial[own_unit * K_WARPS + other] + m * kStride + row;
        value += sums_of[0];
        if (GATE != kNoGate) above += sums_of[8];
      }
      p.y[(long long)(begin + m) * p.n + n] = (Value)finished(p, share.expert, n, value, above);
    }
    __syncthreads();
  }
}
