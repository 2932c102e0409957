"""The names of the Triton kernels that variants launch, in Triton's interpreter."""

import pytest
from triton.runtime.interpreter import InterpretedFunction

from kernels import registry
from kernels.cases import check_cases
from kernels.hardware import GPUS
from kernels.proof.inputs import draw

NAMES = ("decode_split", "flash_triton", "gated_triton", "rmsnorm_triton", "rope_triton")


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_declares_what_it_launches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the smallest case that it serves."""
    launched, run = set(), InterpretedFunction.run

    def noted(self, *args, **kwargs):
        launched.add(self.__name__)
        return run(self, *args, **kwargs)

    monkeypatch.setattr(InterpretedFunction, "run", noted)
    variant = registry.variant(name)
    served = [case for case in check_cases(variant.op, False) if variant.serves(case, GPUS["h200"]) is None]
    case = min((item for item in served if item.dtype == "fp16"), key=lambda each: each.least_bytes)
    variant.build(case, variant.space(case)[0])(**draw(case, "cpu", seed=0))
    assert launched == set(variant.kernels)
