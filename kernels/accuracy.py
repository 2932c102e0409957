"""How anything is proven right: the gate that every variant passes before it is timed.

The error of an output is the larger of two: its largest absolute difference from the float64 reference, and the root
mean square of the difference. Each may be at most twice that of torch's own result in the same precision, plus a
rounding-sized term: `rounding` × the largest, or root mean square, reference value. NaN never passes.

A lossy variant (int8, fp8 weights) is held to the same rule against the reference of its *rounded* inputs
(`Variant.rounded`): the gate proves its arithmetic. What the rounding itself costs is reported beside it, as
`quantisation`: root mean square of rounded reference minus true reference over that of the true reference. Whether
that is acceptable is for the quality of the whole model to say, never for this gate.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kernels import inputs, reference, scaled
from kernels.in_place import rest_is_unchanged, written_slots
from kernels.ops import AttentionCase, Case, GroupedCase, LinearCase, LmHeadCase, RmsNormCase, StepAttentionCase
from kernels.poison import PoisonedEmpty, poison
from kernels.registry import Variant

Arguments = dict[str, Any]


@dataclass(frozen=True)
class GateReport:
    """The gate's answer. `error` and `limit` are those of the worst output, as shares of its largest value.

    `gate`: pass, fail (a wrong answer) or error (it could not be built or run).
    """

    passed: bool
    error: float | None
    limit: float | None
    sentence: str
    gate: str = "pass"
    quantisation: float | None = None


class Failed(Exception):
    """The variant broke a rule; the message is the sentence."""


@dataclass(frozen=True)
class _Margin:
    """One comparison: relative error, relative limit, and whether it holds."""

    error: float
    limit: float
    holds: bool

    @property
    def used(self) -> float:
        return self.error / self.limit if self.limit else math.inf


def check(
    variant: Variant, case: Case, device: torch.device | str, params: dict[str, Any] | None = None, seed: int = 0
) -> GateReport:
    """Puts the variant through the gate for one case: three magnitudes of inputs, ten calls in all."""
    return prove(variant, case, device, params, seed)[0]


def prove(
    variant: Variant, case: Case, device: torch.device | str, params: dict[str, Any] | None = None, seed: int = 0
) -> tuple[GateReport, Callable[..., Any] | None]:
    """The gate's report, and the very function that it is about (None when it could not be built)."""
    params, function = params or {}, None
    try:
        function = variant.build(case, params)
        gate = _Gate(variant, case, torch.device(device), params, function)
        with torch.no_grad():
            for position, kind in enumerate(inputs.KINDS):
                gate.fresh(kind, seed + position)
            gate.again(seed + 100)
    except Failed as failure:
        return GateReport(False, None, None, str(failure), "fail"), function
    except Exception as error:
        lines = str(error).strip().splitlines()
        said = lines[0][:200] if lines else "no message"
        return GateReport(False, None, None, f"It could not run: {type(error).__name__}: {said}", "error"), function
    return gate.report(), function


