// Matrix-vector products on the tensor cores: 16-row tiles of streamed weights times up to 8 input vectors.
#pragma once
#include "experts.cuh"
#include "inputs.cuh"
#if INTEGERS
#include "integers.cuh"
#else
#include "weights.cuh"
#endif
#include "stream.cuh"

__device__ __forceinline__ float sum_over_warps(const Shared& s, int buffer, int unit, int at) {
  float sums[WARPS];
#pragma unroll
  for (int w = 0; w < WARPS; w++) sums[w] = s.product.warp_sums[buffer][unit][w][at];
#pragma unroll
  for (int o = 1; o < WARPS; o *= 2)
#pragma unroll
    for (int w = 0; w + o < WARPS; w += 2 * o) sums[w] += sums[w + o];
  return sums[0];
}

constexpr int kMostInputBytes = 256;  // input that a lane keeps in registers

// Loads the codes of the current chunk, and the scales of its rows, which are the same in all chunks of a unit; then
// frees the slot. Loading: loads from memory are in flight. Experts lie in core matrices.
template <bool Loading, bool InCores = false, class F>
__device__ __forceinline__ void take_chunk(const Params& p, Shared& s, PipelineState<STAGES>& ring,
                                           const Instruction& in, int tiles, Codes<F>& codes, float2& row_scale) {
  static_assert(!Loading || WEIGHT_BITS == 16, "nothing but the codes is waited for");
  const int lane = threadIdx.x % 32;
  wait_chunk(p, s, in, s.full[ring.stage], ring.parity);
  const char* chunk = s.ring[ring.stage];
#if EXPERTS
  if constexpr (InCores)
    load_cores(codes, chunk, tiles);
  else
#endif
    load_codes(codes, chunk, tiles);
  if (F::kHeader) {
    const float* scales = (const float*)chunk + lane / 4;
    row_scale = make_float2(scales[0] * kUndo<F>, scales[8] * kUndo<F>);
  }
  u32 read = 0;
#pragma unroll
  for (int i = 0; Loading && i < kEach; i++) read |= codes.codes[i].x;
  release_chunk(s, ring, read & (u32)(p.count >> 31));  // a count is positive, but the compiler does not know that
}

