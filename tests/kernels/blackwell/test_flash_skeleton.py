"""flash_blackwell without its tensor cores: it compiles for Hopper, and there its softmax, copies and barriers run."""

from pathlib import Path
from typing import Any

import pytest
import torch

from kernels.attention.flash_call import FlashCall
from kernels.blackwell.flash import THREADS, plan
from kernels.cuda.call import CudaCall
from kernels.ops import AttentionCase, reference
from kernels.proof import inputs
from tests.kernels.blackwell.flash_on_cpu import rising
from tests.kernels.compiling import resources
from tests.kernels.skeleton.on_hopper import BLOCKS, built, loaded

REGISTERS = 65_536
"""Registers of an SM: CUDA C++ Programming Guide, *Technical Specifications per Compute Capability*."""

CASES: list[dict[str, Any]] = [
    {},
    {"head_dim": 128, "dtype": "fp16", "kv_dtype": "fp16", "kv_len": 420},
    {"causal": False, "kv_len": 200},
    {"q_len": 600, "kv_len": 600, "window": 100},
]
each_case = pytest.mark.parametrize("fields", CASES, ids=str)


def case(fields: dict[str, Any]) -> AttentionCase:
    shape = {"kind": "prefill", "head_dim": 64, "heads": 4, "kv_heads": 2, "batch": 1, "q_len": 300, "kv_len": 300}
    return AttentionCase(**shape | fields)


class Skeleton(FlashCall):
    """The call of flash_blackwell with the kernel for Hopper, by few blocks."""

    def __init__(self, shape: AttentionCase, folder: Path) -> None:
        CudaCall.__init__(self)
        self.case, self.plan, self._tables = shape, plan(shape, {}), {}
        planned = self.plan
        self.kernel = loaded(planned.source, planned.constants, planned.entry, planned.shared_bytes, folder)

    def _sms(self, device: torch.device) -> int:
        return BLOCKS


@pytest.mark.parametrize("fields", CASES[1::2], ids=str)
def test_it_compiles_for_hopper(fields: dict[str, Any]) -> None:
    """The thread that plays the tensor cores has 40 registers, so that it spills."""
    planned = plan(case(fields), {})
    log, binary = built(planned.source, planned.constants)
    assert resources(log).registers * THREADS <= REGISTERS
    assert f"\0{planned.entry}\0".encode() in binary


@pytest.mark.gpu
@each_case
def test_its_softmax_copies_and_barriers_are_right_on_hopper(fields: dict[str, Any], tmp_path: Path) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the skeleton is compiled for sm_90a")
    shape = case(fields)
    call, drawn = Skeleton(shape, tmp_path), inputs.draw(shape, "cuda", 1)
    for given in (drawn, rising(drawn)):
        truth = reference.compute(shape, given)[0]
        o = call(given["q"], given["k"], given["v"])
        torch.cuda.synchronize()
        assert (o.double() - truth).abs().max() <= torch.finfo(o.dtype).eps * truth.abs().max()
