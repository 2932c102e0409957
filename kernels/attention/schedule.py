"""Assigns tiles of queries to blocks of the grid, in order. Imports without torch."""

import heapq

import numpy as np
import numpy.typing as npt

from kernels.ops import AttentionCase

L2_BYTES = 24 << 20
"""Bytes of keys and values in use at a time: half of Hopper's L2, since a line may be cached in both of its halves."""

OVERHEAD = 2.0
"""The cost of beginning and ending a tile, in blocks of keys."""


def schedule(case: AttentionCase, rows: int, keys: int, blocks: int) -> npt.NDArray[np.int32]:
    """[rounds, blocks, 4]: batch, head and first query of each tile of `rows` queries, and 1; 0 after a block's last
    tile.

    If the queries do not fill their tiles, the first tile begins before the first query, by a multiple of 64; with
    causality that is the shortest tile. Pairs of batch and head whose keys and values fit the L2 together form a
    section. Within a section the longest tiles come first, and each goes to the block with the least work so far
    (longest processing time first).
    """
    pairs, tiles = case.batch * case.heads, -(-case.q_len // rows)
    before = -(-(-case.q_len // 64) * 64) % rows
    firsts = [tile * rows - before for tile in range(tiles)]
    cost = [OVERHEAD + _blocks_of_keys(case, first, rows, keys) for first in firsts]
    resident = L2_BYTES // max(1, 4 * case.kv_len * case.head_dim)
    section = max(1, resident) * (case.heads // case.kv_heads)
    loads = [(0.0, block) for block in range(blocks)]
    assigned: list[list[tuple[int, int, int, int]]] = [[] for _ in range(blocks)]
    for begin in range(0, pairs, section):
        for tile in reversed(range(tiles)):
            for pair in range(begin, min(begin + section, pairs)):
                load, block = loads[0]
                assigned[block].append((*divmod(pair, case.heads), firsts[tile], 1))
                heapq.heapreplace(loads, (load + cost[tile], block))
    table = np.zeros((max(map(len, assigned), default=0) + 1, blocks, 4), np.int32)
    for block, mine in enumerate(assigned):
        table[: len(mine), block] = np.array(mine, np.int32).reshape(-1, 4)
    return table


def _blocks_of_keys(case: AttentionCase, first: int, rows: int, keys: int) -> int:
    """The number of blocks of keys that the queries from `first` on see."""
    shift = case.kv_len - case.q_len
    last = first + rows - 1 + shift
    reach = last + 1 if case.causal else last + case.window if case.window else case.kv_len
    begin = max(0, first + shift - case.window + 1) if case.window else 0
    return max(0, -(-min(case.kv_len, reach) // keys) - begin // keys)
