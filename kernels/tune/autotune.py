"""Autotunes one case: which variants are offered, which pass the gate, how fast they are, which is chosen and why."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch

from kernels import registry
from kernels.hardware import Gpu
from kernels.measure.ceilings import measure_ceilings
from kernels.measure.roofline import burst_rates, exceeds_peak, floor_ms
from kernels.measure.timing import StoppingRule, Timer, Timing, host_us, time_interleaved, time_settled
from kernels.ops import Case
from kernels.proof import gate
from kernels.proof.kernel_names import borrowed_kernels_sentence, kernels_seen
from kernels.proof.reference_cache import ReferenceCache
from kernels.proof.timed_answers import JUDGED, ChangingInputs, TimedAnswers
from kernels.registry import Variant
from kernels.tune.choosing import choose, default_of, name_beside, torchs_own
from kernels.tune.trial import Trial

DEFAULT_AGAIN = "again"
"""The name under which the default is timed a second time: the A/A difference is the noise."""

FINALISTS = 2
"""Sets of a variant's params that race against the other variants, if the quick race does not separate them."""


@cache
def _ceilings_again(device: str) -> Mapping[str, Any]:
    """A second measurement of the ceilings. It takes seconds, so there is one for all cases of a process."""
    return measure_ceilings(device)


@dataclass
class TuningContext:
    """Where and how cases are tried."""

    device: torch.device
    gpu: Gpu
    ceilings: Mapping[str, Any] = field(default_factory=dict)
    """Measured rates, as in the document."""
    rule: StoppingRule = field(default_factory=StoppingRule)
    timer: Timer | None = None
    """Replaces the device's own."""
    only: frozenset[str] | None = None
    """The names of the variants to try; None: all."""
    proven: Mapping[str, gate.GateReport] = field(default_factory=dict)
    """Gate reports by trial id (`kernels.tune.ahead`)."""
    host: bool = False
    """Whether a trial also gets its `host_us`, the host's time in a call."""
    settled: bool = False
    """Whether a trial also gets its settled time."""
    on_trial: Callable[[Trial, float], None] = lambda trial, building: None
    """Called with the trial whose code is about to run, and the seconds that building it may take."""
    on_reference: Callable[[Case], None] = lambda case: None
    """Called with the case whose reference is about to be computed."""
    skip_reasons: Mapping[str, str] = field(default_factory=dict)
    """Sentences on why something is not tried: by trial id a trial, by case key all trials of the case."""
    remeasure_ceilings: Callable[[str], Mapping[str, Any]] = field(default=_ceilings_again)
    """Gives the ceilings measured again, where a time lies below its floor by `ceilings`."""


@dataclass
class _Runnable:
    trial: Trial
    answers: TimedAnswers

    @property
    def call(self) -> Callable[[], Any]:
        return self.answers.call


@dataclass
class _CaseProof:
    """What the variants of one case share: their references, and the inputs of each case that they are timed on."""

    device: torch.device
    end: float
    references: ReferenceCache = field(default_factory=ReferenceCache)
    inputs: dict[str, ChangingInputs] = field(default_factory=dict)

    def inputs_of(self, case: Case) -> ChangingInputs:
        if case.key not in self.inputs:
            self.inputs[case.key] = ChangingInputs(case, self.device)
        return self.inputs[case.key]


