"""Every query is assigned once, and no block of the grid has much more to do than another."""

import numpy as np
import pytest

from kernels.attention.schedule import L2_BYTES, schedule
from kernels.ops import AttentionCase

BASE = AttentionCase(kind="prefill", head_dim=64, heads=4, kv_heads=2, batch=3, q_len=1000, kv_len=1000)


@pytest.mark.parametrize(
    "change", [{}, {"causal": False}, {"kv_len": 40}, {"q_len": 1}, {"q_len": 129}, {"window": 30}, {"batch": 0}]
)
@pytest.mark.parametrize("blocks", [1, 7, 132])
def test_every_query_is_dealt_once(change, blocks):
    case = BASE.model_copy(update=change)
    table = schedule(case, rows=192, keys=128, blocks=blocks)
    counted = np.zeros((case.batch, case.heads, case.q_len), int)
    for batch, head, first, one in table.reshape(-1, 4):
        if one:
            assert first % 64 == 0
            counted[batch, head, max(0, first) : first + 192] += 1
    assert (counted == 1).all()
    assert not table[-1].any()
    assert all((np.diff(table[:, block, 3]) <= 0).all() for block in range(blocks))


def test_blocks_share_causal_work_evenly():
    table = schedule(BASE.model_copy(update={"q_len": 8192, "kv_len": 8192}), rows=128, keys=128, blocks=132)
    work = ((table[..., 2] + 128) * table[..., 3]).sum(axis=0)
    assert work.max() < 1.05 * work.mean()


def test_long_keys_are_worked_on_in_sections():
    case = BASE.model_copy(update={"kv_len": L2_BYTES // (4 * 64)})
    table = schedule(case, rows=128, keys=128, blocks=4)
    pairs = [batch * 4 + head for batch, head, _, one in table.reshape(-1, 4) if one]
    assert [pair // 2 for pair in pairs] == sorted(pair // 2 for pair in pairs)
