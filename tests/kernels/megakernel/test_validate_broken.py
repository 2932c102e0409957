"""Schedules broken on purpose, wherever chance has it: the validator rejects every one."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import ADD, OUT
from kernels.megakernel.proof.structure import instruction_rows
from kernels.megakernel.proof.validate import validate
from tests.kernels.megakernel.broken import (
    changed,
    fields_that_matter,
    find,
    kinds,
    swapped,
    with_one,
    with_rows,
    without,
)
from tests.kernels.megakernel.tiny_models import program_of, programs_of

SMALL = program_of("qwen2", out_parts=2, splits=3)
SLICED = program_of("qwen2", batch=2, out_parts=2, down_parts=2, splits=2, sliced=True)
ATTENDING = program_of("llama-32", out_parts=2, splits=0)
EXPERTS = program_of("qwen3_moe", out_parts=2, down_parts=2, splits=0)
GROUPS = program_of("olmoe", batch=2, down_parts=2, splits=2)
ALONE = [SMALL, SLICED, ATTENDING, EXPERTS, GROUPS]
OF_RANKS = [
    programs_of("llama-of-4", out_parts=2, splits=2, tensor_parallel_size=2),
    programs_of("llama-of-4", batch=2, out_parts=2, down_parts=2, splits=1, sliced=True, tensor_parallel_size=2),
    programs_of("llama-of-4", sms=4, splits=0, pairs=True, tensor_parallel_size=4),
    programs_of("mixtral-of-2", batch=3, sms=4, splits=1, down_parts=2, tensor_parallel_size=2),
]
ANY = st.sampled_from([*([program] for program in ALONE), *OF_RANKS])
"""The programs of one GPU, and those of several of which one is broken."""
MANY = settings(max_examples=80, deadline=None, derandomize=True)
PLACES = st.integers(0, 5), st.integers(0, 999)


@given(ANY, st.integers(0, 3), *PLACES)
@MANY
def test_it_rejects_a_dropped_instruction(programs: list[Program], rank: int, sm: int, index: int) -> None:
    program = programs[rank % len(programs)]
    sm %= program.layout.sms
    assert validate(*with_one(programs, without(program, sm, index % len(program.instructions[sm]))))


@given(ANY, st.integers(0, 3), *PLACES, st.integers(0, 9), st.integers(-1, 40))
@MANY
def test_it_rejects_another_value_in_any_field(programs, rank, sm, index, which, value):
    program = programs[rank % len(programs)]
    sm %= program.layout.sms
    rows = instruction_rows(program.instructions[sm])
    words = rows[index % len(rows)]
    names = fields_that_matter(words)
    name = names[which % len(names)]
    broken = changed(program, sm, index % len(rows), **{name: value + (value == words[name])})
    assert validate(*with_one(programs, broken)), f"{name} {words[name]} → {value}"


@given(st.sampled_from(ALONE), *PLACES, st.integers(1, 5))
@MANY
def test_it_rejects_a_duplicated_instruction(program: Program, sm: int, index: int, away: int) -> None:
    rows, theirs = instruction_rows(program.instructions[sm]), instruction_rows(program.instructions[(sm + away) % 6])
    theirs.insert(min(index, len(theirs) - 1), rows[index % len(rows)])
    assert validate(with_rows(program, {(sm + away) % 6: theirs}))


def test_it_rejects_moved_slices_other_pairs_and_copies_that_nobody_reads() -> None:
    sm, index, _ = find(SLICED, ADD, layer=1, partial=1)
    rows = instruction_rows(SLICED.instructions[sm])
    theirs = next(i for i, table in enumerate(SLICED.instructions) if i != sm and (table[:, 0] == ADD).any())
    other = instruction_rows(SLICED.instructions[theirs])
    at = next(i for i, w in enumerate(other) if w["op"] == ADD and w["layer"] == 1 and w["partial"])
    rows[index], other[at] = other[at], rows[index]
    assert kinds(with_rows(SLICED, {sm: rows, theirs: other})) == {"coverage", "residual"}
    whole = replace(SLICED, layout=replace(SLICED.layout, sliced=False))
    assert kinds(whole) == {"bounds"}
    program = program_of("llama-32", out_parts=2, splits=0, pairs=True)
    assert program.layout.pairs
    assert not validate(program)
    rows = [instruction_rows(table) for table in program.instructions]
    one = next(sm for sm in (1, 3) if rows[sm][1]["k_tile"] != rows[sm + 1][1]["k_tile"])
    rows[one][1], rows[one + 1][1] = rows[one + 1][1], rows[one][1]
    assert kinds(with_rows(program, dict(enumerate(rows)))) == {"deadlock"}
    program = program_of("llama-32", sms=6, splits=0, copies=2)
    assert program.layout.copies == 2
    assert not validate(program)
    assert kinds(replace(program, layout=replace(program.layout, copies=7))) == {"unread"}


IN_PAIRS = program_of("llama-32", sms=8, out_parts=2, splits=0, pairs=True)


@given(st.integers(0, 3), st.integers(1, 3), st.integers(0, 1))
@MANY
def test_it_rejects_pairs_that_do_not_attend_once_in_every_layer(giver: int, away: int, layer: int) -> None:
    """A pair's rows of OUT handed to another: every tile is multiplied once, and neighbours attend alike."""
    assert IN_PAIRS.layout.pairs
    taker = (giver + away) % 4
    rows = {sm: instruction_rows(IN_PAIRS.instructions[sm]) for sm in range(8)}
    for side in (0, 1):
        mine, theirs = rows[2 * giver + side], rows[2 * taker + side]
        at, to = (
            next(i for i, w in enumerate(value) if (w["op"], w["layer"]) == (OUT, layer)) for value in (mine, theirs)
        )
        theirs.insert(to + 1, mine.pop(at))
    broken = with_rows(IN_PAIRS, rows)
    assert kinds(broken) == {"deadlock"}
    alone = replace(broken, layout=replace(broken.layout, pairs=False))
    assert not kinds(alone)


@given(*PLACES)
@settings(MANY, max_examples=40)
def test_it_rejects_weights_in_another_order(sm: int, index: int) -> None:
    rows = [i for i, words in enumerate(instruction_rows(SMALL.instructions[sm])) if words["units"]]
    at = index % (len(rows) - 1)
    assert kinds(swapped(SMALL, sm, rows[at], rows[at + 1], repack=False)) == {"stream"} | kinds_of_order(
        sm, rows[at], rows[at + 1]
    )


def kinds_of_order(sm: int, first: int, second: int) -> set[str]:
    """`structure` also sees that products of the residual are out of order."""
    return kinds(swapped(SMALL, sm, first, second)) & {"residual"}
