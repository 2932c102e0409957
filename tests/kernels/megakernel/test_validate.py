"""The validator accepts what `build_program` makes of every model, and names what is wrong with a program."""

import copy
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cuda.nvrtc import PREBUILT
from kernels.megakernel.program import Program, build_program
from kernels.megakernel.program.instructions import ATTENTION, DOWN, END, GATE_UP, HEAD, OUT, QKV
from kernels.megakernel.program.layout import Layout, can_attend, default_layout, fit_layout
from kernels.megakernel.program.shape import ModelShape, shape_of
from kernels.megakernel.proof import ordering
from kernels.megakernel.proof import validate as validate_module
from kernels.megakernel.proof.effects import Access, Effects, effects
from kernels.megakernel.proof.ordering import Ordering
from kernels.megakernel.proof.structure import instruction_rows
from kernels.megakernel.proof.validate import InvalidProgram, Proof, check_programs, check_programs_once, validate
from tests.kernels.megakernel.broken import changed, find, kinds, one_half, swapped, with_rows, without
from tests.kernels.megakernel.published import CONFIGS
from tests.kernels.megakernel.tiny_models import program_of

SMALL = program_of("qwen2", out_parts=2, splits=3)


# what it accepts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "batch", "capacity"),
    [(name, *((1, 192), (3, 4096), (8, 4096))[at % 3]) for at, name in enumerate(CONFIGS)],
)
def test_it_accepts_every_model(name: str, batch: int, capacity: int) -> None:
    shape = replace(shape_of(CONFIGS[name]), layers=2, vocab=4000)
    check_programs(build_program(shape, default_layout(shape, min(batch, shape.batch_most), capacity)))


@given(
    st.integers(1, 30), st.integers(1, 50), st.integers(1, 3), st.integers(1, 9), st.sampled_from([32, 64, 128]),
    st.integers(1, 40), st.sampled_from([0, 1, 3, 16]), st.integers(1, 3),
)  # fmt: skip
@settings(max_examples=40, deadline=None, derandomize=True)
def test_it_accepts_small_models_of_any_size(hidden, inner, kv, group, head_dim, sms, splits, out_parts):
    shape = ModelShape(16 * hidden, 16 * inner, 2, kv * group, kv, head_dim, 101, 1e-5, False, False, True)
    layout = Layout(sms=sms, splits=splits, out_parts=out_parts)
    if splits or can_attend(shape, fit_layout(shape, layout)):
        check_programs(build_program(shape, layout))
    else:
        assert kinds(build_program(shape, layout)) == {"bounds"}


# what it rejects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["int8", "int4", "int4_zero", "fp8", "nvfp4"])
def test_precision_changes_the_stream_and_not_the_proof(weights: str) -> None:
    """The same instructions; a broken one is rejected all the same, and so is a precision that there is not."""
    program = program_of("qwen2", out_parts=2, splits=3, weights=weights)
    assert validate(program) == []
    parts = {name: getattr(program.layout, name) for name in ("out_parts", "down_parts")}
    wide = program_of("qwen2", splits=3, **parts)  # groups may allow fewer parts
    assert all((one == other).all() for one, other in zip(program.instructions, wide.instructions, strict=True))
    assert (program.stream_bytes() < wide.stream_bytes()).all()
    for sm, table in enumerate(program.instructions):
        assert all(validate(without(program, sm, index)) for index in range(0, len(table), 5))
    unknown = replace(program, layout=replace(program.layout, weights="int3"))
    assert [problem.kind for problem in validate(unknown)] == ["bounds"]


def test_it_rejects_the_program_of_a_larger_layout_or_model() -> None:
    """Buffers are as large as the layout and the shape say."""
    for part in ("sms", "splits", "out_parts"):
        layout = replace(SMALL.layout, **{part: getattr(SMALL.layout, part) - 1})
        assert kinds(replace(SMALL, layout=layout)) == {"bounds"}, part
    for smaller in ({"hidden": 176}, {"intermediate": 160}, {"layers": 1}, {"heads": 2}, {"vocab": 180}):
        assert kinds(replace(SMALL, shape=replace(SMALL.shape, **smaller))) == {"bounds"}, smaller


def test_it_rejects_batches_beyond_a_tile_and_chunks_that_hold_no_rows_of_keys() -> None:
    assert kinds(program_of("llama-32", batch=8)) == set()
    assert kinds(program_of("llama-32", batch=9)) == {"bounds"}
    assert kinds(program_of("llama-32", splits=0, out_parts=3, chunk_blocks=24)) == set()
    assert kinds(program_of("llama-32", splits=0, out_parts=3, chunk_blocks=16)) == {"bounds"}
    assert kinds(program_of("llama-32", splits=4, chunk_blocks=24)) == {"bounds"}


def test_it_accepts_attention_in_another_order_and_a_product_on_another_sm() -> None:
    attention = program_of("qwen2", splits=12)
    rows = instruction_rows(attention.instructions[0])
    both = [i for i, words in enumerate(rows) if words["op"] == ATTENTION and words["layer"] == 0]
    assert len(both) == 2
    assert validate(swapped(attention, 0, *both)) == []
    sm, index, _ = find(SMALL, OUT, layer=0)
    theirs = next(i for i, words in enumerate(instruction_rows(SMALL.instructions[5])) if words["op"] == OUT)
    rows, other = instruction_rows(SMALL.instructions[sm]), instruction_rows(SMALL.instructions[5])
    other.insert(theirs, rows.pop(index))
    assert sm != 5
    assert validate(with_rows(SMALL, {sm: rows, 5: other})) == []


