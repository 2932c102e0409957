"""One whole-model plan, tried quickly: built, compared with the model as it is served today, and measured."""

import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from kernels import runners
from kernels.measure.latency import pool_samples
from kernels.model.inputs import random_input
from kernels.model.loading import answer_of, kind_of
from kernels.model_files import AnswerKind
from kernels.plan import Plan
from kernels.proof import logit_gate
from kernels.runners import Runner
from kernels.runners.clients import Clients
from kernels.runners.eager import Float32Runner
from workers.cost.pricing import hourly_price
from workers.documents.base import Verdict
from workers.documents.measurement import Interval
from workers.documents.stages import PlanTrial, StageInput
from workers.harness.context import Context
from workers.harness.time_limit import TimeLimitExceeded, time_limit
from workers.measuring import quality, texts
from workers.measuring.allowed_rises import Tolerances, allowed_rises
from workers.measuring.answer_distance import ClassDistance, distance_of, rows_of
from workers.measuring.served_model import prepared, vocabulary
from workers.planning import summaries
from workers.planning.precision import rounding_of
from workers.planning.served_checks import judge_served
from workers.stats.intervals import independent_spacing, thinned_median_interval, tokens_per_second
from workers.stats.sample_sizes import needed_batches, verdicts
from workers.stats.verdicts import overall
from workers.wording.errors import error_sentence
from workers.wording.stages import NOT_MEASURED
from workers.wording.text import percent

MIN_ROUNDS, ENOUGH_ROUNDS, MAX_ROUNDS = 3, 5, 50
"""Rounds of a trial; more than MAX_ROUNDS only where a promised percentile takes more requests to be proven."""
MEASURE_SECONDS = 4.0
"""About how long compose measures one plan."""
OVERRUN_SECONDS = 20.0
"""Seconds by which a build that was begun in time may exceed the stage's, once there is an alternative to compare."""
JUDGED_BATCHES = 2
"""Timed batches of a trial whose ids are judged; verify judges more."""
TOKENS = AnswerKind("tokens", "tokens")
PROBE_STEPS = 8
"""Tokens beyond the prompt that the comparison feeds one by one, so that the decode path is compared as well."""


@dataclass
class ReferenceLogits:
    """What every trial is compared with: token ids, and their logits by the model as it is served today."""

    ids: torch.Tensor
    logits: torch.Tensor
    exact: torch.Tensor
    """The same in float32, where lossy plans are compared with it, else the same tensor."""
    allowed: Tolerances | None
    """Rises that a lossy plan may show here; None when quality is not measured."""


@dataclass(frozen=True)
class TrialTimeouts:
    """Seconds that a trial may take: to build at most, and to measure about."""

    building: float
    measuring: float