def try_case(
    context: TuningContext, case: Case, lossy_cases: Sequence[Case] = (), seconds: float = 30.0, forbidden: str = ""
) -> list[Trial]:
    """Every variant offered for the case, gated and timed side by side; the winner is flagged `chosen`.

    `lossy_cases` are the same op with the weights in a lower precision: their lossy variants compete as well, unless
    `forbidden` says in a sentence why they may not. Variants that take longer to build than `seconds` leaves are not
    tried, and say so.
    """
    proving = _CaseProof(context.device, time.monotonic() + seconds)
    trials: list[Trial] = []
    ready: list[_Runnable] = []
    for variant in registry.variants(case.op):
        if context.only is not None and variant.name not in context.only:
            continue
        mine = lossy_cases if variant.lossy and lossy_cases else (case,)
        served = [offered for offered in mine if variant.serves(offered, context.gpu) is None]
        if not served:
            refusal = variant.serves(mine[0], context.gpu)
            reason = refusal.reason if refusal else ""
            trials.append(Trial.of(case, variant, {}, reason))
        for served_case in served:
            for params in variant.space(served_case):
                trial = Trial.of(served_case, variant, params, forbidden)
                trials.append(trial)
                answers = None if variant.lossy and forbidden else _prove(context, variant, trial, proving)
                if answers is not None:
                    ready.append(_Runnable(trial, answers))
    finalists = _tune(context, ready)
    noise = _race(context, finalists, proving.end)
    _time_doubtful_again(context, ready, proving.end)
    _reject_wrong_answers(context, ready)
    choose([finalist.trial for finalist in finalists], noise)
    for trial in trials:
        if (doubt := trial.doubt) and doubt not in trial.reason:
            trial.reason = f"{trial.reason} {doubt}".strip()
    return trials


def _prove(context: TuningContext, variant: Variant, trial: Trial, proving: _CaseProof) -> TimedAnswers | None:
    """The variant's calls on random inputs if it passes the gate; else None, with the reason in the trial."""
    if reason := context.skip_reasons.get(trial.id) or context.skip_reasons.get(trial.case.key):
        trial.gate, trial.reason = "error", reason
        return None
    left, report = proving.end - time.monotonic(), context.proven.get(trial.id)
    too_late = left < variant.build_seconds if variant.build_seconds else (report is None and left <= 0)
    if too_late:
        limit = f"building may take {variant.build_seconds:.0f} s, more than" if variant.build_seconds else "no time"
        trial.late, trial.reason = True, f"Not tried: {limit} was left for this case."
        return None
    context.on_trial(trial, 2 * variant.build_seconds)
    if report is None:
        references = _notes_references(context, trial, proving.references)
        report, function = gate.prove(variant, trial.case, context.device, trial.params, references=references)
    else:
        function = variant.build(trial.case, trial.params) if report.passed else None
    trial.gate, trial.error, trial.error_limit = report.gate, report.error, report.limit
    trial.quantisation, trial.reason = report.quantisation, report.sentence
    if not report.passed or function is None:
        return None
    return TimedAnswers(variant, trial.params, function, proving.inputs_of(trial.case))


def _notes_references(context: TuningContext, trial: Trial, references: ReferenceCache) -> ReferenceCache:
    """The same references; computing one is noted as that, and what follows as the trial's own work again."""

    @contextmanager
    def noted() -> Iterator[None]:
        context.on_reference(trial.case)
        try:
            yield
        finally:
            context.on_trial(trial, 0.0)

    return references.computing_within(noted)


def _tune(context: TuningContext, ready: list[_Runnable]) -> list[_Runnable]:
    """Keeps each variant's best params for the case, and those that may be as good. Gives the others their distance."""
    groups: dict[tuple[str, str], list[_Runnable]] = {}
    for candidate in ready:
        groups.setdefault((candidate.trial.variant, candidate.trial.case.key), []).append(candidate)
    best = [candidate for group in groups.values() if len(group) == 1 for candidate in group]
    for group in (group for group in groups.values() if len(group) > 1):
        quick = StoppingRule(seconds=0.3, width=0.05, least=5, warmup_seconds=0.01)
        times = _time(context, {candidate.trial.id: candidate for candidate in group}, quick)
        group.sort(key=lambda candidate: times[candidate.trial.id].ms)
        first = group[0].trial
        for candidate in group:
            ratio = times[candidate.trial.id].ms / max(times[first.id].ms, 1e-12)
            candidate.trial.reason = f"{ratio:.2f}x slower than {name_beside(first, candidate.trial)}."
            _record_time(context, candidate.trial, times[candidate.trial.id])
        best += [candidate for candidate in group[:FINALISTS] if times[candidate.trial.id].low <= times[first.id].high]
    return best


