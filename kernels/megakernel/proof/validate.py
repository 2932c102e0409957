"""Proves before any launch that a program cannot hang, cannot mix values up, and computes the model once.

What is proved, for every number of splits a context may need:
- fields are in range, so that no address lies outside its buffer (`bounds`);
- each SM's weights lie in the stream in the order in which it takes them (`stream`);
- every tile of every matrix is multiplied once, and every head meets every split of the keys once (`coverage`);
- each SM's copy of the residual is added to in the order of the model (`residual`);
- no instruction waits for ever (`deadlock`), each block has one writer per layer and token (`duplicate`), and is
  written again only when all its readers are done (`overwrite`, `unread`);
- keys and values are published before the next token reads them (`cache`).

The programs of several ranks are proven together: words in a peer's memory are ordered like the rest. Their routers
must be sharded alike (`router`), so that all ranks choose the same experts of a mixture.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kernels.cuda.nvrtc import cache_directory, prebuilt_file
from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import ROUTER
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.ranks import programs as programs_of
from kernels.megakernel.program.shape import ModelShape
from kernels.megakernel.proof.effects import COLUMN
from kernels.megakernel.proof.ordering import Ordering
from kernels.megakernel.proof.structure import ProgramProblem, structure

ROUTED = [COLUMN[name] for name in ("layer", "tile", "units", "k_tile", "k_tiles")]
"""What a router's instruction computes."""


class InvalidProgram(ValueError):
    """A program that must not run; `problems` says why."""

    def __init__(self, problems: list[ProgramProblem]) -> None:
        self.problems = problems
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")


def validate(*programs: Program) -> list[ProgramProblem]:
    """All problems in the programs of all ranks, in order; an empty list is the proof. Takes seconds."""
    problems = _are_of_one_model(programs)
    for program in programs if not problems else ():
        rank = program.rank if program.layout.tensor_parallel_size > 1 else -1
        problems += [replace(problem, rank=rank) for problem in structure(program)]
    problems = problems or _routers(programs)
    return problems or Ordering(*programs).find_problems()


def _routers(programs: tuple[Program, ...]) -> list[ProgramProblem]:
    """Whether SMs have the same rows of routers on every rank, so that equal bits make equal choices."""
    routed = [[table[table[:, COLUMN["op"]] == ROUTER][:, ROUTED] for table in item.instructions] for item in programs]
    return [
        ProgramProblem("router", sm, -1, "it has other rows of the router than this SM of GPU 0", program.rank)
        for program, tables in zip(programs, routed, strict=True)
        for sm, table in enumerate(tables)
        if not np.array_equal(table, routed[0][sm])
    ]


def _are_of_one_model(programs: tuple[Program, ...]) -> list[ProgramProblem]:
    """Whether these are the programs of one model's ranks, each once."""
    first = programs[0]
    ranks = [program.rank for program in programs]
    if ranks != list(range(first.layout.tensor_parallel_size)):
        return [
            ProgramProblem("bounds", -1, -1, f"programs of ranks {ranks} for {first.layout.tensor_parallel_size} GPUs")
        ]
    for program in programs:
        if (program.shape, program.layout) != (first.shape, first.layout):
            return [ProgramProblem("bounds", -1, -1, f"ranks 0 and {program.rank} have different shapes or layouts")]
    return []


def check_programs(*programs: Program) -> None:
    """Raises InvalidProgram if `validate` finds a problem."""
    problems = validate(*programs)
    if problems:
        raise InvalidProgram(problems)


def check_programs_once(*programs: Program) -> None:
    """As `check_programs`, but programs that this code has proven before are taken as proven: a file beside the kernels
    that were compiled ahead, or in the cache of compiled kernels, says so.
    """
    name = _name(programs)
    if _is_known(name):
        return
    check_programs(*programs)
    mark = cache_directory() / name
    with suppress(OSError):  # a cache that nobody may write to: the next process proves them again
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def _is_known(name: str) -> bool:
    return bool(prebuilt_file(name)) or (cache_directory() / name).exists()


@dataclass(frozen=True)
class Proof:
    """The proof of a layout's programs, of all ranks, as a file. `shape` is each rank's shard of the model."""

    shape: ModelShape
    layout: Layout

    @property
    def name(self) -> str:
        """The name of the file that says that the programs are proven."""
        return _name(tuple(programs_of(self.shape, self.layout)))

    @property
    def is_made(self) -> bool:
        """Whether a file says that the programs are proven."""
        return _is_known(self.name)

    def make(self) -> None:
        """As `check_programs_once`, ahead of it: nothing is raised here."""
        with suppress(InvalidProgram):
            check_programs_once(*programs_of(self.shape, self.layout))

    def make_into(self, folder: Path) -> Path:
        """Proves the programs, and says so in the folder, which exists. Raises InvalidProgram."""
        programs = tuple(programs_of(self.shape, self.layout))
        check_programs(*programs)
        path = folder / _name(programs)
        path.touch()
        return path


def _name(programs: tuple[Program, ...]) -> str:
    """The name of a proof's file: a digest of all that it depends on, the programs and the code of this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    for program in programs:
        digest.update(repr((program.shape, program.layout, program.rank, program.sections)).encode())
        for instructions in program.instructions:
            digest.update(repr(instructions.shape).encode() + instructions.tobytes())
    return f"proof-{digest.hexdigest()[:32]}"