class _Gate:
    """The calls of one gate, and the worst margin they left."""

    def __init__(
        self, variant: Variant, case: Case, device: torch.device, params: dict[str, Any], function: Callable[..., Any]
    ) -> None:
        self.variant, self.case, self.device, self.params, self.function = variant, case, device, params, function
        self.worst: _Margin | None = None
        self.quantisation: float | None = None

    def fresh(self, kind: inputs.Kind, seed: int) -> None:
        """Calls on fresh inputs of one magnitude: memory poisoned beforehand, inputs compared afterwards."""
        drawn = inputs.draw(self.case, self.device, seed, kind)
        packed = pack(self.variant, self.case, self.params, drawn)
        expected = self._expect(drawn)
        before = {name: _copy(value) for name, value in packed.items()}
        with PoisonedEmpty():
            first = self._call(packed)
        changed = next((name for name, value in before.items() if not self._kept(name, value, packed)), None)
        if changed is not None:
            raise Failed(f"It changed its input {changed!r}.")
        self._compare(first, expected, f"on {kind} inputs")
        poison(expected.shapes, self.device)
        self._compare(self._call(packed), expected, f"on {kind} inputs, called a second time")

    def again(self, seed: int) -> None:
        """New inputs between two equal calls, the same tensors with new contents, and a second stream."""
        drawn, other = (inputs.draw(self.case, self.device, seed + each) for each in (0, 1))
        packed = pack(self.variant, self.case, self.params, drawn)
        expected_other = self._expect(other)
        first = self._call(packed)
        kept = tuple(each.clone() for each in first)
        second = self._call(pack(self.variant, self.case, self.params, other))
        if _stale(second, kept, expected_other):
            raise Failed("It returned an earlier answer for new inputs.")
        self._compare(second, expected_other, "on new inputs")
        if not all(_same(one, two) for one, two in zip(first, kept, strict=True)):
            raise Failed("Its first answer changed when it was called again: the calls share one output buffer.")
        _overwrite(packed, pack(self.variant, self.case, self.params, other))
        third = self._call(packed)
        if _stale(third, kept, expected_other):
            raise Failed("It returned an earlier answer when its input tensors held new values.")
        self._compare(third, expected_other, "on input tensors with new contents")
        self._compare(self._on_second_stream(packed), expected_other, "on a second stream")

    def report(self) -> GateReport:
        if self.worst is None:
            return GateReport(True, 0.0, 0.0, "The case is empty: only shapes were compared.")
        sentence = f"Error {self.worst.error:.2e} of the largest value, limit {self.worst.limit:.2e}."
        if self.quantisation is not None:
            sentence += f" Rounding its inputs alone changes the result by {self.quantisation:.2%}."
        return GateReport(True, self.worst.error, self.worst.limit, sentence, quantisation=self.quantisation)

    def _kept(self, name: str, before: Any, packed: Arguments) -> bool:
        return _same(before, packed[name]) or rest_is_unchanged(self.case, name, before, packed)

    def _call(self, packed: Arguments) -> reference.Outputs:
        answer = self.function(**packed)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        outputs = answer if isinstance(answer, tuple) else (answer,)
        return *self._multiplied_out(outputs), *written_slots(self.case, packed)

    def _multiplied_out(self, outputs: reference.Outputs) -> reference.Outputs:
        """Quantised values times their scales, and the outputs after them."""
        if isinstance(self.case, LinearCase) and self.case.epilogue == "quantise" and len(outputs) == 2:
            return (reference.multiplied_out(*outputs),)
        if isinstance(self.case, RmsNormCase) and self.case.quantise:
            values, scale, *rest = outputs
            if values.dtype != torch.float8_e4m3fn:
                raise Failed(f"Its values are {values.dtype} where the op quantises to float8_e4m3fn.")
            return (values.float() * scale, *rest)
        return outputs

    def _on_second_stream(self, packed: Arguments) -> reference.Outputs:
        if self.device.type != "cuda":
            return self._call(packed)
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            return self._call(packed)

    def _expect(self, drawn: Arguments) -> "_Expected":
        used = self.variant.rounded(self.case, self.params, drawn)
        truth = reference.compute(self.case, used)
        if used is not drawn:
            true = reference.compute(self.case, drawn)[0]
            self.quantisation = max(self.quantisation or 0.0, _rms(truth[0] - true) / max(_rms(true), 1e-300))
        own = reference.native(self.case, {name: used[name].to(drawn[name].dtype) for name in drawn})
        if isinstance(self.case, LmHeadCase):
            logits = reference.logits(used["x"].double(), used["w"].double())
            if self.case.sampling == "argmax":
                return _ExpectedIds(truth, own, rounding(self.case, drawn), logits)
            settings = {name: drawn[name] for name in ("temperature", "top_p", "seed")}
            return _ExpectedDraws(truth, own, rounding(self.case, drawn), logits, settings)
        return _Expected(truth, own, rounding(self.case, drawn))

    def _compare(self, outputs: reference.Outputs, expected: "_Expected", when: str) -> None:
        if len(outputs) != len(expected.truth):
            raise Failed(f"It returned {len(outputs)} outputs where the op has {len(expected.truth)}.")
        for position, output in enumerate(outputs):
            for margin in expected.margins(position, output, when):
                if not margin.holds:
                    raise Failed(
                        f"Its error {when} is {margin.error:.2e} of the largest value; the limit is {margin.limit:.2e} "
                        "(twice torch's own plus rounding)."
                    )
                if self.worst is None or margin.used > self.worst.used:
                    self.worst = margin


@dataclass
class _Expected:
    """The float64 truth and torch's own answer for one call."""

    truth: reference.Outputs
    own: reference.Outputs
    rounding: float

    @property
    def shapes(self) -> list[tuple[torch.Size, torch.dtype]]:
        return [(each.shape, each.dtype) for each in self.own]

    def margins(self, position: int, output: torch.Tensor, when: str) -> list[_Margin]:
        truth, own = self.truth[position], self.own[position]
        if output.shape != truth.shape:
            raise Failed(f"It returned shape {list(output.shape)} where the op has {list(truth.shape)}.")
        if output.numel() == 0:
            return []
        missing = int((~torch.isfinite(output)).sum())
        if missing:
            raise Failed(
                f"{missing} of {output.numel()} values {when} are NaN or infinite: wrong, or never written "
                "(the output's memory was filled with NaN beforehand)."
            )
        difference, torchs = output.double() - truth, own.double() - truth
        largest, spread = float(truth.abs().max()), _rms(truth)
        found = [
            (float(difference.abs().max()), 2 * float(torchs.abs().max()) + self.rounding * largest),
            (_rms(difference), 2 * _rms(torchs) + self.rounding * spread),
        ]
        scale = max(largest, 1e-300)
        return [_Margin(error / scale, limit / scale, error <= limit) for error, limit in found]


