"""The distance of a runner's answers from those of another: of classes, and of vectors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch

from kernels.measure.fidelity import distances
from kernels.model_files import AnswerKind

Pool = Callable[[torch.Tensor], torch.Tensor]
"""Makes one vector [1, width] of those [rows, values] of a request."""


def mean_of_rows(rows: torch.Tensor) -> torch.Tensor:
    """The pooling of models that name none of their own."""
    return rows.mean(0, keepdim=True)


@dataclass
class _Largest:
    """The largest error, and the largest value of the reference."""

    error: float = 0.0
    value: float = 0.0

    def add(self, expected: torch.Tensor, output: torch.Tensor) -> None:
        self.error = max(self.error, float((output - expected).abs().max()))
        self.value = max(self.value, float(expected.abs().max()))

    @property
    def share(self) -> float:
        return self.error / self.value if self.value else self.error


class AnswerDistance(Protocol):
    """One runner's distance from float32; `non_finite` answers or vectors hold values that are no numbers."""

    non_finite: int

    def add(self, expected: torch.Tensor, output: torch.Tensor) -> None:
        """`expected` and `output` [rows, values] of one request, float64: a row for each vector, or for each label."""

    @property
    def distances(self) -> list[list[float]]:
        """Distances in [0, 2] whose means may rise by the allowed loss, each request by request."""

    @property
    def errors(self) -> list[float]:
        """Largest errors over the largest value, which may rise by `largest_error` of the allowed loss."""


@dataclass
class ClassDistance:
    """The distance of answers with classes: by the most likely class, KL divergence in nats, and logits.

    All labels of a request, such as those of a text's tokens, are one answer: they depend on each other. The divergence
    of an answer that is not finite counts as 0; nothing with one is acceptable.
    """

    disagreed: list[float] = field(default_factory=list)
    kl: list[float] = field(default_factory=list)
    non_finite: int = 0
    _logit: _Largest = field(default_factory=_Largest)

    def add(self, expected: torch.Tensor, output: torch.Tensor) -> None:
        sound = output.isfinite().all(-1)
        self.non_finite += int(not sound.all())
        kl, disagreed = distances(expected.log_softmax(-1), output.log_softmax(-1))
        self.disagreed.append(float((disagreed | ~sound).double().mean()))
        self.kl.append(max(0.0, float(kl.mean())) if sound.all() else 0.0)
        if sound.all():
            self._logit.add(expected, output)

    @property
    def distances(self) -> list[list[float]]:
        return [self.disagreed]

    @property
    def errors(self) -> list[float]:
        return [self._logit.share]


@dataclass
class VectorDistance:
    """The distance of vectors: by the cosine distance and the largest error of the vector that `pool` makes of a
    request's, and of each token.

    The last `boxes` values of each vector are a box's coordinates, which are judged by their largest error alone.
    """

    boxes: int = 0
    pool: Pool = mean_of_rows
    pooled: list[float] = field(default_factory=list)
    token: list[float] = field(default_factory=list)
    non_finite: int = 0
    _pooled_value: _Largest = field(default_factory=_Largest)
    _token_value: _Largest = field(default_factory=_Largest)
    _coordinate: _Largest = field(default_factory=_Largest)

    def add(self, expected: torch.Tensor, output: torch.Tensor) -> None:
        non_finite = int((~output.isfinite().all(-1)).sum())
        self.non_finite += non_finite
        if non_finite:
            self.pooled.append(1.0)
            self.token.append(1.0)
            return
        if self.boxes:
            self._coordinate.add(expected[:, -self.boxes :], output[:, -self.boxes :])
            expected, output = expected[:, : -self.boxes], output[:, : -self.boxes]
        vectors = self.pool(expected), self.pool(output)
        self.pooled.append(float(cosine_distance(*vectors)))
        self.token.append(float(cosine_distance(expected, output).mean()))
        self._pooled_value.add(*vectors)
        self._token_value.add(expected, output)

    @property
    def distances(self) -> list[list[float]]:
        return [self.pooled, self.token]

    @property
    def errors(self) -> list[float]:
        return [self._pooled_value.share, self._token_value.share, *([self._coordinate.share] if self.boxes else [])]


def cosine_distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """1 − cos [n] of rows [n, width], as half the squared distance of their directions: exactly 0 for equal rows."""
    one, other = (torch.nn.functional.normalize(tensor, dim=-1) for tensor in (a, b))
    return (one - other).square().sum(-1) / 2


def distance_of(answer: AnswerKind, pool: Pool = mean_of_rows) -> AnswerDistance:
    """An empty distance between such answers."""
    return ClassDistance() if answer.form == "classes" else VectorDistance(answer.boxes, pool)


def rows_of(output: torch.Tensor) -> torch.Tensor:
    """[requests, rows, values] of an output; one of [requests, values] has one row a request."""
    return output.flatten(1, -2) if output.dim() > 2 else output.unsqueeze(1)