// Takes `in.units` tiles of 16 rows × in.k_tiles · 16 columns from the ring and multiplies them by the input, which a
// warp keeps in registers from unit to unit if it fits. There are Tiles column tiles; if not Even, some SMs have one
// less. Returns false when the SM has given up.
// `load` brings the input. GATE_UP waits for it while the ring is full, so the first chunks of its first unit are
// loaded into registers before that: the overlapped prologue.
// `epilogue.row_of<Which>(valid, unit, row, b, value, above)` is called by whole warps, once for each output row, with
// neighbouring rows in neighbouring lanes. For GATE_UP rows are 0 to 7, and `above` is the value of row + 8.
template <Op Which, int Tiles, bool Even, class F = Own, class Load, class Epilogue>
__device__ __forceinline__ bool product(const Params& p, Shared& s, PipelineState<STAGES>& ring, const Instruction& in,
                                        int step, Load load, Epilogue epilogue) {
  constexpr bool kInCores = EXPERTS && F::kBits == 16 && (Which == kGateUp || Which == kDown);
  constexpr bool Paired = Which == kGateUp, kHelped = kRmsScaleWarp && (Which == kQkv || Which == kGateUp);
  constexpr int kChunks = (Tiles + F::kChunkTiles - 1) / F::kChunkTiles, kRows = Paired ? 8 : 16;
  constexpr int kPrologueChunks = Which != kGateUp ? 0 : PROLOGUE_CHUNKS < kChunks ? PROLOGUE_CHUNKS : kChunks;
  constexpr bool kInputsInRegisters = kChunks * sizeof(Inputs<F>) <= kMostInputBytes;
  constexpr int kOutputs = kUnitBatch * BATCH * kRows;  // outputs that are reduced together, at most one a thread
  static_assert(kOutputs <= kConsumers, "a thread has one output");
  static_assert(!kPrologueChunks || !SLICE, "chunks are loaded while partials come, not slices");
  const int warp = threadIdx.x / 32;
  const int tiles = Even ? Tiles : in.k_tiles;
  const auto here = [&](int c) { return tiles - c * F::kChunkTiles; };
  float2 row_scale = make_float2(kUndo<F>, kUndo<F>);
  Codes<F> early[kPrologueChunks ? kPrologueChunks : 1];
  const auto overlapped_prologue = [&] {
    if (!in.units) return;
#pragma unroll
    for (int c = 0; c < kPrologueChunks; c++)
      take_chunk<(kPrologueChunks > 0)>(p, s, ring, in, here(c), early[c], row_scale);
  };
  load.template input<Which>(overlapped_prologue);
  if (!in.units) {
    if (kHelped) wait_rms_scale<Which>(s, step);
    return !s.faulted;
  }
  char* input = (char*)s.product.input;
  const float2 undo = prepare_inputs<F, Tiles, kInputsInRegisters>(input, tiles);
  Inputs<F> inputs[kInputsInRegisters ? kChunks : 1], fresh;
#pragma unroll
  for (int c = 0; kInputsInRegisters && c < kChunks; c++) load_inputs<false>(inputs[c], input + c * kChunkInput<F>, c, here(c));
  if (s.faulted) {  // read while the inputs are loaded, for which all threads wait
    if (kHelped) wait_rms_scale<Which>(s, step);
    return false;
  }
  int buffer = 0;
  Sums sum = {};
#pragma unroll
  for (int c = 0; c < kPrologueChunks; c++) {
    if (!kInputsInRegisters) load_inputs<true>(fresh, input + c * kChunkInput<F>, c, here(c));
    multiply(sum, early[c], kInputsInRegisters ? inputs[kInputsInRegisters ? c : 0] : fresh, here(c));
  }
#pragma unroll 1
  for (int unit = 0; unit < in.units; unit++) {
#pragma unroll(kInputsInRegisters ? kChunks : 1)
    for (int c = 0; c < kChunks; c++) {
      if (!Even && here(c) <= 0) break;
      if (c < kPrologueChunks && unit == 0) continue;
      Codes<F> codes;
      take_chunk<false, kInCores>(p, s, ring, in, here(c), codes, row_scale);
      if (!kInputsInRegisters) load_inputs<true>(fresh, input + c * kChunkInput<F>, c, here(c));
      multiply(sum, codes, kInputsInRegisters ? inputs[kInputsInRegisters ? c : 0] : fresh, here(c));
    }
    const int u = unit % kUnitBatch;
    leave_sums<F>(s.product.warp_sums[buffer][u][warp], sum, row_scale, undo);
#pragma unroll
    for (auto& rows : sum)
#pragma unroll
      for (float& x : rows) x = 0.f;
    if (u == kUnitBatch - 1 || unit == in.units - 1) {
      if (unit == in.units - 1) mark(p, step, in.index, 2);
      if (kHelped && unit == u) wait_rms_scale<Which>(s, step);
      consumers_sync();
      const int outputs = (u + 1) * BATCH * kRows;
      if ((int)(threadIdx.x & ~31u) < outputs) {
        const int own = kOutputs % 32 ? min((int)threadIdx.x, kOutputs - 1) : threadIdx.x;
        const int row = own % kRows, b = own / kRows % BATCH, done = own / kRows / BATCH;
        const float value = sum_over_warps(s, buffer, done, b * 16 + row);
        const float above = Paired ? sum_over_warps(s, buffer, done, b * 16 + row + 8) : 0.f;
        epilogue.template row_of<Which>((int)threadIdx.x < outputs, unit - u + done, row, b, value, above);
      }
      buffer ^= 1;
    }
  }
  return true;
}

// A product whose column tiles are divided into Parts, which differ by one tile at most.
template <Op Which, int Tiles, int Parts, class F = Own, class Load, class Epilogue>
__device__ __forceinline__ bool part_product(const Params& p, Shared& s, PipelineState<STAGES>& ring,
                                             const Instruction& in, int step, Load load, Epilogue epilogue) {
  constexpr bool kEven = Tiles % Parts == 0 && (GROUPS == 1 || Which != kDown);
  return product<Which, (Tiles + Parts - 1) / Parts, kEven, F>(p, s, ring, in, step, load, epilogue);
}

// The product of an instruction. Returns false when the SM has given up.
template <class Load, class Epilogue>
__device__ __forceinline__ bool gemv(const Params& p, Shared& s, PipelineState<STAGES>& ring, const Instruction& in,
                                     int step, Load load, Epilogue epilogue) {
#if EXPERTS
  if (in.op == kRouter) return product<kRouter, HIDDEN / 16, true>(p, s, ring, in, step, load, epilogue);
#endif
  if (in.op == kGateUp) return product<kGateUp, HIDDEN / 16, true, Expert>(p, s, ring, in, step, load, epilogue);
  if (in.op == kOut)
    return part_product<kOut, HEADS * HEAD_DIM / 16, kOutParts>(p, s, ring, in, step, load, epilogue);
  if (in.op == kDown) return part_product<kDown, INTER / 16, kDownParts, Expert>(p, s, ring, in, step, load, epilogue);
  if (kHeadApart && in.op == kHead) return product<kQkv, HIDDEN / 16, true, Head>(p, s, ring, in, step, load, epilogue);
  return product<kQkv, HIDDEN / 16, true>(p, s, ring, in, step, load, epilogue);
}
