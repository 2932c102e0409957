"""flash_blackwell: where it is offered, what it refuses, its machine code; on a GPU of sm_100, that it is right."""

import re
from typing import Any

import pytest

from kernels import registry
from kernels.blackwell.flash import ARCHITECTURE, SLOTS, THREADS, plan
from kernels.cases import check_cases
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.hardware import GPUS
from kernels.ops import AttentionCase
from kernels.proof import gate
from tests.kernels.compiling import resources, sass

FLASH = registry.variant("flash_blackwell")
FP16 = {"dtype": "fp16", "kv_dtype": "fp16"}
REGISTERS = 65_536
"""Of an SM: CUDA C++ Programming Guide, *Technical Specifications per Compute Capability*."""


def case(**fields: Any) -> AttentionCase:
    shape = {"kind": "prefill", "head_dim": 64, "heads": 4, "kv_heads": 2, "batch": 2, "q_len": 300, "kv_len": 300}
    return AttentionCase(**shape | fields)


@pytest.mark.parametrize(
    ("head_dim", "fields"), [(64, {}), (64, {"window": 100}), (128, {"causal": False, **FP16})], ids=str
)
def test_it_compiles_to_the_instructions_of_the_fifth_generation(head_dim: int, fields: dict[str, Any]) -> None:
    """ptxas writes the code of both halves out; weights, which TMEM holds, are read 16 of 128 keys at a time."""
    planned = plan(case(head_dim=head_dim, **fields), {})
    log, code = sass(planned.source, planned.constants, ARCHITECTURE)
    result = resources(log)
    assert (result.stack, result.spill_stores, result.spill_loads) == (0, 0, 0)
    assert result.registers * THREADS <= REGISTERS
    products = re.findall(r"UTCHMMA (\w+)\[", code)
    assert (products.count("gdesc"), products.count("tmem")) == (2 * head_dim // 16, 2 * 128 // 16)
    names = set(re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ )?([A-Z][\w.]*)", code))
    assert {"UTMALDG.4D", "UTMASTG.4D", "UTCBAR", "LDTM.x128", "STTM.x32", "MUFU.EX2"} <= names


@pytest.mark.parametrize("head_dim", SLOTS)
def test_shared_memory_is_within_budget(head_dim: int) -> None:
    for params in FLASH.space(case(head_dim=head_dim)):
        assert plan(case(head_dim=head_dim), params).shared_bytes <= MAX_SHARED_BYTES


@pytest.mark.gpu
def test_drawn_cases_pass_the_gate() -> None:
    import torch

    if torch.cuda.get_device_capability() != (10, 0):
        pytest.skip("it is built for sm_100a")
    served = [
        check_case
        for check_case in check_cases("attention", cpu=False)
        if FLASH.serves(check_case, GPUS["b200"]) is None
    ]
    for item in served:
        report = gate.check(FLASH, item, "cuda", {})
        assert report.passed, f"{item.key}: {report.sentence}"