@dataclass
class TrialRunner:
    document: StageInput
    reference: ReferenceLogits | None = None

    def attempt(
        self, label: str, plan: Plan, make: Callable[[], Runner], times: TrialTimeouts, lossy: bool
    ) -> PlanTrial:
        """Builds, compares and measures the plan. A failure becomes the trial's reason; it raises nothing."""
        trial, seconds = untried_plan(label, plan, self.document, "error"), times.measuring
        try:
            start = time.monotonic()
            with ExitStack() as stack:
                with time_limit(times.building, "building"):
                    runner = stack.enter_context(prepared(make(), self.document))
                trial.build_seconds = time.monotonic() - start
                trial.gate, trial.reason = self._compare(runner, plan, lossy)
                if trial.gate == "pass":
                    clients = time_rounds(runner, self.document, seconds, plan.tensor_parallel_size)
                    refusal = self._refusal(runner, plan, clients)
                    trial.gate, trial.reason = ("fail", refusal) if refusal else ("pass", trial.reason)
                    if not refusal:
                        trial.primary = primary(self.document, clients, plan.tensor_parallel_size)
                        trial.tokens_per_second = tokens_per_second(clients.served)
                        trial.keeps = keeps(self.document, clients, plan.tensor_parallel_size)
        except TimeLimitExceeded as error:
            trial.gate, trial.skipped = "error", "time"
            trial.reason = f"{NOT_MEASURED}{error}, since the stage's time was over."
        except Exception as error:
            trial.gate = "error"
            trial.reason = f"It could not run: {error_sentence(error)}"
        return trial

    def _compare(self, runner: Runner, plan: Plan, lossy: bool) -> tuple[str, str]:
        if self.reference is None:
            return "pass", ""
        expected = self.reference.logits
        logits = self._logits(runner, lossy)
        expected = expected[: len(logits)]
        if not len(logits) or logits.shape != expected.shape or not bool(torch.isfinite(logits).all()):
            return "fail", "Its logits are not finite, or not as many as the model's."
        generates = self.document.model.kind == "decoder"
        answer = TOKENS if generates else answer_of(runner.model)
        prompt = self.document.workload.traffic.prompt_tokens if generates else 0
        difference = logit_gate.difference(logits, expected, answer.boxes, prompt)
        if refusal := logit_gate.refusal(difference, rounding_of(plan)):
            return "fail", refusal
        if not lossy:
            return "pass", ""
        if answer.form == "tokens":
            exact = self.reference.exact[: len(logits)]
            return token_fidelity(exact, expected, logits, self.reference.allowed, generates)
        return "pass", answer_distance(expected, logits, answer)

    def _logits(self, runner: Runner, lossy: bool) -> torch.Tensor:
        """The runner's logits of the reference's ids: all of them for a lossy plan, else one batch."""
        assert self.reference is not None
        batch = self.document.workload.traffic.batch
        ids = self.reference.ids if lossy else self.reference.ids[:batch]
        return torch.cat([runner.logits(group).float().cpu() for group in ids.split(batch)])

    def _refusal(self, runner: Runner, plan: Plan, clients: Clients) -> str:
        """Why what was served does not count, "" where it counts.

        It does not count if it contradicts the runner's own logits, which have passed the gate; if it took more time
        than the runner states; or if it took less than the chip can take.
        """
        return judge_served(runner, runner, plan, self.document, clients, JUDGED_BATCHES)[1]


def primary(document: StageInput, clients: Clients, size: int = 1) -> Interval | None:
    """The median of the first objective's metric with a 95 % interval, served on `size` GPUs."""
    objective, usd = document.workload.objectives[0], hourly_price(document.prices, document.gpu_class, size)
    samples = pool_samples(clients.served, objective.metric, objective.n, usd)
    spacing = independent_spacing(objective.metric, clients.served)
    return thinned_median_interval(samples, spacing) if samples else None


def keeps(document: StageInput, clients: Clients, size: int) -> Verdict:
    """The verdict at 99 % on all promises with a limit together, served on `size` GPUs; met where there is none."""
    usd = hourly_price(document.prices, document.gpu_class, size)
    return overall(verdicts(document.workload.objectives, clients.served, usd))


def time_rounds(runner: Runner, document: StageInput, seconds: float, size: int = 1) -> Clients:
    """Times a few requests of the workload's traffic on a prepared runner; more where a promise takes more to prove."""
    clients = Clients(runner, document.workload.traffic, secrets.randbits(32))
    usd = hourly_price(document.prices, document.gpu_class, size)
    limited = [objective for objective in document.workload.objectives if objective.limit is not None]
    end = time.monotonic() + seconds
    clients.warm_up()
    while True:
        clients.serve()
        done, late = len(clients.served), time.monotonic() - end
        if (late > 0 and done >= ENOUGH_ROUNDS) or (late > seconds and done >= MIN_ROUNDS):
            break
        if done >= MAX_ROUNDS and all(
            done >= needed_batches(objective, [clients.served], usd) for objective in limited
        ):
            break
    return clients


def untried_plan(label: str, plan: Plan, document: StageInput, gate: str, reason: str = "") -> PlanTrial:
    summary = summaries.describe_plan(plan, generates=document.model.kind == "decoder")
    unit = document.workload.objectives[0].unit
    return PlanTrial(label=label, summary=summary, plan=plan.model_dump(), unit=unit, gate=gate, reason=reason)


