"""The CUDA source of families near Llama, run on a CPU, agrees with the interpreter, which agrees with transformers."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.megakernel.cuda_on_cpu import CpuRun
from tests.kernels.megakernel.orders import round_robin
from tests.kernels.megakernel.tiny_models import arrays_of, gpu, program_of, start


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("granite", {"splits": 0}),
        ("olmo2", {"splits": 2, "down_parts": 2}),
        ("olmo2", {"splits": 0, "batch": 3}),
        ("qwen2-window", {"splits": 0}),
        ("gemma3", {"splits": 0}),
        ("gemma2", {"splits": 0}),
        ("glm4", {"splits": 2}),
        ("smollm3", {"splits": 2, "batch": 3}),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(f"{k} {v}" for k, v in value.items()),
)
def test_it_computes_what_the_interpreter_does(name: str, layout: dict[str, Any]) -> None:
    program, begin = program_of(name, sms=2, **layout), start(name, layout.get("batch", 1), 21, 64)
    run = CpuRun(program, arrays_of(name, program.layout), begin, 2, seed=7)
    assert (run.ended, run.fault) == (0, 0)
    machine = gpu(name, program, begin, 2)
    np.testing.assert_array_equal(run.tokens, machine.run(round_robin()))
    assert np.abs(run.logits - machine.logits).max() < 0.03
