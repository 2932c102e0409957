"""The accuracy gate: every variant must pass it before it is timed.

The gate compares each output with the float64 reference. It takes two errors: the largest absolute difference, and the
root mean square of the difference. Each may be at most twice that of torch's own result in the same precision, plus
`rounding` × the largest, or root mean square, reference value. NaN never passes.

A lossy variant (int8, fp8 weights) is compared in the same way with the reference of its *rounded* inputs
(`Variant.rounded`): the gate proves its arithmetic. The cost of the rounding is reported beside it, as `quantisation`:
root mean square of (rounded reference − true reference) over root mean square of the true reference. The quality gate
of the whole model decides whether that cost is acceptable; this gate never does.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kernels.ops.base import Arguments, BaseCase, Outputs
from kernels.ops.oracle import ErrorComparison, Failed, Oracle, rms
from kernels.ops.reference import compute, rounding
from kernels.proof import inputs
from kernels.proof.calls import copy_outputs, first_line, hold, outputs_of, overwrite, rest_is_unchanged, wait
from kernels.proof.reference_cache import ReferenceAnswer, ReferenceCache, copy_tensors, same
from kernels.proof.verdict import Gate
from kernels.registry import Variant


@dataclass(frozen=True)
class GateReport:
    """The gate's answer: pass, fail (wrong) or error (not built or run); the worst output's `error` and `limit`."""

    passed: bool
    error: float | None
    limit: float | None
    sentence: str
    gate: Gate = "pass"
    quantisation: float | None = None


def check(
    variant: Variant,
    case: BaseCase,
    device: torch.device | str,
    params: dict[str, Any] | None = None,
    seed: int = 0,
    references: ReferenceCache | None = None,
) -> GateReport:
    """Puts a variant through the gate: three magnitudes, ten calls. `references` caches oracles for others."""
    return prove(variant, case, device, params, seed, references)[0]


def prove(
    variant: Variant,
    case: BaseCase,
    device: torch.device | str,
    params: dict[str, Any] | None = None,
    seed: int = 0,
    references: ReferenceCache | None = None,
) -> tuple[GateReport, Callable[..., Any] | None]:
    """The gate's report, and the function that it judges (None when it could not be built)."""
    params, function = params or {}, None
    try:
        function = variant.build(case, params)
        gate = _Gate(variant, case, torch.device(device), params, function, references or ReferenceCache())
        with torch.no_grad():
            for position, kind in enumerate(inputs.KINDS):
                gate.fresh(kind, seed + position)
            gate.again(seed + 100)
    except Failed as failure:
        return GateReport(False, None, None, str(failure), "fail"), function
    except Exception as error:
        return GateReport(False, None, None, f"It could not run: {first_line(error)}", "error"), function
    return gate.report(), function


class _Gate:
    """The calls of one gate, and the comparison among them that took the largest share of its limit."""

    def __init__(
        self,
        variant: Variant,
        case: BaseCase,
        device: torch.device,
        params: dict[str, Any],
        function: Callable[..., Any],
        references: ReferenceCache,
    ) -> None:
        self.variant, self.case, self.device, self.params, self.function = variant, case, device, params, function
        self.references = references
        self.worst: ErrorComparison | None = None
        self.quantisation: float | None = None

    def fresh(self, kind: inputs.Magnitude, seed: int) -> None:
        """Calls on fresh inputs of one magnitude, with poisoned memory; compares the inputs before and after."""
        drawn = inputs.draw(self.case, self.device, seed, kind)
        packed = pack(self.variant, self.case, self.params, drawn)
        expected = self._expect(drawn, (kind, seed))
        before = {name: copy_tensors(value) for name, value in packed.items()}
        with PoisonedEmpty():
            _, first = self._call(packed)
        changed = next((name for name, value in before.items() if not self._kept(name, value, packed)), None)
        if changed is not None:
            raise Failed(f"It changed its input {changed!r}.")
        self._compare(first, expected, f"on {kind} inputs")
        poison(expected.shapes, self.device)
        self._compare(self._call(packed)[1], expected, f"on {kind} inputs, called a second time")

    def again(self, seed: int) -> None:
        """Checks a repeated call after new inputs, the same tensors with new contents, and a second stream."""
        drawn, other = (inputs.draw(self.case, self.device, seed + offset) for offset in (0, 1))
        packed = pack(self.variant, self.case, self.params, drawn)
        expected_other = self._expect(other, ("normal", seed + 1))
        first, kept = self._call(packed)
        _, second = self._call(pack(self.variant, self.case, self.params, other))
        if _stale(second, kept, expected_other):
            raise Failed("It returned an earlier answer for new inputs.")
        self._compare(second, expected_other, "on new inputs")
        if not all(same(one, two) for one, two in zip(first, kept, strict=True)):
            raise Failed("Its first answer changed when it was called again: the calls share one output buffer.")
        _, third = self._call(packed, pack(self.variant, self.case, self.params, other))
        if _stale(third, kept, expected_other):
            raise Failed("It returned an earlier answer when its input tensors held new values.")
        self._compare(third, expected_other, "on input tensors with new contents")
        self._compare(self._on_second_stream(packed), expected_other, "on a second stream")

    def report(self) -> GateReport:
        if self.worst is None:
            return GateReport(True, 0.0, 0.0, "The case is empty: only shapes were compared.")
        sentence = f"Error {self.worst.error:.2e} of the largest value, limit {self.worst.limit:.2e}."
        if self.quantisation is not None:
            sentence += f" Rounding its inputs alone changes the result by {100 * self.quantisation:.2f} %."
        return GateReport(True, self.worst.error, self.worst.limit, sentence, quantisation=self.quantisation)

    def _kept(self, name: str, before: Any, packed: Arguments) -> bool:
        return same(before, packed[name]) or rest_is_unchanged(self.case, name, before, packed)

    def _call(self, packed: Arguments, values: Arguments | None = None) -> tuple[Outputs, Outputs]:
        """A call's outputs, and copies as soon as its stream has it done; `values` go into its tensors before."""
        hold(self.device)
        for name, value in (values or {}).items():
            overwrite(packed[name], value)
        outputs = outputs_of(self.case, packed, self.function(**packed))
        answers = outputs, copy_outputs(outputs)
        wait(self.device)
        return answers

    def _on_second_stream(self, packed: Arguments) -> Outputs:
        if self.device.type != "cuda":
            return self._call(packed)[1]
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            _, outputs = self._call(packed)
        torch.cuda.current_stream(self.device).wait_stream(stream)  # the scales were multiplied in on that stream
        return outputs

    def _expect(self, drawn: Arguments, draw: tuple[inputs.Magnitude, int]) -> Oracle:
        expected, rounded = expect(self.variant, self.case, self.params, drawn, draw, self.references)
        if rounded is not None:
            self.quantisation = max(self.quantisation or 0.0, rounded)
        return expected

    def _compare(self, outputs: Outputs, expected: Oracle, when: str) -> None:
        for comparison in expected.compare_all(outputs, when):
            if not comparison.holds:
                raise Failed(
                    f"Its error {when} is {comparison.error:.2e} of the largest value; "
                    f"the limit is {comparison.limit:.2e} (twice torch's own plus rounding)."
                )
            if self.worst is None or comparison.used > self.worst.used:
                self.worst = comparison