@dataclass
class _ExpectedIds(_Expected):
    """Next tokens: the error is how far the chosen logit lies below the best one."""

    logits: torch.Tensor

    def margins(self, position: int, output: torch.Tensor, when: str) -> list[_Margin]:
        truth, own = self.truth[position], self.own[position]
        if output.shape != truth.shape:
            raise Failed(f"It returned shape {list(output.shape)} where the op has {list(truth.shape)}.")
        if output.numel() == 0:
            return []
        if bool(((output < 0) | (output >= self.logits.shape[1])).any()):
            raise Failed(f"It returned a token {when} that is not in the vocabulary, or was never written.")
        best, scale = self.logits.max(dim=-1).values, float(self.logits.abs().max())
        short, torchs = (
            float((best - self.logits.gather(1, ids.long()[:, None])[:, 0]).max()) / max(scale, 1e-300)
            for ids in (output, own)
        )
        limit = 2 * torchs + self.rounding
        return [_Margin(short, limit, short <= limit)]


@dataclass
class _ExpectedDraws(_Expected):
    """Drawn tokens: the error is how far the number that decided lies outside of the chosen token's share.

    A token that is not among those kept has its share at the end. The limit is twice torch's own error plus what
    float32 rounding of the logits does to a probability.
    """

    logits: torch.Tensor
    settings: dict[str, torch.Tensor]

    def margins(self, position: int, output: torch.Tensor, when: str) -> list[_Margin]:
        truth, own = self.truth[position], self.own[position]
        if output.shape != truth.shape:
            raise Failed(f"It returned shape {list(output.shape)} where the op has {list(truth.shape)}.")
        if output.numel() == 0:
            return []
        order, until, wanted = reference.distribution(self.logits, top_k=reference.TOP_K, **self.settings)
        off, torchs = (float(_outside(ids, order, until, wanted).max()) for ids in (output, own))
        heat = self.settings["temperature"]
        coldest = float(heat[heat > 0].min()) if bool((heat > 0).any()) else 1.0
        single = torch.finfo(torch.float32).eps * math.sqrt(self.logits.shape[1])
        limit = 2 * torchs + single * max(1.0, float(self.logits.abs().max()) / coldest)
        return [_Margin(off, limit, off <= limit)]


def _outside(ids: torch.Tensor, order: torch.Tensor, until: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Of each row, how far `wanted` lies outside of the share of its id (1 at the end where it has none)."""
    before = torch.cat([torch.zeros_like(until[:, :1]), until[:, :-1]], dim=1)
    found = order == ids.long()[:, None]
    low = torch.where(found, before, torch.zeros_like(before)).sum(dim=1)
    high = torch.where(found, until, torch.zeros_like(until)).sum(dim=1)
    missing = ~found.any(dim=1)
    low, high = low + missing.double(), high + missing.double()
    return (low - wanted).clamp_min(0) + (wanted - high).clamp_min(0)


def pack(variant: Variant, case: Case, params: dict[str, Any], arguments: Arguments) -> Arguments:
    """The arguments with the weight of a product in the variant's own form, and x in e4m3 for `scales`."""
    if case.op not in ("linear", "grouped", "lm_head"):
        return arguments
    if isinstance(case, LinearCase) and case.scales:
        arguments = arguments | {"x": scaled.of_x(arguments["x"], case.scales)}
    return arguments | {"w": variant.pack(case, params, arguments["w"])}


def rounding(case: Case, arguments: Arguments) -> float:
    """The relative error that rounding alone may leave: half the epsilon of the case's dtype, or, where that is
    smaller, the random walk of a float32 sum over the longest reduction of the case, epsilon·√length.
    """
    match case:
        case LinearCase() | GroupedCase() | LmHeadCase():
            length = case.k
        case AttentionCase() | StepAttentionCase():
            length = max(case.head_dim, case.kv_len)
        case RmsNormCase():
            length = case.n
        case _:
            length = 1
    dtype = next(iter(arguments.values())).dtype
    return max(torch.finfo(dtype).eps / 2, torch.finfo(torch.float32).eps * math.sqrt(length))


def _rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())


def _stale(outputs: reference.Outputs, earlier: reference.Outputs, expected: _Expected) -> bool:
    """Whether the outputs are an earlier call's although the right answers differ."""
    same = all(_same(one, two) for one, two in zip(outputs, earlier, strict=True))
    return same and not all(_same(one, two) for one, two in zip(earlier, expected.own, strict=True))


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    return tuple(_copy(each) for each in value) if isinstance(value, tuple | list) else value


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes, so that NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.shape == two.shape and one.dtype == two.dtype and torch.equal(_bits(one), _bits(two))
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(_same(a, b) for a, b in zip(one, two, strict=True))
    return True


def _overwrite(target: Arguments, source: Arguments) -> None:
    """Copies the values of one call's arguments into the tensors of another's."""
    for name, value in source.items():
        _write(target[name], value)


def _write(target: Any, value: Any) -> None:
    if isinstance(target, torch.Tensor):
        target.copy_(value)
    elif isinstance(target, tuple | list):
        for one, two in zip(target, value, strict=True):
            _write(one, two)
    else:
        raise Failed("It packs its weight into something other than tensors, which the gate cannot check.")
