// A grid of CUDA threads on one CPU thread. Every CUDA thread is a fiber that runs until it must wait for others; warp
// operations meet at slots, barriers count arrivals. When all fibers wait for each other the run ends with an error.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

using std::max;
using std::min;
inline unsigned min(int a, unsigned b) { return std::min((unsigned)a, b); }
inline unsigned min(unsigned a, int b) { return min(b, a); }
inline unsigned max(int a, unsigned b) { return std::max((unsigned)a, b); }

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__

struct uint3 { unsigned x, y, z; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct int2 { int x, y; };
struct ulonglong2 { unsigned long long x, y; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace fibers {

struct Meeting { int arrived = 0; unsigned round = 0; };
struct Warp { unsigned char slot[32][64]; Meeting meeting; };
struct Block {
  std::vector<char> memory;  // dynamic shared memory, then static variables by name
  char* base;
  size_t used;
  std::map<std::string, char*> variables;
  std::vector<Warp> warps;
  std::map<int, Meeting> barriers;
  int threads, index;
};
struct Fiber {
  void* top;  // of its stack, where it waits
  unsigned thread;
  int block;
  bool done = false;
};
constexpr size_t kStackBytes = 96 << 10;

inline std::vector<Block>* cluster;
inline Meeting all_of_cluster;
inline Fiber* now;
inline void* scheduler;  // the top of its stack while a fiber runs
inline int idle_rounds;
inline unsigned cycles;  // of the clock, which goes on when it is read
inline const std::function<void()>* entry;

inline Block& block() { return (*cluster)[now->block]; }
inline Warp& warp() { return block().warps[now->thread / 32]; }
inline int lane() { return now->thread % 32; }

// Keeps the registers that a call preserves on this stack and its top in `from`, and goes on where another stack was
// left. swapcontext makes a system call each time, for the signals' mask, and takes most of a run.
__attribute__((naked, noipa)) inline void change_stack(void** from, void* to) {
  asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
      "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
      "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}
inline void yield() { change_stack(&now->top, scheduler); }
inline void run_fiber() {
  (*entry)();
  now->done = true;
  yield();
}
// The top of a stack that goes on in run_fiber: six registers, that address, and the place of its own return address,
// which is 8 bytes off a multiple of 16 as behind a call.
inline void* fresh_stack(char* lowest) {
  void** top = (void**)(((size_t)lowest + kStackBytes) / 16 * 16) - 8;
  std::fill(top, top + 8, nullptr);
  top[6] = (void*)run_fiber;
  return top;
}
inline void meet(Meeting& at, int count) {
  const unsigned round = at.round;
  if (++at.arrived == count) at.arrived = 0, at.round++, idle_rounds = 0;
  else while (at.round == round) yield();
}
inline void meet_warp() { meet(warp().meeting, 32); }

template <class T>
T* put(const T& value) {
  memcpy(warp().slot[lane()], &value, sizeof value);
  meet_warp();
  return (T*)warp().slot;
}
template <class T>
T slot(int lane) {
  T value;
  memcpy(&value, warp().slot[lane & 31], sizeof value);
  return value;
}
template <class T, class Join>
T fold(T value, Join join) {
  put(value);
  T all = slot<T>(0);
  for (int i = 1; i < 32; i++) all = join(all, slot<T>(i));
  meet_warp();
  return all;
}
template <class T>
T from_lane(T value, int lane) {
  put(value);
  const T found = slot<T>(lane);
  meet_warp();
  return found;
}

// What the first lane of each warp of the first cluster did, in order, where `noting` is set: warp (those of the second
// block after those of the first), kind of step, its values. Places in shared memory count from 2^20 in that block.
enum Step {
  kInit, kArrive, kExpect, kWait, kLoad, kCommit, kProduct, kScales, kRead, kTake, kFree, kFence, kSync, kWeighted, kStore,
  kLook
};
using Note = std::array<long, 8>;
inline bool noting;
inline std::vector<Note> notes;
inline void note(Step step, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  if (!noting || lane() != 0 || block().index >= (int)cluster->size()) return;
  notes.push_back({now->block * (block().threads / 32) + now->thread / 32, step, a, b, c, d, e, f});
}
inline long offset(const void* at) { return ((const char*)at - block().base) + ((long)now->block << 20); }

// Work of the copy engine and of the tensor cores. Where a run is asynchronous, it is done between the turns of the
// threads, each time or not as drawn from `draw`: loads in any order, stores and products in theirs.
inline bool asynchronous;
inline unsigned draw;
inline std::deque<std::function<void()>> loads, stores, products;
inline int drawn(int below) { return draw = draw * 1664525 + 1013904223, (draw >> 16) % below; }
inline void later(std::deque<std::function<void()>>& queue, std::function<void()> work) {
  if (asynchronous) queue.push_back(std::move(work));
  else work();
}
inline bool done_by_engines() {
  const bool waiting = !loads.empty() || !stores.empty() || !products.empty();
  if (!loads.empty() && drawn(2)) {
    const int which = drawn(loads.size());
    loads[which](), loads.erase(loads.begin() + which);
  }
  if (!stores.empty() && drawn(8) == 0) stores.front()(), stores.pop_front();
  for (int i = drawn(4); i > 0 && !products.empty(); i--) products.front()(), products.pop_front();
  return waiting;
}

// Cancels the first cluster that neither ran nor was cancelled, and returns its first block; -1 where none is left, or
// where it is drawn, one time in `refusals`.
inline int refusals, started, blocks_of_grid;
inline std::vector<bool> cancelled;
inline int cancel() {
  const int step = cluster->size();
  if (refusals && drawn(refusals) == 0) return -1;
  for (int first = started + step; first < blocks_of_grid; first += step)
    if (!cancelled[first]) return cancelled[first] = true, first;
  return -1;
}

// A __shared__ variable of this block.
template <class T>
T& variable(const char* name) {
  Block& b = block();
  if (!b.variables.count(name)) {
    b.used = (b.used + 127) / 128 * 128;
    b.variables[name] = b.base + b.used;
    b.used += sizeof(T);
    if (b.used + 1024 > b.memory.size()) fprintf(stderr, "too many __shared__ variables\n"), abort();
  }
  return *(T*)b.variables[name];
}
// The same place in the shared memory of another block of the cluster.
template <class T>
T& of_rank(const T* mine, int rank) { return *(T*)((*cluster)[rank].base + ((char*)mine - block().base)); }

inline std::vector<std::unique_ptr<char[]>> stacks;  // of all runs
inline uint3 grid;
inline uint3 place(unsigned index) { return {index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y}; }

// Runs body() on every thread, cluster after cluster (along x). 0, 1 when all wait for each other, 2 when a cluster ends
// before its copies and products.
inline int run(uint3 shape, int threads, int cluster_size, size_t shared_bytes, const std::function<void()>& body) {
  grid = shape, entry = &body;
  const int blocks = blocks_of_grid = shape.x * shape.y * shape.z;
  cancelled.assign(blocks, false);
  for (int first = 0; first < blocks; first += cluster_size) {
    if (cancelled[first]) continue;
    started = first;
    std::vector<Block> together(cluster_size);
    cluster = &together, all_of_cluster = {}, idle_rounds = 0;
    std::vector<std::unique_ptr<Fiber>> all;
    for (int b = 0; b < cluster_size; b++) {
      Block& one = together[b];
      one.memory.assign(shared_bytes + 65536, (char)0xff);  // NaN, so that a read of what was never written shows
      one.base = (char*)(((size_t)one.memory.data() + 1023) / 1024 * 1024);
      one.used = shared_bytes, one.warps.resize(threads / 32), one.threads = threads, one.index = first + b;
      for (int t = 0; t < threads; t++) {
        auto fiber = std::make_unique<Fiber>();
        if (stacks.size() == all.size()) stacks.emplace_back(new char[kStackBytes]);
        fiber->top = fresh_stack(stacks[all.size()].get()), fiber->thread = t, fiber->block = b;
        all.push_back(std::move(fiber));
      }
    }
    for (bool left = true; left;) {
      left = false;
      for (auto& fiber : all) {
        if (fiber->done) continue;
        now = fiber.get();
        change_stack(&scheduler, now->top);
        if (now->done) idle_rounds = 0;
        else left = true;
      }
      if (done_by_engines()) idle_rounds = 0;
      if (++idle_rounds > 200) return 1;
    }
    if (!loads.empty() || !stores.empty() || !products.empty()) return 2;
  }
  return 0;
}

inline int run(int blocks, int threads, int cluster_size, size_t shared_bytes, const std::function<void()>& body) {
  return run(uint3{(unsigned)blocks, 1, 1}, threads, cluster_size, shared_bytes, body);
}

}  // namespace fibers

#define threadIdx (uint3{fibers::now->thread, 0, 0})
#define blockIdx (fibers::place(fibers::block().index))
#define blockDim (uint3{(unsigned)fibers::block().threads, 1, 1})
#define gridDim (fibers::grid)

inline void __syncwarp() { fibers::meet_warp(); }
inline void __syncthreads() {
  fibers::note(fibers::kSync);
  fibers::meet(fibers::block().barriers[0], fibers::block().threads);
}
inline int __syncthreads_or(int yes) {
  int& any = fibers::variable<int>("__syncthreads_or");
  any = 0;
  __syncthreads();
  if (yes) any = 1;
  __syncthreads();
  const int found = any;
  __syncthreads();
  return found;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T> T __shfl_sync(unsigned, T value, int lane, int width = 32) {
  return fibers::from_lane(value, fibers::lane() / width * width + lane % width);
}
template <class T> T __shfl_down_sync(unsigned, T value, int o) {
  return fibers::from_lane(value, fibers::lane() + o < 32 ? fibers::lane() + o : fibers::lane());
}
template <class T> T __shfl_xor_sync(unsigned, T value, int o) { return fibers::from_lane(value, fibers::lane() ^ o); }
template <class T> T __shfl_up_sync(unsigned, T value, int o) {
  return fibers::from_lane(value, fibers::lane() >= o ? fibers::lane() - o : fibers::lane());
}
inline unsigned __reduce_max_sync(unsigned, unsigned v) {
  return fibers::fold(v, [](unsigned a, unsigned b) { return max(a, b); });
}
inline unsigned __reduce_min_sync(unsigned, unsigned v) {
  return fibers::fold(v, [](unsigned a, unsigned b) { return min(a, b); });
}
inline int __reduce_add_sync(unsigned, int v) { return fibers::fold(v, [](int a, int b) { return a + b; }); }
inline unsigned __ballot_sync(unsigned, bool yes) {
  return fibers::fold(yes ? 1u << fibers::lane() : 0u, [](unsigned a, unsigned b) { return a | b; });
}
inline bool __any_sync(unsigned, bool yes) { return fibers::fold(yes, [](bool a, bool b) { return a || b; }); }
inline bool __all_sync(unsigned, bool yes) { return fibers::fold(yes, [](bool a, bool b) { return a && b; }); }
inline int __ffs(unsigned x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  by &= 31;
  return by ? high << by | low >> (32 - by) : high;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned order) {
  const unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned chosen = 0;
  for (int i = 0; i < 4; i++) chosen |= (unsigned)(both >> (order >> 4 * i & 7) * 8 & 255) << 8 * i;
  return chosen;
}
inline float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
inline float __int_as_float(int bits) { return __uint_as_float(bits); }
inline unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
template <class T> T atomicMax(T* at, T value) { const T old = *at; *at = max(old, value); return old; }
template <class T> T atomicExch(T* at, T value) { const T old = *at; *at = value; return old; }
template <class T> T atomicCAS(T* at, T from, T to) { const T old = *at; if (old == from) *at = to; return old; }
template <class T> T atomicAdd(T* at, T value) { const T old = *at; *at += value; return old; }
inline unsigned __vmaxu2(unsigned a, unsigned b) { return max(a >> 16, b >> 16) << 16 | max(a & 0xffff, b & 0xffff); }
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += (signed char)(a >> i) * (signed char)(b >> i);
  return sum;
}
inline void __sincosf(float x, float* sine, float* cosine) { *sine = std::sin(x), *cosine = std::cos(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
inline float __fdividef(float x, float y) { return x / y; }
