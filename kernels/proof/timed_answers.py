"""Inputs whose values change while variants are timed, and the answers of timed calls, compared afterwards.

The gate runs before anything is timed. A variant may compute there, then recognise its inputs while it is timed, by
address, by version, by the number of calls or by some of their values, and return what it has computed before. So no
timed call has the values of another one: each gets those of one of two draws under random signs. The answers to KEPT
of them, which come at random moments, are compared with the reference.
"""

import random
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from kernels.ops.base import Arguments, BaseCase, Outputs
from kernels.ops.oracle import Failed
from kernels.proof import gate, inputs
from kernels.proof.calls import copy_outputs, first_line, outputs_of, overwrite, poison_answer
from kernels.proof.reference_cache import ReferenceCache, copy_tensors
from kernels.registry import Variant

SEEDS = (7, 8)
"""Seeds of the two draws."""
JUDGED = 16
"""Inputs whose answers may be compared, the same for all variants of a case, so that they share the references. Each
variant meets each of them once at most, at a moment drawn by chance."""
KEPT = 2
"""Answers of each variant that are compared."""
SLACK = 4.0
"""An error may be so many times the gate's limit for fixed draws. The answer to other inputs is far off."""


class ChangingInputs:
    """The arguments of one case for all its variants: `prepare` makes the next call's values, `write` writes them. Rows
    and columns of one draw get random signs, if their values have both; `constant` arguments stay.
    """

    def __init__(self, case: BaseCase, device: torch.device) -> None:
        self.case, self.device = case, device
        first, *others = (inputs.draw(case, device, seed) for seed in SEEDS)
        self._constant = {name: first[name] for name in case.constant if name in first}
        self._draws = [{name: draw[name] for name in draw if name not in case.constant} for draw in (first, *others)]
        self._signed = [name for name, value in self._draws[0].items() if _is_random(value, self._draws[1][name])]
        self._judged = [(number % len(SEEDS), secrets.randbits(62)) for number in range(JUDGED)]
        self._signs = torch.Generator(device)
        self._random = random.Random()
        self._next = self._passed(self._made(self._judged[0]))
        self._tensors = {name: copy_tensors(value) for name, value in self._next.items()}
        self._drawn: tuple[int, Arguments] | None = None

    def arguments(self, variant: Variant, params: dict[str, Any]) -> Arguments:
        """The arguments of the variant's calls: tensors that all variants share, and its own packed weight."""
        packed = {"w": variant.pack(self.case, params, self._constant["w"])} if self.case.packs_weight else {}
        return self._tensors | self._constant | packed

    def prepare(self, judged: int | None = None) -> None:
        """Makes the values of the next call: those of the `judged` input of that number, otherwise new ones."""
        fresh = self._random.randrange(len(SEEDS)), self._random.getrandbits(62)
        self._next = self._passed(self._made(fresh if judged is None else self._judged[judged]))

    def write(self) -> None:
        """Writes the values into the tensors."""
        values, self._next = self._next, {}
        for name, value in values.items():
            overwrite(self._tensors[name], value)

    def drawn(self, judged: int) -> Arguments:
        """The arguments of a judged input as the reference takes them; the last ones are kept."""
        if self._drawn is None or self._drawn[0] != judged:
            self._drawn = judged, self._made(self._judged[judged]) | self._constant
        return self._drawn[1]

    def _made(self, made_of: tuple[int, int]) -> Arguments:
        """The changing arguments of a draw under the signs of a seed."""
        draw, seed = made_of
        self._signs.manual_seed(seed)
        return {
            name: self._with_signs(value) if name in self._signed else value
            for name, value in self._draws[draw].items()
        }

    def _with_signs(self, value: torch.Tensor) -> torch.Tensor:
        """The tensor with a random sign for each row and for each column, its last dimension."""
        rows, columns = (self._flips(*value.shape[:-1], 1), self._flips(value.shape[-1]))
        if value.dtype.itemsize == 1:  # fp8, which torch does not multiply
            return (value.view(torch.uint8) ^ ((rows ^ columns).to(torch.uint8) << 7)).view(value.dtype)
        return value * (1 - 2 * rows.to(value.dtype)) * (1 - 2 * columns.to(value.dtype))

    def _flips(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=self._signs, device=self.device) < 0.5

    def _passed(self, drawn: Arguments) -> Arguments:
        passed = self.case.passed(drawn)
        return {name: value for name, value in passed.items() if name not in self.case.constant}


def _is_random(one: Any, other: Any) -> bool:
    """Whether an argument is a tensor of floats of both signs that are not the same in two draws."""
    if not isinstance(one, torch.Tensor) or not one.is_floating_point() or not one.dim():
        return False
    first, second = one.float(), other.float()
    return bool((first != second).any()) and bool((first < 0).any()) and bool((first > 0).any())


class TimedAnswers:
    """A `kernels.measure.timing.Watch` that keeps a random KEPT of a variant's answers: it cannot know which."""

    def __init__(self, variant: Variant, params: dict[str, Any], function: Callable[..., Any], on: ChangingInputs):
        self._variant, self._params, self._inputs = variant, params, on
        self._arguments = on.arguments(variant, params)
        self.call: Callable[[], Any] = partial(function, **self._arguments)
        """What is timed."""
        self._random = random.Random()
        self._calls = self._place = 0
        self._met, self._keeps = 0, False
        """The number of judged inputs so far, and whether the answer to the last one is to be kept."""
        self._kept: dict[int, tuple[int, Outputs]] = {}
        self._unreadable = ""

    def prepare(self) -> None:
        """Makes the inputs of the next call: new ones, or with probability KEPT / calls the next judged input."""
        self._place = self._calls if self._calls < KEPT else self._random.randrange(self._calls + 1)
        self._calls += 1
        self._keeps = self._place < KEPT and self._met < JUDGED
        self._inputs.prepare(self._met if self._keeps else None)
        self._met += self._keeps

    def before(self) -> None:
        """Writes the inputs of the next call."""
        self._inputs.write()

    def after(self, answer: Any) -> None:
        """Keeps the answer to a judged input.

        Spoils the answer's memory: the next call may get it, and would be right unfinished.
        """
        if self._keeps:
            try:
                outputs = copy_outputs(outputs_of(self._inputs.case, self._arguments, answer))
                self._kept[self._place] = self._met - 1, outputs
            except Exception as error:  # a variant may answer anything
                self._unreadable = first_line(error)
        poison_answer(answer)

    @torch.no_grad()
    def refusal(self, judged: int, references: ReferenceCache) -> str:
        """Why the timed calls do not count, by the answers to one judged input, in a sentence; "" where they count."""
        if self._unreadable:
            return f"A timed call gave no answer that can be read: {self._unreadable}"
        case = self._inputs.case
        for outputs in (outputs for number, outputs in self._kept.values() if number == judged):
            drawn = self._inputs.drawn(judged)
            expected, _ = gate.expect(self._variant, case, self._params, drawn, ("timed", judged), references)
            try:
                comparisons = list(expected.compare_all(outputs, "while timed"))
            except Failed as failure:
                return f"Its timed calls give other answers than the gate saw. {failure}"
            worst = max(comparisons, key=lambda comparison: comparison.used, default=None)
            if worst is not None and not worst.error <= SLACK * worst.limit:
                return (
                    "Its timed calls give other answers than the gate saw, as if it remembered earlier ones: "
                    f"error {worst.error:.2e} of the largest value, where {worst.limit:.2e} passes the gate."
                )
        return ""
