// The megakernel: a persistent block on each SM runs its instructions once a token; docs/kernels/megakernel.md.
#include "produce.cuh"
#include "sampling.cuh"
#include "sliced.cuh"

template <int Partials, class Prologue>
__device__ __forceinline__ void add_these(const Params& p, Shared& s, const Instruction& in, u32 flag, int step,
                                          const u64* partials, const float* norm, Prologue overlapped_prologue) {
  if constexpr (SLICE)
    add_to_slice<Partials>(p, s, in, flag, step, partials, norm);
  else
    load_normed<Partials>(p, s, in, flag, step, partials, norm, overlapped_prologue);
}

// Adds the partials of the last product to the residual, or begins the residual with the embedding of the new token.
// With SLICE it does so for this SM's columns; otherwise for all columns, which become the instruction's input.
template <class Prologue>
__device__ __forceinline__ void add_partials(const Params& p, Shared& s, const Instruction& in, bool after_attention,
                                             int step, Prologue overlapped_prologue) {
  const int layer = in.layer - !after_attention;  // the layer whose partials these are
  const u32 flag = flag_at(step, layer);
  const u64* partials = after_attention ? p.out_partials + copy_read() * kOutWords
                        : in.layer      ? p.down_partials + (copy_read() * 2 + (layer & 1)) * kDownWords
                                        : nullptr;
  const float* norm = p.norms + (u32)(in.layer * 2 + after_attention) * HIDDEN;
  if (OUT_PARTIALS != DOWN_PARTIALS && after_attention)
    add_these<OUT_PARTIALS>(p, s, in, flag, step, partials, norm, overlapped_prologue);
  else
    add_these<DOWN_PARTIALS>(p, s, in, flag, step, partials, norm, overlapped_prologue);
}

// Brings an instruction's input vector into shared memory as its words arrive. Each product has code of its own (HEAD
// shares that of kQkv): one code for all needs more registers and branches. `overlapped_prologue` runs while the first
// words of a copy of the residual are in flight.
struct Load {
  const Params& p;
  Shared& s;
  const Instruction& in;
  int step;

  template <Op Which, class Prologue>
  __device__ __forceinline__ void input(Prologue overlapped_prologue) const;
};

template <Op Which, class Prologue>
__device__ __forceinline__ void Load::input(Prologue overlapped_prologue) const {
  const u32 flag = flag_at(step, in.layer);
  if constexpr (EXPERTS && Which == kGateUp) {
#if EXPERTS
    if (in.group) return;
    route(p, s, in, flag, step);
    mark(p, step, in.index, 1);
    return;
#endif
  } else if constexpr (Which == kQkv || Which == kAfterAttention) {
    if constexpr (SLICE)
      load_slices(p, s, in, flag);
    else
      add_partials(p, s, in, Which == kAfterAttention, step, [&] {
        if (COPIES > 1 && Which == kQkv && in.op == kQkv)
          prefetch_rows_l2(p, in.layer);  // with one copy it runs earlier: there are too few registers here
        overlapped_prologue();
      });
  } else if constexpr (Which == kOut) {
    if constexpr (MAX_SPLITS)
      load_attended(p, s, in, flag, step);
    else
      attend_for_input(p, s, in, step);
  } else {
    load_gated(p, s, in, flag);
  }
  consumers_sync();
  if (!kRmsScaleWarp && Which != kOut && Which != kDown) set_scale(s, in);
  mark(p, step, in.index, 1);
  if (Which == kQkv && in.op == kHead && threadIdx.x == 0)
    __threadfence();  // this token's keys and values, before any later read
}

// The epilogue of one output row of a product.
struct Epilogue {
  const Params& p;
  Shared& s;
  const Instruction& in;
  u64* best;

  u32 flag;
  int step;

