"""One whole-model plan, tried quickly: built, compared with the model as it is served today, and measured."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernels.engine import Runner
from kernels.plan import Plan
from workers.documents.measurement import Interval
from workers.documents.stages import PlanTrial, StageInput
from workers.documents.workload import Workload
from workers.measuring.served_model import prepared, vocabulary
from workers.measuring.traffic import Clients
from workers.planning import summaries
from workers.pricing import hourly_price
from workers.statistics import median_interval, pooled

SANITY: dict[str, float] = {"fp32": 0.01, "fp16": 0.1, "bf16": 0.25}
"""Largest relative difference of the logits that a precision's rounding explains over a deep model."""
LOSSY_SANITY = 0.5
"""The same for lower precision of the weights; unrelated logits differ by about 1.4. Quality is for verify to judge."""
LEAST_ROUNDS, USUAL_ROUNDS, MOST_ROUNDS = 3, 5, 50
MEASURE_SECONDS = 4.0
PROBE_STEPS = 8
"""Tokens beyond the prompt that the comparison feeds one by one, so that the decode path is compared as well."""


@dataclass
class Yardstick:
    """The reference of every trial: token ids, and the logits of the model as it is served today."""

    ids: torch.Tensor
    logits: torch.Tensor
    allowed_disagreement: float | None
    """Top-1 disagreement rate that a lossy plan may show here; None when quality is not measured."""

    @property
    def tokens(self) -> int:
        return self.logits.shape[0] * (self.logits.shape[1] if self.logits.dim() == 3 else 1)


@dataclass
class Trier:
    """Tries plans of one model at the workload's traffic."""

    document: StageInput
    device: str
    kind: str
    yardstick: Yardstick | None = None

    def attempt(
        self, label: str, plan: Plan, make: Callable[[], Runner], seconds: float, lossy: bool = False
    ) -> PlanTrial:
        """Builds, compares and measures the plan. A failure becomes the trial's reason; it raises nothing."""
        trial = untried(label, plan, self.document.workload, "error")
        try:
            start = time.monotonic()
            with prepared(make(), self.document) as runner:
                trial.build_seconds = time.monotonic() - start
                trial.gate, trial.reason = self._compare(runner, plan, lossy)
                if trial.gate == "pass":
                    trial.primary = self._measure(runner, seconds)
        except Exception as error:
            lines = str(error).strip().splitlines()
            trial.gate = "error"
            trial.reason = f"It could not run: {type(error).__name__}: {lines[0][:200] if lines else 'no message'}"
        return trial

    def _compare(self, runner: Runner, plan: Plan, lossy: bool) -> tuple[str, str]:
        if self.yardstick is None:
            return "pass", ""
        expected = self.yardstick.logits
        logits = self._logits(runner, lossy)
        expected = expected[: len(logits)]
        if not len(logits) or logits.shape != expected.shape or not bool(torch.isfinite(logits).all()):
            return "fail", "Its logits are not finite, or not as many as the model's."
        difference = float((logits - expected).norm() / expected.norm().clamp_min(1e-30))
        limit = LOSSY_SANITY if lossy else SANITY[plan.dtype]
        if difference > limit:
            return "fail", f"Its logits differ from the model's by {difference:.1%}; rounding explains {limit:.0%}."
        return self._disagreement(logits) if lossy else ("pass", "")

    def _logits(self, runner: Runner, lossy: bool) -> torch.Tensor:
        """The runner's logits on the yardstick's ids: all of them for a lossy plan, else one batch."""
        assert self.yardstick is not None
        batch = self.document.workload.traffic.batch
        ids = self.yardstick.ids if lossy else self.yardstick.ids[:batch]
        return torch.cat([runner.logits(group).float().cpu() for group in ids.split(batch)])

    def _disagreement(self, logits: torch.Tensor) -> tuple[str, str]:
        """Holds a lossy plan to the workload's largest quality loss, as far as a quick look can say."""
        assert self.yardstick is not None
        allowed = self.yardstick.allowed_disagreement
        rate = float((logits.argmax(-1) != self.yardstick.logits[: len(logits)].argmax(-1)).float().mean())
        spread = 2 * (rate * (1 - rate) / self.yardstick.tokens) ** 0.5
        if allowed is not None and rate + spread > allowed:
            return "fail", (
                f"It chooses another next token than the model in {rate:.2%} ± {spread:.2%} of "
                f"{self.yardstick.tokens} tokens; the workload allows {allowed:.2%}."
            )
        return "pass", ""

    def _measure(self, runner: Runner, seconds: float) -> Interval | None:
        """The first objective's metric over a few requests: its median with a 95 % interval."""
        workload = self.document.workload
        objective = workload.objectives[0]
        clients = Clients(runner, workload.traffic, self.kind, vocabulary(runner.model), self.device, seed=3)
        end = time.monotonic() + seconds
        clients.warm_up()
        for done in range(1, MOST_ROUNDS + 1):
            clients.serve()
            late = time.monotonic() - end
            if (late > 0 and done >= USUAL_ROUNDS) or (late > seconds and done >= LEAST_ROUNDS):
                break
        price = hourly_price(self.document.prices, self.document.gpu_class)
        samples = pooled(clients.served, objective.metric, objective.n, price)
        return median_interval(samples) if samples else None


def untried(label: str, plan: Plan, workload: Workload, gate: str, reason: str = "") -> PlanTrial:
    """A trial of the plan without a measurement."""
    summary, unit = summaries.of_plan(plan), workload.objectives[0].unit
    return PlanTrial(label=label, summary=summary, plan=plan.model_dump(), unit=unit, gate=gate, reason=reason)


def yardstick(runner: Runner, document: StageInput, kind: str, ids: torch.Tensor) -> Yardstick:
    """The logits of the model as it is served today, on `ids` [batch, length]."""
    constraints = document.workload.constraints
    judged = kind == "decoder" and not document.model.generated
    allowed = constraints.max_quality_loss if judged else None
    batch = document.workload.traffic.batch
    logits = torch.cat([runner.logits(group).float().cpu() for group in ids.split(batch)])
    return Yardstick(ids, logits, allowed)