def _race(context: TuningContext, ready: list[_Runnable], end: float) -> float:
    """Times the survivors side by side. Returns the noise: the share by which two runs of one variant differ."""
    if not ready:
        return 0.0
    default = default_of([candidate.trial for candidate in ready])
    racing = {candidate.trial.id: candidate for candidate in ready}
    racing[DEFAULT_AGAIN] = racing[default.id]
    times = _time(context, racing, _remaining_rule(context, end))
    for candidate in ready:
        context.on_trial(candidate.trial, 0.0)
        _record_time(context, candidate.trial, times[candidate.trial.id])
        candidate.trial.raced, candidate.trial.kernels = True, kernels_seen(candidate.call, context.device)
        candidate.trial.host_us = host_us(candidate.call, context.device) if context.host else None
        if context.settled and (timing := time_settled(candidate.call, context.device, context.timer)) is not None:
            candidate.trial.take_settled(timing, floor_ms(candidate.trial.case, context.ceilings))
    return abs(times[DEFAULT_AGAIN].ms / max(times[default.id].ms, 1e-12) - 1)


def _remaining_rule(context: TuningContext, end: float) -> StoppingRule:
    """The context's rule within the seconds that are left."""
    return replace(context.rule, seconds=max(0.2, min(context.rule.seconds, end - time.monotonic())))


def _time_doubtful_again(context: TuningContext, ready: list[_Runnable], end: float) -> None:
    """Measures times below their floors once more, and the ceilings: what is still in doubt is impossible, a floor that
    was too high is replaced. What torch runs by itself stays: nothing is claimed of it.
    """
    doubtful = [candidate for candidate in ready if candidate.trial.gate == "pass" and candidate.trial.doubt]
    if not doubtful:
        return
    again = context.remeasure_ceilings(context.device.type)
    times = _time(context, {candidate.trial.id: candidate for candidate in doubtful}, _remaining_rule(context, end))
    own = torchs_own([candidate.trial for candidate in ready if candidate.trial.gate == "pass"])
    for trial in (candidate.trial for candidate in doubtful):
        _record_time(context, trial, times[trial.id])
        if trial.gate != "pass" or not trial.doubt:
            continue
        trial.floor_ms = min(trial.floor_ms or 0.0, floor_ms(trial.case, burst_rates(again)) or float("inf"))
        if trial.doubt and trial is not own:
            trial.gate, trial.reason = "impossible", f"{trial.doubt} Both were measured twice."


def _record_time(context: TuningContext, trial: Trial, timing: Timing) -> None:
    """Stores the time. A time below what the chip can reach makes the trial impossible."""
    trial.take(timing, floor_ms(trial.case, burst_rates(context.ceilings)))
    if sentence := exceeds_peak(trial.case, timing.ms, context.gpu, context.ceilings):
        trial.gate, trial.reason = "impossible", sentence


def _reject_wrong_answers(context: TuningContext, ready: list[_Runnable]) -> None:
    """Fails what answered timed calls wrongly, lost params included, and what runs others' kernels as its own."""
    for judged in range(JUDGED):
        references = ReferenceCache()  # one of these at a time: each holds copies of its inputs
        for candidate in (candidate for candidate in ready if candidate.trial.gate == "pass"):
            refusal = candidate.answers.refusal(judged, _notes_references(context, candidate.trial, references))
            if not refusal and not candidate.trial.peer:
                refusal = borrowed_kernels_sentence(candidate.trial.kernels, registry.variant(candidate.trial.variant))
            if refusal:
                candidate.trial.gate, candidate.trial.reason = "fail", refusal


def _time(context: TuningContext, ready: Mapping[str, _Runnable], rule: StoppingRule) -> dict[str, Timing]:
    calls = {name: candidate.call for name, candidate in ready.items()}
    answers = {name: candidate.answers for name, candidate in ready.items()}
    with torch.no_grad():
        return time_interleaved(
            calls, context.device, rule, context.timer, answers, lambda name: context.on_trial(ready[name].trial, 0.0)
        )
