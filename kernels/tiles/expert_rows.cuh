// Where the rows of each expert end, and which expert a tile belongs to: what a grouped product finds on the device.
#pragma once

// to[i] = join of value(0) to value(i). No value is negative, and join(x, 0) is x. One warp calls it.
template <int Count, typename Value, typename Join>
__device__ __forceinline__ void scan(int* to, const Value& value, const Join& join) {
  int before = 0;
  for (int first = 0, lane = threadIdx.x % 32; first < Count; first += 32) {
    const int i = first + lane;
    int mine = i < Count ? value(i) : 0;
    for (int o = 1; o < 32; o *= 2) {
      const int lower = __shfl_up_sync(~0u, mine, o);
      if (lane >= o) mine = join(mine, lower);
    }
    mine = join(mine, before);
    if (i < Count) to[i] = mine;
    before = __shfl_sync(~0u, mine, 31);
  }
}

// to[i] = the sum of value(0) to value(i). One warp calls it.
template <int Count, typename Value>
__device__ __forceinline__ void add_up(int* to, const Value& value) {
  scan<Count>(to, value, [](int a, int b) { return a + b; });
}

// Where the rows of each expert end: `offs`, those outside of the rows or out of order clamped. One warp calls it.
template <int Experts>
__device__ __forceinline__ void find_row_ends(int* to, const int* offs, int rows) {
  const auto clamped = [&](int e) { return min(max(offs[e], 0), rows); };
  scan<Experts>(to, clamped, [](int a, int b) { return max(a, b); });
}

// The first row of expert `e`; the number of its rows.
__device__ __forceinline__ int first_row(const int* row_ends, int e) { return e ? row_ends[e - 1] : 0; }
__device__ __forceinline__ int rows_of(const int* row_ends, int e) { return row_ends[e] - first_row(row_ends, e); }

// The place of the first of `Count` rising values that is larger than `than`; Count where none is.
template <int Count>
__device__ __forceinline__ int first_above(const int* values, int than) {
  int low = 0, high = Count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (values[middle] > than)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
