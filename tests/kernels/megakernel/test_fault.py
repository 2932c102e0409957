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


@pytest.mark.parametrize(("sm", "index"), [(0, 0), (131, 70), (66, 65535)])
def test_one_gpu_names_its_sm_and_instruction(sm: int, index: int) -> None:
    assert fault_sentence(word(sm, index, GATE_UP)) == f"SM {sm} waited too long at instruction {index} (gate_up)"


@pytest.mark.parametrize("rank", range(4))
def test_several_gpus_are_told_apart(rank: int) -> None:
    assert (
        fault_sentence(word(7, 3, GATE_UP, rank), 4) == f"GPU {rank}, SM 7 waited too long at instruction 3 (gate_up)"
    )


def test_no_fault_has_no_sentence() -> None:
    assert fault_sentence(0, 2) == ""
