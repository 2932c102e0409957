"""The interpreter agrees with transformers, in any order of the SMs; broken programs hang or differ."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.megakernel import program as program_module
from kernels.megakernel.program import Program, build_program
from kernels.megakernel.program.instructions import DOWN, GATE_UP, HEAD
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.proof.structure import WHOLE_INPUT, instruction_rows
from kernels.megakernel.proof.validate import check_programs, validate
from tests.kernels.megakernel.broken import changed, fields_that_matter, find, swapped, without
from tests.kernels.megakernel.cuda_on_cpu import CpuRun
from tests.kernels.megakernel.interpreter.interpret import Deadlock, DecodeStart, SimulatedGpu
from tests.kernels.megakernel.orders import laggard, round_robin, shuffled
from tests.kernels.megakernel.tiny_models import (
    LOWER,
    MODELS,
    NEAR,
    arrays_of,
    exact,
    gpu,
    logits_after,
    model,
    program_of,
    rounded_model,
    start,
)

LAYOUTS: dict[str, dict[str, Any]] = {
    "6 SMs": {},
    "batch 3 in parts": {"batch": 3, "out_parts": 2, "down_parts": 2, "sms": 5},
    "batch 2 in slices": {"batch": 2, "out_parts": 2, "down_parts": 3, "sms": 5, "heads": 1, "sliced": True},
    "batch 5 in slices": {"batch": 5, "out_parts": 2, "sms": 6, "heads": 2, "sliced": True},
    "one SM": {"sms": 1, "splits": 1},
    "attending": {"splits": 0},
    "attending in parts": {"splits": 0, "batch": 2, "out_parts": 3, "sms": 7},
    "in pairs": {"splits": 0, "out_parts": 2, "sms": 6, "pairs": True},
    "copies": {"splits": 0, "out_parts": 2, "down_parts": 2, "sms": 6, "copies": 3},
    "one sequence in slices": {"out_parts": 2, "down_parts": 2, "splits": 3, "sliced": True},
}
BOTH = [(list(MODELS)[(at + 2 * other) % len(MODELS)], name) for at, name in enumerate(LAYOUTS) for other in (0, 1)]
"""Every layout with two models, every model with four layouts."""
NEAR_BOTH = [(name, list(LAYOUTS)[layout]) for at, name in enumerate(NEAR) for layout in ((0, 8), (1, 7))[at % 2]]
FEW = settings(max_examples=25, deadline=None, derandomize=True)


@pytest.mark.parametrize(("name", "layout"), [*BOTH, *NEAR_BOTH])
def test_it_generates_what_transformers_generates(name: str, layout: str) -> None:
    """From a prompt of 21 tokens, so that the splits of 8 keys grow from 3 to 4 on the way."""
    program = program_of(name, **LAYOUTS[layout])
    check_programs(program)
    begin = start(name, program.layout.batch, 21, 64)
    machine = gpu(name, program, begin, 6, split_keys=8)
    tokens = machine.run(round_robin())
    expected, rounded = (logits_after(value(name), begin, tokens) for value in (exact, model))
    assert np.abs(machine.logits - expected).max() <= np.abs(rounded - expected).max()
    chosen = np.take_along_axis(expected, tokens[..., None], axis=-1)[..., 0]
    assert (expected.max(axis=-1) - chosen).max() <= 2 * np.abs(rounded - expected).max()
    np.testing.assert_array_equal(tokens, machine.logits.argmax(axis=-1))


LOWER_LAYOUTS = [("llama", {"batch": 3, "sms": 4}), ("qwen2", {"out_parts": 3, "splits": 0, "down_parts": 2})]


@pytest.mark.parametrize(
    ("weights", "name", "layout"), [(weights, *LOWER_LAYOUTS[at % 2]) for at, weights in enumerate(LOWER)], ids=str
)
def test_in_lower_precision_it_is_the_model_of_the_rounded_weights(weights, name, layout):
    """It reads the packed codes and scales, transformers the bf16 matrices that they stand for: the same tolerance."""
    program = program_of(name, weights=weights, **layout)
    check_programs(program)
    begin = start(name, program.layout.batch, 21, 64, weights)
    machine = gpu(name, program, begin, 3, split_keys=8)
    tokens = machine.run(round_robin())
    expected = logits_after(exact(name, weights), begin, tokens)
    rounded = logits_after(rounded_model(name, weights), begin, tokens)
    assert np.abs(machine.logits - expected).max() <= np.abs(rounded - expected).max()
    unrounded = logits_after(exact(name), begin, tokens)
    assert np.abs(machine.logits - unrounded).max() > 2 * np.abs(machine.logits - expected).max()


@pytest.mark.parametrize("layout", ["batch 3 in parts", "batch 5 in slices", "attending in parts"])
def test_sequences_of_unequal_lengths_are_each_as_if_all_were_so_long(layout: str) -> None:
    """Their splits of 8 keys are 1 to 3, and one of them begins another on the way."""
    program, lengths = program_of("llama", **(LAYOUTS[layout] | {"batch": 3})), (5, 21, 15)
    starts = [start("llama", 1, length, 64) for length in lengths]

    def logits(which: list[int]) -> np.ndarray:
        keys, values, first = (
            np.concatenate([getattr(starts[i], name) for i in which], axis=axis)
            for name, axis in (("keys", 1), ("values", 1), ("first", 0))
        )
        context = DecodeStart(keys, values, first, [lengths[i] for i in which])
        machine = SimulatedGpu(program, arrays_of("llama", program.layout), context, 3, split_keys=8)
        machine.run(shuffled(1))
        return machine.logits

    mixed = logits([0, 1, 2])
    for which in range(3):
        np.testing.assert_array_equal(mixed[:, which], logits([which] * 3)[:, which])


# orders ---------------------------------------------------------------------------------------------------------------

PROGRAM = program_of("qwen2", out_parts=2, splits=3)


def outcome(program: Program, order: Any) -> bytes:
    """All logits of two tokens, or how the run went wrong."""
    try:
        machine = gpu("qwen2", program, start("qwen2", 1, 20, 64), 2, split_keys=4)
        machine.run(order)
    except Deadlock:
        return b"hangs"
    except (IndexError, ValueError, KeyError) as error:
        return f"goes astray: {type(error).__name__}".encode()
    return machine.logits.tobytes()


@cache
def healthy() -> bytes:
    return outcome(PROGRAM, round_robin())


@given(st.integers(0, 2**32 - 1))
@settings(FEW, max_examples=10)
def test_any_order_gives_the_same_bits(seed: int) -> None:
    assert outcome(PROGRAM, shuffled(seed)) == healthy()


@pytest.mark.parametrize("slow", [0, 3, 5])
def test_a_slow_sm_changes_nothing(slow: int) -> None:
    assert outcome(PROGRAM, laggard(slow)) == healthy()


# broken programs ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 5), st.integers(0, 999))
@FEW
def test_without_an_instruction_it_hangs_or_differs(sm: int, index: int) -> None:
    broken = without(PROGRAM, sm, index % (len(PROGRAM.instructions[sm]) - 1))
    assert validate(broken)
    assert outcome(broken, round_robin()) != healthy()


@given(st.integers(0, 5), st.integers(0, 999), st.integers(0, 9), st.integers(0, 12))
@FEW
def test_with_another_field_it_hangs_or_differs(sm: int, index: int, which: int, value: int) -> None:
    at = index % (len(PROGRAM.instructions[sm]) - 1)
    words = instruction_rows(PROGRAM.instructions[sm])[at]
    # where to cut what is packed, and a partial of outputs that have none: the kernel itself does not look
    idle = [name for name, ops in (("k_tile", WHOLE_INPUT), ("partial", (GATE_UP, HEAD))) if words["op"] in ops]
    names = [name for name in fields_that_matter(words) if name not in idle]
    name = names[which % len(names)]
    broken = changed(PROGRAM, sm, at, **{name: value + (value == words[name])})
    assert validate(broken)
    assert outcome(broken, round_robin()) != healthy()


@given(st.integers(0, 5), st.integers(0, 999), st.integers(0, 999))
@FEW
def test_two_instructions_in_each_others_place(sm: int, first: int, second: int) -> None:
    """A swap is rejected, or harmless in every order: attention, whose splits may come in any."""
    last = len(PROGRAM.instructions[sm]) - 1
    program = swapped(PROGRAM, sm, first % last, second % last)
    if not validate(program):
        assert {outcome(program, order) for order in (round_robin(), laggard(sm), shuffled(1))} == {healthy()}


def test_a_deadlock_hangs_and_a_late_onlooker_finds_its_words_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """More SMs than gate and up rows: round-robin works, but one slow SM hangs the GPU. `fit_layout` prevents it."""
    sm, index, _ = find(PROGRAM, DOWN, layer=1)
    program = swapped(PROGRAM, sm, index - 1, index)
    assert next(problem.kind for problem in validate(program)) == "deadlock"
    assert outcome(program, round_robin()) == b"hangs"
    monkeypatch.setattr(program_module, "fit_layout", lambda shape, layout: layout)
    shape = shape_of(model("qwen2").config.to_dict())
    program = build_program(shape, Layout(sms=40, splits=1))
    assert {problem.kind for problem in validate(program)} == {"overwrite"}
    late = int(validate(program)[0].sentence.split("SM ")[1].split()[0])
    assert outcome(program, round_robin()) not in (b"hangs", healthy())
    assert outcome(program, laggard(late)) == b"hangs"


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("granite", {"splits": 0}), ("olmo2", {"splits": 0, "batch": 3}),
        ("qwen2-window", {"splits": 0}), ("gemma3", {"splits": 0}), ("gemma2", {"splits": 0}), ("glm4", {"splits": 2}),
        ("smollm3", {"splits": 2, "batch": 3}),
        ("llama-32", {"splits": 2, "batch": 3, "weights": "fp8_layers"}),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(f"{k} {v}" for k, v in value.items()),
)  # fmt: skip
def test_it_computes_what_the_interpreter_does(name: str, layout: dict[str, Any]) -> None:
    program = program_of(name, sms=2, **layout)
    begin = start(name, program.layout.batch, 21, 64, program.layout.weights)
    run = CpuRun(program, arrays_of(name, program.layout), begin, 2, seed=7)
    assert (run.ended, run.fault) == (0, 0)
    machine = gpu(name, program, begin, 2)
    np.testing.assert_array_equal(run.tokens, machine.run(round_robin()))
    assert np.abs(run.logits - machine.logits).max() < 0.03