def reference_logits(
    runner: Runner, document: StageInput, kind: str, ids: torch.Tensor, lossy: bool = False
) -> ReferenceLogits:
    """The logits of the model as it is served today, on `ids` [batch, length], and in float32 for `lossy` plans."""
    judged = kind == "decoder" and not document.model.generated
    allowed = allowed_rises(document.workload.constraints, document.model, TOKENS) if judged else None

    def logits(of: Runner) -> torch.Tensor:
        return torch.cat([of.logits(group).float().cpu() for group in ids.split(document.workload.traffic.batch)])

    served = logits(runner)
    rounded = lossy and answer_of(runner.model).form == "tokens" and runner.model.dtype != torch.float32
    return ReferenceLogits(ids, served, logits(Float32Runner(runner.model)) if rounded else served, allowed)


def reference_of(document: StageInput, context: Context, model: PreTrainedModel, least: int) -> ReferenceLogits:
    """A batch of the workload or more, about `least` tokens, of the model's own text, else of random ids."""
    traffic, kind = document.workload.traffic, kind_of(model)
    length = traffic.prompt_tokens + (min(PROBE_STEPS, traffic.output_tokens - 1) if kind == "decoder" else 0)
    most = max(least, traffic.batch * length)
    if kind == "decoder":
        words = vocabulary(model)
        text = texts.from_text(context.model_dir, document.workload.quality_text, length, most, words)
        ids = (text or texts.random(words, length, most)).ids
    else:
        ids = random_input(model, -(-most // length), length, torch.Generator().manual_seed(20))
    return reference_logits(runners.runner("eager", model), document, kind, ids, lossy=least > 0)


def token_fidelity(
    exact: torch.Tensor,
    expected: torch.Tensor,
    logits: torch.Tensor,
    allowed: Tolerances | None,
    generates: bool = True,
) -> tuple[str, str]:
    """The gate and a sentence: `logits` beside those of the model as it is served, `expected`, and in float32, `exact`,
    all [sequences, length, vocab].

    `allowed` are the largest rises over the model as it is served; None allows any. `generates` is false for masked
    language models, whose logits are of the token itself.
    """
    before, after = quality.sides(exact, expected, logits)
    change, kl = quality.rises(before, after)
    tokens = expected.shape[0] * expected.shape[1]
    sentence = (
        f"Beside the model as it is served it chooses another {'next ' if generates else ''}token than float32 in "
        f"{percent(change.value, 2)} (at most {percent(change.high, 2)}) more of {tokens:,} tokens, and its mean KL "
        f"divergence is larger by at most {kl.high:.2g} nats"
    )
    if allowed is not None:
        allowed = allowed.beside(before.disagreement, before.mean_kl)
        if not quality.is_acceptable(change, kl, allowed):
            return "fail", f"{sentence}; {percent(allowed.rate, 2)} and {allowed.nats_words} are allowed."
    return "pass", f"{sentence}."


def answer_distance(expected: torch.Tensor, output: torch.Tensor, answer: AnswerKind) -> str:
    """A sentence about classes or vectors beside the model's. They are too few here to be judged; verify does that."""
    distance = distance_of(answer)
    for known, own in zip(*(rows_of(tensor).double() for tensor in (expected, output)), strict=True):
        distance.add(known, own)
    requests, error = len(expected), f"{max(distance.errors):.2g} of the largest"
    mean = sum(distance.distances[0]) / requests
    if isinstance(distance, ClassDistance):
        logit = f"the largest error of a logit is {error}"
        sentence = logit
        if expected.shape[-1] != 1:
            sentence = f"the most likely {answer.noun} differs from the model's in {percent(mean, 2)}, and {logit}"
    else:
        sentence = f"the mean cosine distance to the model's vectors is {mean:.2g}, and the largest error {error} value"
    return f"In a quick look at {requests} {'request' if requests == 1 else 'requests'} {sentence}; verify judges it."