  template <Op Which>
  __device__ __forceinline__ void row_of(bool valid, int unit, int row, int b, float value, float above) const {
    const int out = (in.tile + unit) * 16 + row;
    if (Which == kQkv && in.op == kHead) {
      if (!valid || out >= VOCAB) return;
      value *= s.scale[b];
      if (LOGIT_CAP > 0) value = soft_capped(value, LOGIT_CAP);
      *best = larger(*best, candidate(value, out));
      if (p.logits) p.logits[step * p.logits_stride + (size_t)b * VOCAB + out] = value;
      return;
    }
    if (Which != kOut && Which != kDown) value *= s.scale[b];
    if (Which == kRouter) {
      if (EXPERT_BIAS && valid) value += __ldg(p.router_bias + in.layer * kRouterWords + out);
      if (valid) publish(p.router + b * kRouterWords + out, one_value(__float_as_uint(value), flag));
      return;
    }
    if (Which == kGateUp) {
#if EXPERT_BIAS
      if (valid) {
        const u32 tile = in.group * (INTER / 8) + in.tile + unit * gridDim.x;
        const size_t expert = in.layer * EXPERTS + s.experts[tile / kExpertUnits];
        const u32* both = p.gate_up_bias + expert * (INTER / TOP_K) + tile % kExpertUnits * 8 + row;
        const float2 bias = unpack<bf16>(__ldg(both));
        value += bias.x;
        above = above * s.scale[b] + bias.y;
      }
#endif
      if (GATE == 2) {  // comparisons that keep NaN
        const float limit = SWIGLUOAI_LIMIT;
        value = value > limit ? limit : value;
        above = (above > limit ? limit : above < -limit ? -limit : above) + 1;
      }
      const float gate = GATE == 2   ? (float)SWIGLUOAI_ALPHA * value
                         : GATE == 1 ? 1.5957691216057308f * (value + 0.044715f * value * value * value)
                                     : value;
      value = __fdividef(value, 1.f + __expf(-gate)) * above;
      if (!EXPERT_BIAS) value *= s.scale[b];
      u32 group = in.tile + unit;
#if EXPERTS
      group = in.group * (INTER / 8) + in.tile + unit * gridDim.x;
      const float share = s.shares[group / kExpertUnits][b];
      value = share == 0.f ? 0.f : value * share;
#endif
      const u32 bits = pack<bf16>(value, 0.f);
      const u32 next = __shfl_down_sync(~0u, bits, 1), third = __shfl_down_sync(~0u, bits, 2);
      u64* gated = p.gated + ((size_t)group * BATCH + b) * 4;
#pragma unroll
      for (int copy = 0; copy < COPIES; copy++, gated += kGatedWords) {
        if (valid && row % 3 == 0)
          publish(gated + row / 3, (u64)bits << 48 | (u64)next << 32 | (u64)(row == 6 ? 0 : third) << 16 | flag);
        if (valid && row == 7) publish(gated + 3, flag);
      }
      return;
    }
    if (OUT_BIAS && Which == kOut && valid && in.k_tile == 0) value += __ldg(p.out_bias + in.layer * HIDDEN + out);
#if EXPERT_BIAS
    if (Which == kDown && valid && in.k_tile == 0) value += shared_down_bias(p, s, in, out, b);
#endif
    const float next = __shfl_down_sync(~0u, value, 1);
    u64* partials = Which == kQkv   ? p.qkv
                    : Which == kOut ? p.out_partials
                                    : p.down_partials + kDownWords * (in.layer & 1);
    const int length = Which == kQkv ? kQkvRows : HIDDEN;
    const int copied = Which == kQkv ? kQkvWords : Which == kOut ? kOutWords : 2 * kDownWords;
    partials += ((u32)(in.partial * BATCH + b) * length + out) / 2;
#pragma unroll
    for (int copy = 0; copy < COPIES; copy++, partials += copied)
      if (valid && row % 2 == 0) {
        if (Which == kQkv)
          publish(partials, two_floats(value, next, flag));
        else
          publish_to_all(p, partials, two_floats(value, next, flag));
      }
  }
};

// One instruction of the consumers; false when the SM has given up. Few values live across attention.
__device__ __forceinline__ bool execute(const Params& p, Shared& s, PipelineState<STAGES>& ring,
                                        const Instruction& in) {
  note_instruction(p, s, in.index);
  mark(p, s.step, in.index, 0);
  if (COPIES == 1 && in.op == kQkv) prefetch_rows_l2(p, in.layer);
  if (KEYS_IN_RING && in.op == kHead)
    fence_proxy_async_global();  // this token's keys and values, before bulk copies of later tokens read them
  if (SLICE && in.op == kAdd) {
    add_partials(p, s, in, in.partial, s.step, [] {});
  } else if (MAX_SPLITS && in.op == kAttention) {
    const int keys = keys_of(in.layer, position_of(p, in.sequence, s.step));
    if (in.split < splits_of(keys) && !attend_to_split(p, s, ring, in, s.step)) return false;
  } else {
    u64 best = 0;
#if EXPERTS
    Instruction held = in;
    if (in.op == kGateUp && in.group) held.units = units_at_work(in, s.distinct);
    if (in.op == kDown) held.k_tiles = tiles_at_work(in, s.distinct);
    if (GROUPS > 1 && (in.op == kGateUp || in.op == kDown) && in.group && !experts_at_work(in.group, s.distinct)) {
      consumers_sync();
      return true;
    }
#else
    const Instruction held = in;
#endif
    const int step = s.step;
    const u32 flag = flag_at(step, held.layer);
    if (!gemv(p, s, ring, held, step, Load{p, s, held, step}, Epilogue{p, s, held, &best, flag, step})) return false;
    if (in.op == kHead) {
#pragma unroll
      for (int o = 8; o; o >>= 1) best = larger(best, __shfl_xor_sync(~0u, best, o));
      if (threadIdx.x % 16 == 0)
        s.best[threadIdx.x / 16] = best;  // 16 rows of sequence threadIdx.x / 16 % BATCH, or none
      consumers_sync();
      if (threadIdx.x < BATCH) {
        best = 0;
        for (int i = threadIdx.x; i < kConsumers / 16; i += BATCH) best = larger(best, s.best[i]);
        const u32 cancel = blockIdx.x == 0 && *p.host_cancel ? 1u << 31 : 0;
        store_candidate(p, p.candidates + (own_sm(p) * BATCH + threadIdx.x) * 2, best, cancel, flag);
      }
      if (threadIdx.x == 0) {
        s.head_first = in.tile * 16;
        s.head_count = min(in.units * 16, VOCAB - s.head_first);
      }
    }
  }
  mark(p, s.step, in.index, 3);
  consumers_sync();
  return true;
}

