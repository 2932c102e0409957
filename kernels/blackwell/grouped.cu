// y rows of expert e = epilogue(x rows of expert e · w[e]ᵀ) on sm_100a, rows sorted by expert: the order of the tiles;
// the kernel stands in gemm.cuh. Compiled and emulated; never run on the chip.
//
// A tile has rows of one expert only. Only the device knows where these rows end, so every block counts the tiles
// itself. An expert's last tile may reach into rows of the next experts: it loads and multiplies them, and stores none.
#include "epilogue.cuh"
#include "expert_rows.cuh"

struct Params : Operands {
  const int* offs;  // [EXPERTS]: where the rows of each expert end
  OUT* y;
  int weight_rows;  // of one expert
};

// Of each expert: where its rows end, and where its tiles of rows do.
struct Schedule {
  int row_ends[EXPERTS], tile_ends[EXPERTS];
  // One warp.
  __device__ __forceinline__ void begin(const Params& p) {
    find_row_ends<EXPERTS>(row_ends, p.offs, p.rows);
    __syncwarp();
    const auto tiles = [&](int e) { return (rows_of(row_ends, e) + kRows * BLOCKS - 1) / (kRows * BLOCKS); };
    add_up<EXPERTS>(tile_ends, tiles);
  }
};

// The tiles of a cluster: expert by expert, row tiles first, so that rows of w are read once for all rows of the
// expert. One thread goes through them, or a whole warp.
template <int Threads>
struct Tiles {
  const Params& p;
  const Schedule& schedule;
  ClusterNumbers<BLOCKS, Threads, DYNAMIC> cluster;
  const int rank = cluster_rank();
  int row, end, column, weights;  // the first row of x and y, the expert's end, the column tile, its first row of all w
  template <typename Shared>
  __device__ __forceinline__ Tiles(const Params& p, Shared& s) : p(p), schedule(s.schedule), cluster{s.queue} {}
  __device__ __forceinline__ bool advance() {
    const int next = cluster.next(), e = first_above<EXPERTS>(schedule.tile_ends, next / p.column_tiles);
    if (e == EXPERTS) return false;
    const int tiles = rows_of(schedule.tile_ends, e);
    const int local = next - first_row(schedule.tile_ends, e) * p.column_tiles;
    row = first_row(schedule.row_ends, e) + (local % tiles * BLOCKS + rank) * kRows;
    end = schedule.row_ends[e];
    column = local / tiles;
    weights = e * p.weight_rows + column * BN;
    return true;
  }
  // Stores a panel of 32 rows from `from` on by the copy engine; where the expert ends before, by threads, up to there.
  __device__ __forceinline__ void store(const TensorMap& y, const OUT* staged, int at, int from) const {
    if (from + 32 > end)
      store_rows(p.y + (u64)from * p.columns + at, p.columns, staged, end - from, p.columns - at);
    else if (threadIdx.x % 32 == 0)
      tma_store(y, staged, at, from);
  }
};

#include "gemm.cuh"
