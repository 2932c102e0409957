// y [m, n] = epilogue(x [m, k] · w [n, k]ᵀ) on sm_100a: the order of the tiles; the kernel stands in gemm.cuh.
// Compiled and emulated; never run on the chip.
#include "epilogue.cuh"

struct Params : Operands {
  int row_tiles, group;
};

struct Schedule {
  __device__ __forceinline__ void begin(const Params&) {}  // the host knows it
};

// The tiles of a cluster, in an order that keeps `group` row tiles and as many column tiles in the L2. Where BLOCKS is
// 2, the row tiles of Params are those of a pair. One thread goes through them, or a whole warp. With DYNAMIC the grid
// has a cluster for each tile, and a running one takes over the tiles of those that have not started.
template <int Threads>
struct Tiles {
  const Params& p;
  ClusterNumbers<BLOCKS, Threads, DYNAMIC> cluster;
  const int rank = cluster_rank();
  int row, column, weights;  // the first row of x and y, the column tile, its first row of w
  template <typename Shared>
  __device__ __forceinline__ Tiles(const Params& p, Shared& s) : p(p), cluster{s.queue} {}
  __device__ __forceinline__ bool advance() {
    const int next = cluster.next();
    if (next < 0 || next >= p.row_tiles * p.column_tiles) return false;
    const int width = p.group * p.column_tiles, first = next / width * p.group;
    const int high = min(p.row_tiles - first, p.group);
    row = ((first + next % width % high) * BLOCKS + rank) * kRows;
    column = next % width / high;
    weights = column * BN;
    return true;
  }
  // Stores a panel of 32 rows from `from` on, those of them that y has.
  __device__ __forceinline__ void store(const TensorMap& y, const OUT* staged, int at, int from) const {
    if (threadIdx.x % 32 == 0) tma_store(y, staged, at, from);
  }
};

#include "gemm.cuh"