__device__ __forceinline__ bool stops(const Params& p, int token) {
  return token == p.stop[0] || token == p.stop[1] || token == p.stop[2] || token == p.stop[3];
}
__device__ __forceinline__ bool all_stopped(const Shared& s) {
  bool all = true;
  for (int b = 0; b < BATCH; b++) all &= s.stopped[b];
  return all;
}

// END: every SM reads all candidates, finds the same next token, and decides alike whether to continue. SM 0 of a rank
// writes the token to the host. Returns false when the launch ends here.
__device__ __forceinline__ bool choose(const Params& p, Shared& s, const Instruction end) {
  const int b = threadIdx.x / 32, lane = threadIdx.x % 32, step = s.step;
  note_instruction(p, s, end.index);
  mark(p, step, end.index, 0);
  bool cancelled = false, drawing = false;
  if (b < BATCH) {
    const u64 best = best_of_all(p, s, end, flag_at(step, LAYERS), p.candidates + b * 2, BATCH * 2, cancelled);
    if (lane == 0) s.chosen[b] = best;
  }
  mark(p, step, end.index, 1);
  if (threadIdx.x == 0) s.cancelled = cancelled;
  consumers_sync();
  for (int i = 0; i < BATCH; i++) drawing |= drawn(p.sampling[i]);
  if (s.faulted || (drawing && !draw(p, s, end, step))) return false;
  if (b < BATCH && lane == 0) {
    const int chosen = (int)~(u32)s.chosen[b];
    if (blockIdx.x == 0) p.host_tokens[step * BATCH + b] = chosen;
    s.stopped[b] |= stops(p, chosen);
    s.token[b] = p.forced ? (int)p.forced[(step + 1) * BATCH + b] : chosen;
  }
  mark(p, step, end.index, 3);
  if (threadIdx.x == 0) {
    __threadfence();
    atomicExch(&s.step, step + 1);  // the producer may be polling it
  }
  consumers_sync();
  return !s.cancelled;
}

// The consumers: this SM's instructions, token after token.
__device__ __forceinline__ void consume(const Params& p, Shared& s) {
  PipelineState<STAGES> ring;
  const u32 lane = threadIdx.x % 32, own = p.program_start[blockIdx.x] * kWords + lane;
  const auto word = [&](u32 at) {  // this lane's word of an instruction; beside splits there are few registers
    return __ldg((const int*)p.program + (MAX_SPLITS ? s.program * kWords + lane : own) + at * kWords);
  };
  while (s.step < p.count && !all_stopped(s)) {
    if (threadIdx.x < kWords) ((int*)&s.slots[0])[lane] = word(0);
    consumers_sync();
    bool alive = true;
    int at = 0;
    while (s.slots[at & 1].op != kEnd) {
      if (threadIdx.x / 32 == WARPS - 1 && lane < kWords) ((int*)&s.slots[~at & 1])[lane] = word(at + 1);
      alive = execute(p, s, ring, s.slots[at & 1]);
      if (!alive) break;
      at++;
    }
    if (!alive || !choose(p, s, s.slots[at & 1])) break;
  }
  __syncwarp();
  if (threadIdx.x == 0) *(volatile int*)&s.stop = 1;
  __syncwarp();
  if (kRmsScaleWarp) arrive_squared(s);
}

#if PAIRS
#define CLUSTERED __cluster_dims__(2, 1, 1)
#else
#define CLUSTERED
#endif

extern "C" __global__ void __launch_bounds__(kThreads, 1) CLUSTERED decode(const __grid_constant__ Params p) {
  Shared& s = shared_memory();
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      init(s.full[i], 1);
      init(s.empty[i], kArrivals);
    }
    init(s.squared, kArrivals);
    init(s.scaled, 1);
#if PAIRS
    init(s.exchange.full, 1);
#endif
    fence_mbarrier_init();
    s.stop = s.faulted = s.step = 0;
    s.round = 0;
#if EXPERTS
    s.routed = s.distinct = 0;
#endif
    s.program = p.program_start[blockIdx.x];
  }
  if (threadIdx.x < BATCH) {
    s.token[threadIdx.x] = (int)p.first_token[threadIdx.x];
    s.stopped[threadIdx.x] = p.first_made && stops(p, s.token[threadIdx.x]);
  }
  __syncthreads();
#if PAIRS
  cluster_sync_unaligned();
#endif

  if (threadIdx.x >= kConsumers) {
    setmaxnreg_dec<kProducerRegisters>();
    if (threadIdx.x == kConsumers) produce(p, s);
    if (kRmsScaleWarp && threadIdx.x / 32 == WARPS + 1) run_rms_scale_warp(s);
  } else {
    setmaxnreg_inc<kConsumerRegisters>();
    consume(p, s);
  }
#if PAIRS
  cluster_sync_unaligned();  // or one SM could write to shared memory of a block that has ended
#endif
}