def test_an_idle_split_orders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is in order only while a long context keeps all splits at work is rejected."""
    shape = replace(shape_of(CONFIGS["qwen2.5-0.5b"]), layers=3, vocab=4000)
    program = build_program(shape, Layout(out_parts=2, down_parts=4, splits=33, heads=4))
    monkeypatch.setattr(ordering, "effects", one_half)
    assert kinds(program) == {"overwrite"}
    monkeypatch.setattr(ordering, "effects", lambda *args: replace(one_half(*args), always=True))
    assert kinds(program) == set()


def two_partials(program: Program) -> Program:
    sm, index, _ = find(program, OUT, layer=1, partial=1)
    return changed(program, sm, index, partial=0)


def head_before_gate_up(program: Program) -> Program:
    rows = instruction_rows(program.instructions[2])
    ops = [words["op"] for words in rows]
    return swapped(program, 2, ops.index(HEAD), ops.index(GATE_UP))


def left_out(program: Program) -> Program:
    sm, index, words = find(program, DOWN, layer=1)
    return changed(program, sm, index, units=words["units"] - 1)


def packed_twice(program: Program) -> Program:
    broken = copy.deepcopy(program)
    broken.sections[3].append(broken.sections[3][-1])
    return broken


def attention_with_units(program: Program) -> Program:
    sm, index, _ = find(program, ATTENTION)
    return changed(program, sm, index, units=1, k_tiles=1)


def out_of_order(program: Program) -> Program:
    sm, index, _ = find(program, DOWN, layer=0)
    return swapped(program, sm, index - 1, index)


def later_columns(program: Program) -> Program:
    sm, index, words = find(program, QKV, layer=1)
    return changed(program, sm, index, k_tile=1, k_tiles=words["k_tiles"] - 1)


@pytest.mark.parametrize(
    ("breaks", "kind"),
    [
        (attention_with_units, "bounds"), (later_columns, "bounds"), (packed_twice, "stream"), (left_out, "coverage"),
        (head_before_gate_up, "residual"), (out_of_order, "deadlock"), (two_partials, "duplicate"),
    ],
)  # fmt: skip
def test_each_kind_of_problem_is_called_by_its_name(breaks: object, kind: str) -> None:
    assert kind in kinds(breaks(SMALL))  # type: ignore[operator]
    with pytest.raises(InvalidProgram, match=r"SM \d|layer \d|bounds|stream"):
        check_programs(breaks(SMALL))  # type: ignore[operator]


def test_what_was_proven_ahead_is_not_proven_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A proof of another program or of other sources is not taken: what is proven again is in the cache."""
    ahead, cache = tmp_path / "ahead", tmp_path / "cache"
    monkeypatch.setenv(PREBUILT, str(ahead))
    monkeypatch.setenv("KERNELS_CACHE", str(cache))
    ahead.mkdir()
    proof = Proof(SMALL.shape, SMALL.layout).make_into(ahead)
    check_programs_once(SMALL)
    assert not cache.exists()
    check_programs_once(program_of("qwen2", out_parts=2, splits=2))
    assert len(list(cache.iterdir())) == 1
    other = shutil.copytree(Path(validate_module.__file__).parent, tmp_path / "other")
    with (other / "effects.py").open("a") as source:
        source.write("# another line\n")
    monkeypatch.setattr(validate_module, "__file__", str(other / "validate.py"))
    check_programs_once(SMALL)
    assert len(list(cache.iterdir())) == 2
    assert list(ahead.iterdir()) == [proof]


def test_only_what_was_proven_is_not_proven_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that fails leaves no mark, and one changed instruction is another; the cache may be read-only."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "file" / "cache"))
    check_programs_once(SMALL)
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    broken = left_out(SMALL)
    for _ in range(2):
        with pytest.raises(InvalidProgram):
            check_programs_once(broken)
    check_programs_once(SMALL)
    monkeypatch.setattr(validate_module, "check_programs", lambda *programs: pytest.fail("proven again"))
    check_programs_once(SMALL)
    with pytest.raises(pytest.fail.Exception):
        check_programs_once(broken)


def test_values_that_nobody_reads_are_found() -> None:
    words = find(SMALL, DOWN, layer=0)[2]
    every = [
        (s, i)
        for s, table in enumerate(SMALL.instructions)
        for i, w in enumerate(instruction_rows(table))
        if w["op"] == DOWN and w["layer"] == 0
    ]
    broken = SMALL
    for s, i in every:
        broken = changed(broken, s, i, k_tiles=words["k_tiles"] - 1)
    assert "unread" in {problem.kind for problem in Ordering(broken).find_problems()}


def test_keys_must_be_published_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were each SM to read its own candidate only, nothing would order this token's keys and the next's readers."""

    def alone(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
        result = effects(shape, layout, sm, words)
        return replace(result, reads=(Access("candidates", words["layer"], sm, 1),)) if words["op"] == END else result

    monkeypatch.setattr(ordering, "effects", alone)
    assert {"cache"} <= {problem.kind for problem in Ordering(SMALL).find_problems()}
