"""The build of a layout for a GPU: pairs of SMs only where all of them find room."""

from pathlib import Path
from typing import Any

import pytest

from kernels.megakernel.host import device
from kernels.megakernel.host.machine import fault_sentence
from kernels.megakernel.program import build_program
from kernels.megakernel.program.instructions import GATE_UP
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.ranks import shard_of
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.proof.validate import validate
from tests.kernels.megakernel.tiny_models import MODELS

SHAPE = shape_of(MODELS["llama-32"])
IN_PAIRS = Layout(sms=6, splits=0, out_parts=2, pairs=True)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What kernels are compiled with, on a GPU that holds two clusters. Proofs are kept nowhere else."""
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path))
    result: list[dict[str, Any]] = []
    monkeypatch.setattr(device, "compile_kernel", lambda constants: result.append(constants) or len(result))
    monkeypatch.setattr(device, "max_active_pairs", lambda *args: 2)
    return result


def test_pairs_that_find_no_room_are_left_out_on_one_gpu_and_of_two_ranks(compiled: list[dict[str, Any]]) -> None:
    made = device.build_layout(SHAPE, IN_PAIRS, device.Tuning())
    assert not made.programs[0].layout.pairs
    assert not validate(*made.programs)
    assert [constants["PAIRS"] for constants in compiled] == [1]
    assert made.constants["PAIRS"] == 0
    layout = Layout(sms=4, splits=0, pairs=True, tensor_parallel_size=2)
    shard = shard_of(SHAPE, 2)
    alone, both = (device.build_layout(shard, layout, device.Tuning(), beside) for beside in (1, 2))
    assert [program.rank for program in alone.programs] == [0, 1]
    assert [made.constants["PAIRS"] for made in (alone, both)] == [1, 0]


@pytest.mark.parametrize(
    "layout", [Layout(sms=4, splits=0, pairs=True), Layout(sms=6, splits=0), Layout(sms=6)], ids=str
)
def test_what_finds_room_is_built_as_it_is(layout: Layout, compiled: list[dict[str, Any]]) -> None:
    made = device.build_layout(SHAPE, layout, device.Tuning())
    assert made.programs[0].layout == layout
    assert compiled == ([made.constants] if layout.pairs else [])


def test_the_build_that_notes_times_differs_in_that_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path))
    monkeypatch.delenv("KERNELS_PREBUILT", raising=False)
    program = build_program(SHAPE, Layout(sms=4, splits=2))
    usual, traced = device.defines(program, device.Tuning()), device.traced_build(program, device.Tuning())
    assert dict(traced.defines) == usual | {"TRACE": 1}
    assert device.shared_bytes(dict(traced.defines)) == device.shared_bytes(usual)
    assert not traced.is_made
    (tmp_path / traced.name).touch()
    assert traced.is_made
    assert not device.build_of(usual).is_made
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("KERNELS_PREBUILT", str(tmp_path))
    assert traced.is_made


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
