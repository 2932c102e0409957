"""One runner of a group of `bench decode`: prepared, held against the model's logits, served, judged."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernels.cli import bench_divided
from kernels.measure.fidelity import Fidelity
from kernels.measure.intervals import across_processes, median_interval
from kernels.measure.latency import Served, pooled
from kernels.model.experts import has_experts
from kernels.ops import ModelCase
from kernels.proof import logit_gate
from kernels.proof.served_ids import LogitGaps
from kernels.runners import Runner
from kernels.runners.clients import Clients, EqualRequests
from kernels.runners.served_answers import JudgedAnswers, judge_answers
from kernels.runners.whole_model import WholeModel

COMPARED_TOKENS = 256
"""So much of each row's prompt is compared."""
PROBED = 8
"""Ids behind the prompt that are compared, of a runner that reads prompts by a pass of its own."""
FIRST = (1,)
"""The token, beside the last one, whose stated time is held against the host's clock: a row's TTFT and time per token
follow from the two."""


@dataclass
class DecodeRun:
    """One runner of the group, the client that asks it, and whether what it gives is the model's."""

    variant: WholeModel
    case: ModelCase
    runner: Runner
    gate: str
    reason: str = ""
    clients: Clients | None = None
    judged: JudgedAnswers | None = None
    fidelity: Fidelity | None = None
    torch_kl: float | None = None
    own: LogitGaps | None = None
    served: Sequence[Served] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """How many requests had been served when each further process was started."""

    def restart(self) -> None:
        """Starts the runner in a fresh process, where it runs in one of its own."""
        if self.runner.starts_process:
            self.starts.append(len(self.served))
            self._try(lambda: self.runner.prepare(self.case.batch, self.case.prompt, self.case.tokens))

    def warm_up(self) -> None:
        """A client of its own, with prompts that no other runner has had, asks once without timing."""
        shape = EqualRequests(self.case.prompt, self.case.tokens, self.case.batch)
        self.clients = Clients(self.runner, shape, secrets.randbits(32))
        self.served = self.clients.served
        self._try(self.clients.warm_up)

    def serve(self) -> None:
        """A timed request with a fresh prompt. One that fails ends those of this runner."""
        assert self.clients is not None
        self._try(self.clients.serve)

    def _try(self, ask: Any) -> None:
        try:
            ask()
        except (RuntimeError, ValueError) as error:
            self.gate, self.reason = "error", failure(error)

    @property
    def name(self) -> str:
        """The variant's, with its GPUs if they are several."""
        return f"{self.variant.name} on {self.case.gpus} GPUs" if self.case.gpus else self.variant.name

    def samples(self, metric: str) -> list[float]:
        """The metric's value in ms of each timed request; `ttf_n` is that of the last token."""
        return pooled(self.served, metric, self.case.tokens)

    def ms(self) -> float | None:
        """The median time to the last token; None where nothing was served whole."""
        samples = self.samples("ttf_n")
        return median_interval(samples)[0] if samples else None

    def medians(self, metric: str) -> list[float]:
        """The metric's median in ms in each process that served whole requests."""
        ends = [*self.starts, len(self.served)]
        parts = (self.served[begin:end] for begin, end in zip([0, *ends], ends, strict=False))
        pools = (pooled(part, metric, self.case.tokens) for part in parts)
        return [median_interval(pool)[0] for pool in pools if pool]

    def time(self, metric: str) -> tuple[float, float, float]:
        """The metric in ms with its 95 % interval: the median, or over three processes and more `across_processes`."""
        medians = self.medians(metric)
        return across_processes(medians) if len(medians) > 2 else median_interval(self.samples(metric))


@dataclass(frozen=True)
class ReferenceOutputs:
    """What the eager model says: `logits` of the prompt's beginning, `ids`, and `behind` it the PROBED further ids.
    `own` is how far a mixture's logits of half of `ids` differ from those.
    """

    ids: torch.Tensor
    logits: torch.Tensor
    probe: torch.Tensor
    behind: torch.Tensor
    own: float = 0.0

    @classmethod
    def of(cls, eager: Runner, prompt: torch.Tensor, generator: torch.Generator) -> "ReferenceOutputs":
        more = torch.randint(eager.model.config.vocab_size, (len(prompt), PROBED), generator=generator)
        probe, ids = torch.cat([prompt, more.to(prompt.device)], dim=1), prompt[:, :COMPARED_TOKENS]
        logits, half, own = eager.logits(ids).float(), ids.shape[1] // 2, 0.0
        if has_experts(eager.model.config):
            own = logit_gate.difference(eager.logits(ids[:, :half]).float(), logits[:, :half])
        return cls(ids, logits, probe, eager.logits(probe)[:, prompt.shape[1] :].float(), own)


def prepared(variant: WholeModel, case: ModelCase, model: Any, known: ReferenceOutputs) -> DecodeRun:
    """The variant's runner, ready for the case; its gate says whether its logits are the model's."""
    try:
        runner = variant.build(case, bench_divided.options_of(variant, case, model))(model)
    except ValueError as error:
        return DecodeRun(variant, case, bench_divided.reference(model), "error", f"It could not run: {error}")
    try:
        runner.prepare(case.batch, case.prompt, case.tokens)
        if not runner.gives_logits:
            return DecodeRun(variant, case, runner, "pass")
        difference = logit_gate.difference(runner.logits(known.ids).float(), known.logits)
        refusal = logit_gate.refusal(difference, case.weights, known.own)
        refusal = refusal or logit_gate.refusal_after_prompt(
            runner, known.probe, case.prompt, known.behind, case.weights, known.own
        )
    except Exception as error:
        return DecodeRun(variant, case, runner, "error", failure(error))
    if refusal:
        return DecodeRun(variant, case, runner, "fail", refusal)
    own = f"; eager's own, of half as many ids at once, by {known.own:.2%}" if known.own else ""
    return DecodeRun(variant, case, runner, "pass", f"Its logits differ from eager's by {difference:.2%}{own}.")


def judge(runs: Sequence[DecodeRun], reference: Runner, dtype: str) -> None:
    """Fails every runner whose timed answers are not the model's by `reference`, torch's own ops, contradict its own
    logits, or came later than it states. `dtype` is the precision of the activations.
    """
    for run in (run for run in runs if run.served and run.gate == "pass"):
        assert run.clients is not None
        try:
            run.judged = judge_answers(reference, run.clients, (run.case.weights, dtype), FIRST)
            refusal = run.judged.refusal
        except (RuntimeError, ValueError) as error:  # such as no memory for the reference, or ids that are no tokens
            refusal = f"What it served could not be judged: {str(error)[:200]}"
        if refusal:
            run.gate, run.reason = "fail", refusal


def failure(error: Exception) -> str:
    """Why a runner could not run, in a sentence."""
    return f"It could not run: {type(error).__name__}: {str(error)[:200]}"
