"""Answers of float32 and of what runs today, kept in files for a plan that does not fit into memory beside them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """One of the sides that were recorded in `folder`. It is asked for the batches in their order."""

    def __init__(self, folder: Path, side: int, device: torch.device) -> None:
        self._answers = (torch.load(path)[side].to(device) for path in _files(folder))

    def logits(self, ids: torch.Tensor, /) -> torch.Tensor:
        """What the side answered to the next batch."""
        return next(self._answers)


def record(given: Given, sides: Sequence[GivesLogits], folder: Path, goes_on: Callable[[int], bool]) -> None:
    """Keeps what the `sides` answer to each batch while `goes_on(values of all inputs so far)`; to one at least."""
    folder.mkdir()
    batches: list[torch.Tensor] = []
    for batch in given.batches:
        if batches and not goes_on(sum(known.numel() for known in batches)):
            break
        logits = {side: side.logits(batch).cpu() for side in dict.fromkeys(sides)}
        torch.save([logits[side] for side in sides], folder / f"{len(batches)}.pt")
        batches.append(batch.cpu())
    written = given.tokens.written if given.tokens else None
    torch.save((tuple(given.answer), batches, given.source, written), folder / INPUTS)


def recorded(folder: Path) -> Given:
    """What the sides in `folder` were given."""
    answer, batches, source, written = torch.load(folder / INPUTS)
    tokens = None if written is None else Tokens(torch.cat(batches), source, min(written, sum(map(len, batches))))
    return Given(AnswerKind(*answer), batches, source, tokens)


def _files(folder: Path) -> Iterator[Path]:
    return (folder / f"{number}.pt" for number in range(len(list(folder.iterdir())) - 1))
