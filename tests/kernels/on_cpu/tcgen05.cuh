// Tensor cores of the fifth generation on a CPU, written from the PTX ISA and not from descriptors.cuh: they take
// descriptors apart, and end the run where a bit is not as the kind of product asks. The kernel's descriptors, addresses
// and fragments are its own.
#pragma once
#include "tiles.cuh"

#include "descriptors.cuh"

namespace tiles {

struct e4m3 { unsigned char bits; };

constexpr int kLanes = 128, kColumns = 512;
struct Tmem { u32 at[kLanes][kColumns]; };
inline std::map<int, std::shared_ptr<Tmem>> tmem_of_block;
inline void must(bool holds, const char* what) {
  if (!holds) fprintf(stderr, "%s\n", what), abort();
}
inline std::shared_ptr<Tmem> tmem(int rank) {
  const auto mine = tmem_of_block[(*fibers::cluster)[rank].index];
  must((bool)mine, "TMEM is not taken");
  return mine;
}

inline std::shared_ptr<Tmem> tmem() { return tmem(fibers::now->block); }

template <int Blocks = 1>
void tmem_take(u32* address) {
  auto& mine = tmem_of_block[fibers::block().index];
  if (!mine) mine = std::make_shared<Tmem>(), memset(mine.get(), 0xff, sizeof(Tmem));  // NaN until it is written
  *address = 0;
  fibers::note(fibers::kTake);
  fibers::meet_warp();
}
template <int Blocks = 1>
void tmem_free(u32 address) {
  fibers::note(fibers::kFree);
  must(address == 0, "another address is given back than was taken");
  fibers::meet_warp();
  tmem_of_block.erase(fibers::block().index);
  fibers::meet_warp();
}
inline void tcgen05_fence_before() { fibers::note(fibers::kFence, 0); }
inline void tcgen05_fence_after() { fibers::note(fibers::kFence, 1); }
inline void tcgen05_cluster_sync() { tcgen05_fence_before(), cluster_sync(), tcgen05_fence_after(); }
template <int Blocks = 1>
void tcgen05_commit(Barrier& barrier) {
  fibers::note(fibers::kCommit, fibers::offset(&barrier), Blocks);
  Barrier* at[Blocks];
  for (int rank = 0; rank < Blocks; rank++) at[rank] = Blocks == 2 ? &fibers::of_rank(&barrier, rank) : &barrier;
  fibers::later(fibers::products, [=] {
    for (int rank = 0; rank < Blocks; rank++) arrived(*at[rank]);
  });
}
inline void arrive_expect_tx_first(Barrier& barrier, u32 bytes) {
  fibers::note(fibers::kExpect, offset_in(0, &barrier), bytes);
  Barrier& first = fibers::of_rank(&barrier, 0);
  first.bytes += bytes, arrived(first);
}
template <int Blocks>
void tma_load_first(void* to, const TensorMap& map, Barrier& barrier, int c0, int r0) {
  fibers::note(fibers::kLoad, offset_in(0, &barrier), map.box * 128, fibers::offset(to));
  load_box(to, map, fibers::of_rank(&barrier, 0), c0, r0);
}
// A box of tiles of 512 bytes, without a swizzle: `map.box` rows of `map.wide` tiles of a matrix of tiles. Zeros outside.
// It goes to block `rank`.
inline void load_tiles(void* mine, int rank, const TensorMap& map, Barrier& barrier, int word, int c0, int r0) {
  must(word == 0, "a copy begins within a tile of scales");
  const u32 bytes = map.box * map.wide * 512;
  fibers::note(fibers::kLoad, offset_in(0, &barrier), bytes, offset_in(rank, mine));
  Barrier& first = fibers::of_rank(&barrier, 0);
  char* to = &fibers::of_rank((char*)mine, rank);
  fibers::later(fibers::loads, [=, &first] {
    memset(to, 0, bytes);
    for (int r = 0; r < map.box; r++)
      for (int c = 0; c < map.wide; c++)
        if (r0 + r < map.rows && c0 + c < map.cols)
          memcpy(to + (r * map.wide + c) * 512, (char*)map.data + ((long)(r0 + r) * map.cols + c0 + c) * 512, 512);
    land(first, bytes);
  });
}
template <int Blocks>
void tma_load_first(void* to, const TensorMap& map, Barrier& barrier, int word, int c0, int r0) {
  load_tiles(to, fibers::now->block, map, barrier, word, c0, r0);
}
template <int Blocks, bool Both>
void tma_load_both(void* to, const TensorMap& map, Barrier& barrier, int word, int c0, int r0) {
  if (!Both) return tma_load_first<Blocks>(to, map, barrier, word, c0, r0);
  must(fibers::cluster->size() == 2, "a copy goes to both blocks, and there is one");
  for (int rank = 0; rank < 2; rank++) load_tiles(to, rank, map, barrier, word, c0, r0);
}

// The byte of shared memory that a descriptor names: 16-byte units, 8 rows of 128 bytes and a step to the next 8, the
// swizzle exchanging bits 4-6 of the address with their exclusive or with bits 7-9.
inline unsigned char operand_byte(const char* shared, u64 descriptor, int row, int byte) {
  must((descriptor >> 46 & 3) == 1, "the descriptor's version is not 1");
  must(descriptor >> 61 == 2, "the descriptor's swizzle is not that of 128 bytes");
  must((descriptor >> 49 & 15) == 0, "base offset or mode of the descriptor is not 0");
  const u32 start = (descriptor & 0x3fff) << 4, step = (descriptor >> 32 & 0x3fff) << 4;
  const u32 address = start + row / 8 * step + row % 8 * 128 + byte;
  return shared[address ^ (address >> 7 & 7) << 4];
}
inline float of_e4m3(u32 code) { return unpack<f16>(e4m3x2_to_f16x2(code)).x; }
inline float of_e2m1(u32 code) {
  const float sizes[8] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -sizes[code & 7] : sizes[code & 7];
}

// The values of K of one row for one instruction.
template <MatrixKind Kind>
std::vector<float> operand_row(const char* shared, u64 descriptor, int row) {
  std::vector<float> values;
  for (int b = 0; b < 32; b++) {
    const u32 byte = operand_byte(shared, descriptor, row, b);
    if (Kind == kNvfp4) {
      values.push_back(of_e2m1(byte & 15)), values.push_back(of_e2m1(byte >> 4));
    } else if (Kind == kE4m3 || Kind == kMxfp8) {
      values.push_back(of_e4m3(byte));
    } else if (b % 2) {
      const u32 both = byte << 8 | operand_byte(shared, descriptor, row, b - 1);
      values.push_back(Kind == kBf16 ? unpack<bf16>(both).x : unpack<f16>(both).x);
    }
  }
  return values;
}
// The scale of row `row` for the values of K from number `k` on, which lies in each quarter of TMEM's lanes.
template <MatrixKind Kind>
float scale_of(const Tmem& tmem, u32 address, int row, int k, int id) {
  const u32 word = tmem.at[row % 32][(address & 0xffff) + row / 32];
  for (int quarter = 1; quarter < 4; quarter++)
    must(tmem.at[32 * quarter + row % 32][(address & 0xffff) + row / 32] == word, "scales differ between lanes");
  if (Kind == kNvfp4) return of_e4m3(word >> k / 16 * 8 & 127);
  const u32 exponent = word >> id * 8 & 255;
  return exponent == 255 ? NAN : std::ldexp(1.f, (int)exponent - 127);
}

// Adds to one row of sums the product of a row of a and of b [k][column], in the order of k; vectorised over columns.
__attribute__((optimize("O3"))) inline void add_products(u32* to, bool keep, const float* a, const float* b, int depth,
                                                         int columns) {
  float sums[256] = {};
  if (keep) memcpy(sums, to, columns * sizeof(float));
  for (int k = 0; k < depth; k++)
    for (int c = 0; c < columns; c++) sums[c] += a[k] * b[k * columns + c];
  memcpy(to, sums, columns * sizeof(float));
}

// In a pair rows of a from 128 on, and the second half of the rows of b, lie in the second block, which also takes the
// sums of those rows of a. Each block's tensor cores read scales from their own TMEM: those of its rows of a, and those
// of all rows of b.
template <MatrixKind Kind, int Blocks = 1>
void tcgen05_mma(u32 d, u64 a, u64 b, u32 instruction, int keep, u32 a_scales = 0, u32 b_scales = 0) {
  constexpr bool kScaled = Kind == kMxfp8 || Kind == kNvfp4;
  const int rows = (instruction >> 24 & 31) * 16, columns = (instruction >> 17 & 63) * 8, half = columns / Blocks;
  const u32 type = Kind == kBf16 || Kind == kNvfp4;
  must(rows == kLanes * Blocks && columns % 16 == 0 && columns >= 16 && columns <= 256, "no such shape");
  must(fibers::now->block == 0 || Blocks == 1, "the second block of a pair issues");
  must((instruction >> 7 & 7) == type && (instruction >> 10 & 7) == type, "the types are not those of this kind");
  must((instruction & 0xf) == 0 && (instruction >> 13 & 15) == 0, "sparse, negated or transposed operands");
  const int a_id = instruction >> 29 & 3, b_id = instruction >> 4 & 3;
  if (kScaled) must((instruction >> 23 & 1) == (Kind == kMxfp8) && instruction >> 31 == 0, "type of scales, size of K");
  if (!kScaled) must(b_id == 1 && instruction >> 29 == 0, "the sums are not float32");
  if (Kind == kNvfp4) must(a_id == 0 && b_id == 0, "four scales a row begin at byte 0");
  must(d >> 16 == 0 && (d & 0xffff) + columns <= kColumns, "the sums lie outside of TMEM");
  fibers::note(fibers::kProduct, fibers::offset(fibers::block().base) + ((a & 0x3fff) << 4), (b & 0x3fff) << 4, d,
               columns, kScaled ? (long)(a_scales | b_scales << 16) : -1l, Blocks);
  std::vector<const char*> shared;
  std::vector<std::shared_ptr<Tmem>> sums;
  for (int i = 0; i < Blocks; i++) {
    const int rank = Blocks == 2 ? i : fibers::now->block;
    shared.push_back((*fibers::cluster)[rank].base), sums.push_back(tmem(rank));
  }
  fibers::later(fibers::products, [=] {
    const auto scaled = [&](std::vector<float> row, int block, u32 scales, int r, int id) {
      for (size_t k = 0; kScaled && k < row.size(); k++) row[k] *= scale_of<Kind>(*sums[block], scales, r, k, id);
      return row;
    };
    for (int block = 0; block < Blocks; block++) {
      std::vector<float> of_b;
      for (int c = 0; c < columns; c++) {
        const auto row = scaled(operand_row<Kind>(shared[c / half], b, c % half), block, b_scales, c, b_id);
        of_b.resize(row.size() * columns);
        for (size_t k = 0; k < row.size(); k++) of_b[k * columns + c] = row[k];
      }
      for (int r = 0; r < kLanes; r++) {
        const std::vector<float> of_a = scaled(operand_row<Kind>(shared[block], a, r), block, a_scales, r, a_id);
        add_products(&sums[block]->at[r][d], keep, of_a.data(), of_b.data(), of_a.size(), columns);
      }
    }
  });
}

// 32 rows of 16 bytes: 8 rows follow each other, and the step from 8 to the next 8 is the descriptor's. In a pair each
// block copies from its own shared memory into its own TMEM.
template <int Blocks = 1>
void tmem_copy_scales(u32 to, u64 from) {
  must((from >> 46 & 3) == 1 && from >> 61 == 0, "version or swizzle of the scales' descriptor");
  must(to >> 16 == 0 && to % 4 == 0 && to + 4 <= kColumns, "the scales lie outside of TMEM, or not on four columns");
  must(fibers::now->block == 0 || Blocks == 1, "the second block of a pair issues");
  fibers::note(fibers::kScales, fibers::offset(fibers::block().base) + ((from & 0x3fff) << 4), to, Blocks);
  for (int i = 0; i < Blocks; i++) {
    const int rank = Blocks == 2 ? i : fibers::now->block;
    const char* shared = (*fibers::cluster)[rank].base;
    const auto into = tmem(rank);
    fibers::later(fibers::products, [=] {
      const u32 start = (from & 0x3fff) << 4, step = (from >> 32 & 0x3fff) << 4;
      for (int lane = 0; lane < kLanes; lane++)
        memcpy(&into->at[lane][to], shared + start + lane % 32 / 8 * step + lane % 8 * 16, 16);
    });
  }
}

// A product of weights in TMEM, two 16-bit values in a column, with values whose rows are K: one instruction has 16.
template <MatrixKind Kind>
void tcgen05_mma_tmem(u32 d, u32 a, u64 b, u32 instruction, int keep) {
  const int columns = (instruction >> 17 & 63) * 8;
  const u32 type = Kind == kBf16, panel = b >> 16 & 0x3fff;
  must((instruction >> 24 & 31) * 16 == kLanes && columns % 16 == 0 && columns >= 16 && columns <= 256, "no such shape");
  must((instruction >> 7 & 7) == type && (instruction >> 10 & 7) == type, "the types are not those of this kind");
  must((instruction & 0xf) == 0 && (instruction >> 13 & 15) == 8, "sparse, negated, or b not transposed");
  must((instruction >> 4 & 3) == 1 && instruction >> 29 == 0, "the sums are not float32");
  must(a >> 16 == 0 && a + 8 <= kColumns && d >> 16 == 0 && d + columns <= kColumns, "an operand lies outside of TMEM");
  fibers::note(fibers::kWeighted, a, (b & 0x3fff) << 4, d, columns, panel << 4);
  const char* shared = fibers::block().base;
  const auto mine = tmem();
  fibers::later(fibers::products, [=] {
    const auto value = [](u32 both) { return Kind == kBf16 ? unpack<bf16>(both) : unpack<f16>(both); };
    std::vector<float> of_b(16 * columns);
    for (int k = 0; k < 16; k++)
      for (int n = 0; n < columns; n++) {
        const u64 of_panel = b + n / 64 * panel;
        const u32 low = operand_byte(shared, of_panel, k, n % 64 * 2), high = operand_byte(shared, of_panel, k, n % 64 * 2 + 1);
        of_b[k * columns + n] = value(high << 8 | low).x;
      }
    for (int r = 0; r < kLanes; r++) {
      float of_a[16];
      for (int k = 0; k < 16; k += 2) {
        const float2 pair = value(mine->at[r][a + k / 2]);
        of_a[k] = pair.x, of_a[k + 1] = pair.y;
      }
      add_products(&mine->at[r][d], keep, of_a, of_b.data(), 16, columns);
    }
  });
}

inline u32* own_columns(u32 address, int count) {
  must(address >> 16 == fibers::now->thread / 32 % 4 * 32, "a warp reaches for lanes that are not its own");
  must((address & 0xffff) + count <= kColumns, "the columns lie outside of TMEM");
  return &tmem()->at[(address >> 16) + fibers::lane()][address & 0xffff];
}
template <int N>
void tmem_load(float (&to)[N], u32 address) {
  const u32* from = own_columns(address, N);
  fibers::note(fibers::kRead, address & 0xffff, N);
  for (int i = 0; i < N; i++) to[i] = __uint_as_float(from[i]);
}
template <int N>
void tmem_store(u32 address, float (&from)[N]) {
  u32* to = own_columns(address, N);
  fibers::note(fibers::kStore, address & 0xffff, N);
  for (int i = 0; i < N; i++) to[i] = __float_as_uint(from[i]);
}

// Stores of this thread, in groups: they read shared memory when the engine comes to them. A group counts the stores
// that are left of it.
struct Stores {
  std::shared_ptr<int> open = std::make_shared<int>(0);
  std::deque<std::shared_ptr<int>> committed;
};
inline std::map<fibers::Fiber*, Stores> stores_of_thread;
inline void tma_store(const TensorMap& map, const void* from, int c0, int r0) {
  must(r0 + map.box > 0, "a box lies wholly before the first row");
  const auto mine = stores_of_thread[fibers::now].open;
  ++*mine;
  fibers::later(fibers::stores, [=] {
    each_byte(map, c0, r0, [&](int in, long out) { if (out >= 0) ((char*)map.data)[out] = ((const char*)from)[in]; });
    --*mine;
  });
}
inline void tma_store(const TensorMap& map, const void* from, int c0, int head, int row, int batch) {
  tma_store(map.of(head, batch), from, c0, row);
}
inline void tma_store_commit() {
  Stores& mine = stores_of_thread[fibers::now];
  mine.committed.push_back(mine.open), mine.open = std::make_shared<int>(0);
}
// Waits until none is left of all groups but the last ones, so many as may be pending.
template <int Pending = 0>
void tma_store_wait_read() {
  auto& groups = stores_of_thread[fibers::now].committed;
  for (; groups.size() > Pending; groups.pop_front())
    while (*groups.front()) fibers::yield();
}
template <int Pending = 0>
void tma_store_wait() { tma_store_wait_read<Pending>(); }

}  // namespace tiles
