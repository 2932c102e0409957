"""Inputs whose values change while variants are timed, and the answers of timed calls, compared afterwards.

The gate runs before anything is timed. A variant may compute there, then recognise its inputs while it is timed, by
address, by version or by the number of calls, and return what it has computed before. So the values of another draw are
written into a call's tensors before each timed call. Of each draw one answer, chosen at random, is compared with the
reference.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from kernels.ops.base import Arguments, BaseCase, Outputs
from kernels.ops.oracle import Failed
from kernels.proof import gate, inputs
from kernels.proof.calls import copied_outputs, first_line, outputs_of, overwrite, spoil
from kernels.proof.reference_cache import ReferenceCache, copied
from kernels.registry import Variant

SEEDS = (7, 8)
"""Seeds of the inputs. Timed calls read the values of the first and the second alternately."""
SLACK = 4.0
"""An error may be this many times what the gate allows. It is made for fixed draws; the answer to other inputs is off
by far more."""


class ChangingInputs:
    """The arguments of one case for all its variants; `change` writes the values of another draw into them.

    The case's `constant` arguments keep those of the first draw.
    """

    def __init__(self, case: BaseCase, device: torch.device) -> None:
        self.case, self.device, self.draw = case, device, 0
        first = inputs.draw(case, device, SEEDS[0])
        self._constant = {name: first[name] for name in case.constant if name in first}
        others = (inputs.draw(case, device, seed) for seed in SEEDS[1:])
        self._draws = [self._changing(each) for each in (first, *others)]
        self._tensors = {name: copied(value) for name, value in self._draws[0].items()}
        self._random = random.Random()

    def _changing(self, drawn: Arguments) -> Arguments:
        return {name: value for name, value in self.case.passed(drawn).items() if name not in self.case.constant}

    def arguments(self, variant: Variant, params: dict[str, Any]) -> Arguments:
        """The arguments of the variant's calls: tensors that all variants share, and its own packed weight."""
        packed = {"w": variant.pack(self.case, params, self._constant["w"])} if self.case.packs_weight else {}
        return self._tensors | self._constant | packed

    def change(self, certainly: bool) -> None:
        """Writes the values of a draw chosen at random, or `certainly` of another one than now."""
        others = [each for each in range(len(SEEDS)) if each != self.draw]
        self.draw = self._random.choice(others if certainly else range(len(SEEDS)))
        for name, value in self._draws[self.draw].items():
            overwrite(self._tensors[name], value)

    def drawn(self, draw: int) -> Arguments:
        """The arguments of a draw as the reference takes them."""
        return inputs.draw(self.case, self.device, SEEDS[draw]) | self._constant


class TimedAnswers:
    """A `kernels.measure.timing.Watch` of one variant: it keeps an answer to each draw, chosen at random."""

    def __init__(self, variant: Variant, params: dict[str, Any], function: Callable[..., Any], on: ChangingInputs):
        self._variant, self._params, self._inputs = variant, params, on
        self._arguments = on.arguments(variant, params)
        self.call: Callable[[], Any] = partial(function, **self._arguments)
        """What is timed."""
        self._seen = [0] * len(SEEDS)
        self._kept: dict[int, Outputs] = {}
        self._unreadable = ""
        self._random = random.Random()

    def before(self) -> None:
        """Changes the values of the inputs; the first calls meet every draw."""
        self._inputs.change(certainly=0 in self._seen)

    def after(self, answer: Any) -> None:
        """Keeps the answer with probability 1 / n, n being the answers to this draw so far (reservoir sampling).

        Spoils its memory then: the next call may get it, and would be right unfinished.
        """
        draw = self._inputs.draw
        self._seen[draw] += 1
        if self._random.randrange(self._seen[draw]) == 0:
            try:
                self._kept[draw] = copied_outputs(outputs_of(self._inputs.case, self._arguments, answer))
            except Exception as error:  # a variant may answer anything
                self._unreadable = first_line(error)
        spoil(answer)

    @torch.no_grad()
    def refusal(self, references: ReferenceCache) -> str:
        """Why the timed calls do not count, in a sentence; "" where the kept answers are right."""
        if self._unreadable:
            return f"A timed call gave no answer that can be read: {self._unreadable}"
        case = self._inputs.case
        for draw, outputs in self._kept.items():
            drawn = self._inputs.drawn(draw)
            expected, _ = gate.expect(self._variant, case, self._params, drawn, ("timed", draw), references)
            try:
                found = list(expected.compare_all(outputs, "while timed"))
            except Failed as failure:
                return f"Its timed calls give other answers than the gate saw. {failure}"
            worst = max(found, key=lambda each: each.used, default=None)
            if worst is not None and not worst.error <= SLACK * worst.limit:
                return (
                    "Its timed calls give other answers than the gate saw, as if it remembered earlier ones: "
                    f"error {worst.error:.2e} of the largest value, where {worst.limit:.2e} passes the gate."
                )
        return ""