def expect(
    variant: Variant,
    case: BaseCase,
    params: dict[str, Any],
    drawn: Arguments,
    draw: tuple[str, int],
    references: ReferenceCache,
) -> ReferenceAnswer:
    """The oracle of `drawn` inputs as the variant rounds them, and the rounding's own change. `draw`: kind, seed."""
    used = variant.rounded(case, params, drawn)

    def answer() -> ReferenceAnswer:
        own = case.native({name: used[name].to(drawn[name].dtype) for name in drawn})
        rounded = None if used is drawn else _rounding_alone(case, used, drawn)
        return case.oracle(compute(case, used), own, rounding(case, drawn), used, drawn), rounded

    return references.of((case.key, *draw), used, answer)


def _rounding_alone(case: BaseCase, used: Arguments, drawn: Arguments) -> float:
    """The relative change of the result (LM head: of logits) between `drawn` inputs and rounded `used` ones."""
    rounded, true = (case.continuous(tensors) for tensors in (used, drawn))
    return rms(rounded - true) / max(rms(true), 1e-300)


def pack(variant: Variant, case: BaseCase, params: dict[str, Any], arguments: Arguments) -> Arguments:
    """The arguments with the weight of a product in the variant's own form, and x in e4m3 for `scales`."""
    if not case.packs_weight:
        return arguments
    arguments = case.passed(arguments)
    return arguments | {"w": variant.pack(case, params, arguments["w"])}


def _stale(outputs: Outputs, earlier: Outputs, expected: Oracle) -> bool:
    """Whether the outputs equal those of an earlier call although the right answers differ."""
    stayed = all(same(one, two) for one, two in zip(outputs, earlier, strict=True))
    return stayed and not all(same(one, two) for one, two in zip(earlier, expected.own, strict=True))


def poison(shapes: list[tuple[torch.Size, torch.dtype]], device: torch.device, copies: int = 4) -> None:
    """Leaves freed blocks of the outputs' sizes full of NaN bytes, so that the allocator returns them next."""
    blocks = []
    for shape, dtype in shapes:
        size = max(1, shape.numel()) * dtype.itemsize
        blocks += [torch.full((size,), 0xFF, dtype=torch.uint8, device=device) for _ in range(copies)]
    del blocks


class PoisonedEmpty:
    """A context in which torch.empty and its relatives, replaced by name, return NaN (-1 for integers). A dispatch mode
    would stop Dynamo for good from compiling what is called under it.
    """

    _NAMES = ((torch, ("empty", "empty_like", "empty_strided")), (torch.Tensor, ("new_empty", "new_empty_strided")))

    def __enter__(self) -> None:
        self._originals = [(owner, name, getattr(owner, name)) for owner, names in self._NAMES for name in names]
        for owner, name, original in self._originals:
            setattr(owner, name, _poisoned(original))

    def __exit__(self, *_: object) -> None:
        for owner, name, original in self._originals:
            setattr(owner, name, original)


def _poisoned(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(original)
    def made(*arguments: Any, **keywords: Any) -> torch.Tensor:
        tensor = original(*arguments, **keywords)
        return tensor.fill_(math.nan if tensor.is_floating_point() else -1)

    return made
