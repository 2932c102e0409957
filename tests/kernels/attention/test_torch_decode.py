"""torch's flash kernels for one query: packed heads give the same answer, and refusals name the field."""

import pytest

from kernels import registry
from kernels.hardware import GPUS
from kernels.ops import AttentionCase
from kernels.proof import gate

CASE = AttentionCase(kind="decode", head_dim=64, heads=8, kv_heads=2, batch=3, q_len=1, kv_len=70)
LONG = AttentionCase(kind="decode", head_dim=128, heads=32, kv_heads=8, batch=1, q_len=1, kv_len=65_536)
NAMES = ("sdpa_flash_packed", "sdpa_cudnn_packed", "torch_flex_decode")


def test_packed_heads_are_attention() -> None:
    """By torch's flash kernel of a CPU, which the variant leaves to GPUs otherwise."""
    report = gate.check(registry.variant("sdpa_flash_packed"), CASE, "cpu")
    assert report.passed, report.sentence


@pytest.mark.parametrize("name", NAMES)
def test_they_are_peers_for_one_query_of_a_long_cache_on_a_gpu(name: str) -> None:
    variant = registry.variant(name)
    assert variant.peer
    assert variant.serves(LONG, GPUS["h200"]) is None
    assert variant.serves(LONG, GPUS["cpu"]) is not None
