"""Answers of float32 and of what runs today, in files for a plan that does not fit into memory beside them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from kernels.model_files import AnswerKind
from workers.measuring.texts import Tokens

INPUTS = "inputs.pt"


class GivesLogits(Protocol):
    """What a comparison asks of a side."""

    def logits(self, ids: torch.Tensor, /) -> torch.Tensor:
        """Its output for a main input."""


@dataclass(frozen=True)
class Given:
    """What quality is measured on: `batches` of main inputs, which are those of `tokens` where there are some."""

    answer: AnswerKind
    batches: Iterable[torch.Tensor]
    source: str
    tokens: Tokens | None


class Recorded:
    """A side whose answers are in `files`. It is asked for the batches in their order."""

    def __init__(self, files: Sequence[Path], device: torch.device) -> None:
        self._answers = (torch.load(path, device) for path in files)

    def logits(self, ids: torch.Tensor, /) -> torch.Tensor:
        return next(self._answers)


def record(inputs: Given, sides: Sequence[GivesLogits], folder: Path, keep_going: Callable[[int], bool]) -> None:
    """Saves what the `sides` answer to each batch while `keep_going(values of all inputs so far)`; to one at least."""
    folder.mkdir()
    different = list(dict.fromkeys(sides))
    batches: list[torch.Tensor] = []
    for batch in inputs.batches:
        if batches and not keep_going(sum(known.numel() for known in batches)):
            break
        for number, side in enumerate(different):
            torch.save(side.logits(batch).cpu(), _file(folder, number, len(batches)))
        batches.append(batch.cpu())
    written = inputs.tokens.written if inputs.tokens else None
    torch.save((tuple(inputs.answer), batches, inputs.source, written, len(different)), folder / INPUTS)


def read_recording(folder: Path, device: torch.device) -> tuple[Given, list[Recorded]]:
    """What the sides in `folder` were given, and each of them once, on `device`."""
    answer, batches, source, written, count = torch.load(folder / INPUTS)
    tokens = None if written is None else Tokens(torch.cat(batches), source, min(written, sum(map(len, batches))))
    files = [[_file(folder, side, batch) for batch in range(len(batches))] for side in range(count)]
    return Given(AnswerKind(*answer), batches, source, tokens), [Recorded(paths, device) for paths in files]


def _file(folder: Path, side: int, batch: int) -> Path:
    return folder / f"{side}-{batch}.pt"
