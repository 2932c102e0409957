"""Programs broken on purpose, and the kinds of problems that are found in them."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from kernels.megakernel.program import Program, WeightSection
from kernels.megakernel.program.instructions import ADD, ATTENTION, END
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.shape import ModelShape
from kernels.megakernel.proof.effects import COLUMN, Access, Effects, effects
from kernels.megakernel.proof.structure import instruction_rows
from kernels.megakernel.proof.validate import validate

OF_PRODUCT = ("layer", "units", "tile", "k_tile", "k_tiles", "partial")
OF_ADD = ("layer", "k_tile", "k_tiles", "partial")
OF_ATTENTION = ("layer", "kv_head", "head", "heads", "split", "sequence")


def kinds(program: Program) -> set[str]:
    return {problem.kind for problem in validate(program)}


def one_half(shape: ModelShape, layout: Layout, sm: int, words: dict[str, int]) -> Effects:
    """The effects if layers did not alternate between the halves of `down_partials`."""
    half = layout.down_partials * (shape.hidden // 16)

    def moved(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
        return tuple(replace(a, first=a.first % half) if a.buffer == "down_partials" else a for a in accesses)

    result = effects(shape, layout, sm, words)
    return replace(result, reads=moved(result.reads), writes=moved(result.writes))


def with_rows(program: Program, rows: dict[int, list[dict[str, int]]], repack: bool = True) -> Program:
    """The program with other lists on some SMs, numbered afresh; `repack` lays the weights in the new order."""
    broken = copy.deepcopy(program)
    for sm, listed in rows.items():
        table = np.zeros((len(listed), broken.instructions[sm].shape[1]), dtype=np.int32)
        for index, words in enumerate(listed):
            for name, value in (words | {"index": index}).items():
                table[index, COLUMN[name]] = value
        broken.instructions[sm] = table
        if repack:
            broken.sections[sm] = [
                WeightSection(w["op"], w["layer"], w["tile"], w["units"], w["k_tile"], w["k_tiles"])
                for w in listed
                if w["units"] and broken.in_stream(w["op"])
            ]
    return broken


def without(program: Program, sm: int, index: int) -> Program:
    """One instruction dropped."""
    rows = instruction_rows(program.instructions[sm])
    return with_rows(program, {sm: rows[:index] + rows[index + 1 :]})


def with_one(programs: list[Program], broken: Program) -> list[Program]:
    """The programs of all ranks with one rank's replaced."""
    return [broken if program.rank == broken.rank else program for program in programs]


def swapped(program: Program, sm: int, first: int, second: int, repack: bool = True) -> Program:
    """Two instructions of one SM in each other's place."""
    rows = instruction_rows(program.instructions[sm])
    rows[first], rows[second] = rows[second], rows[first]
    return with_rows(program, {sm: rows}, repack)


def changed(program: Program, sm: int, index: int, repack: bool = True, **fields: int) -> Program:
    """Other values in fields of one instruction."""
    rows = instruction_rows(program.instructions[sm])
    rows[index] = rows[index] | fields
    return with_rows(program, {sm: rows}, repack)


def find(program: Program, op: int, **fields: int) -> tuple[int, int, dict[str, int]]:
    """The first instruction of this kind with these fields: (SM, index, words)."""
    for sm, table in enumerate(program.instructions):
        for index, words in enumerate(instruction_rows(table)):
            if words["op"] == op and all(words[name] == value for name, value in fields.items()):
                return sm, index, words
    raise LookupError(f"no instruction {op} with {fields}")


def fields_that_matter(words: dict[str, Any]) -> tuple[str, ...]:
    """The fields that the kernel looks at."""
    if words["op"] == END:
        return ("layer",)
    if words["op"] == ATTENTION:
        return OF_ATTENTION
    if words["op"] == ADD:
        return OF_ADD
    return OF_PRODUCT if words["units"] else ("layer",)
