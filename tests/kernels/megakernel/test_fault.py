"""The word of a launch that gives up, read back as a sentence."""

import pytest

from kernels.megakernel.host import device
from kernels.megakernel.host.machine import fault_sentence
from kernels.megakernel.program.instructions import GATE_UP

SOURCE = (device.SOURCES / "machine.cuh").read_text()


def word(sm: int, index: int, op: int, rank: int = 0) -> int:
    """As `give_up` of machine.cuh makes it."""
    assert "1ull << 63 | (u64)blockIdx.x << 32 | ((u32)in.index << 8 | (u32)in.op)" in SOURCE
    assert "who | (u64)p.rank << 56" in SOURCE
    return 1 << 63 | rank << 56 | sm << 32 | index << 8 | op


@pytest.mark.parametrize(
    ("word", "gpus", "sentence"),
    [
        (word(131, 65535, GATE_UP), 1, "SM 131 waited too long at instruction 65535 (gate_up)"),
        (word(7, 3, GATE_UP, rank=3), 4, "GPU 3, SM 7 waited too long at instruction 3 (gate_up)"),
        (0, 2, ""),
    ],
)
def test_a_fault_names_its_gpu_its_sm_and_its_instruction(word: int, gpus: int, sentence: str) -> None:
    assert fault_sentence(word, gpus) == sentence
