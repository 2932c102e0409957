"""One runner of a group of `bench decode`: prepared, held against the model's logits, served, judged."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from kernels import runners
from kernels.cli.bench_document import BenchRow
from kernels.measure.fidelity import LENGTH, Fidelity, fidelity
from kernels.measure.intervals import across_processes, median_interval
from kernels.measure.latency import ServedBatch, pool_samples
from kernels.model.experts import has_experts
from kernels.model.layer_by_layer import float32_logits
from kernels.model.tensor_parallel import TensorParallelModel
from kernels.model_files import catalogue
from kernels.ops import ModelCase
from kernels.proof import logit_gate
from kernels.proof.logit_gate import MAX_DIFFERENCE
from kernels.proof.served_ids import LogitGaps, own_gaps
from kernels.runners import Runner
from kernels.runners.clients import Clients, EqualRequests
from kernels.runners.kernels_runner import TensorParallelRunner
from kernels.runners.served_answers import JudgedAnswers, judge_answers
from kernels.runners.whole_model import WholeModel

MAX_COMPARED, COMPARED_TOKENS = 1 << 14, 256
"""Where a batch's prompts have more tokens than the first, so many of each are compared."""
PROBED = 8
"""Ids behind the prompt that are compared, which decode steps read."""
FIRST = (1,)
"""The token beside the last one whose time is held against the host's clock: both give TTFT and time a token."""


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
    served: Sequence[ServedBatch] = field(default_factory=list)
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
        return pool_samples(self.served, metric, self.case.tokens)

    def ms(self) -> float | None:
        """The median time to the last token; None where nothing was served whole."""
        samples = self.samples("ttf_n")
        return median_interval(samples)[0] if samples else None

    def medians(self, metric: str) -> list[float]:
        """The metric's median in ms in each process that served whole requests."""
        ends = [*self.starts, len(self.served)]
        parts = (self.served[begin:end] for begin, end in zip([0, *ends], ends, strict=False))
        pools = (pool_samples(part, metric, self.case.tokens) for part in parts)
        return [median_interval(pool)[0] for pool in pools if pool]

    def time(self, metric: str) -> tuple[float, float, float]:
        """The metric in ms with its 95 % interval: the median, or over three processes and more `across_processes`."""
        medians = self.medians(metric)
        return across_processes(medians) if len(medians) > 2 else median_interval(self.samples(metric))


@dataclass(frozen=True)
class ReferenceOutputs:
    """The eager model's `logits` of `ids`: of the prompt and PROBED further ids, or of COMPARED_TOKENS where those are
    too many. `own` is how far a mixture's logits of half of `ids` differ from those.
    """

    ids: torch.Tensor
    logits: torch.Tensor
    own: float = 0.0

    @classmethod
    def of(cls, eager: Runner, prompt: torch.Tensor, generator: torch.Generator) -> "ReferenceOutputs":
        more = torch.randint(eager.model.config.vocab_size, (len(prompt), PROBED), generator=generator)
        ids = torch.cat([prompt, more.to(prompt.device)], dim=1)
        if ids.numel() > MAX_COMPARED:
            ids = ids[:, :COMPARED_TOKENS]
        logits, half, own = eager.logits(ids).float(), ids.shape[1] // 2, 0.0
        if has_experts(eager.model.config):
            own = logit_gate.difference(eager.logits(ids[:, :half]).float(), logits[:, :half])
        return cls(ids, logits, own)


def prepared(variant: WholeModel, case: ModelCase, model: Any, known: ReferenceOutputs) -> DecodeRun:
    """The variant's runner, ready for the case; its gate says whether its logits are the model's."""
    try:
        runner = variant.build(case, options_of(variant, case, model))(model)
    except ValueError as error:
        return DecodeRun(variant, case, reference(model), "error", f"It could not run: {error}")
    try:
        runner.prepare(case.batch, case.prompt, case.tokens)
        if not runner.gives_logits:
            return DecodeRun(variant, case, runner, "pass")
        difference = logit_gate.difference(runner.logits(known.ids).float(), known.logits, prompt=case.prompt)
        refusal = logit_gate.refusal(difference, case.weights, known.own)
    except Exception as error:
        return DecodeRun(variant, case, runner, "error", failure(error))
    if refusal:
        return DecodeRun(variant, case, runner, "fail", refusal)
    own = f"; eager's own, of half as many ids at once, by {100 * known.own:.2f} %" if known.own else ""
    return DecodeRun(variant, case, runner, "pass", f"Its logits differ from eager's by {100 * difference:.2f} %{own}.")


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


@dataclass(frozen=True)
class Exact:
    """The float32 model's `logits` [sequences, LENGTH, vocab] of `ids`, and how far torch's own ops are from them."""

    ids: Tensor
    logits: Tensor
    by_torch: Fidelity

    @classmethod
    def of(cls, model: Any, reference: Runner, case: ModelCase, tokens: int) -> "Exact":
        """Over `tokens` tokens in whole batches; `reference` runs torch's own ops before a runner changes the model."""
        config, _ = catalogue.entry(case.model)
        count = -(-tokens // (LENGTH * case.batch)) * case.batch
        ids = torch.randint(model.config.vocab_size, (count, LENGTH), generator=torch.Generator().manual_seed(6))
        if isinstance(model, TensorParallelModel):
            logits = float32_logits(config, ids, model.device)
        else:
            whole = runners.load(None, config, seed=0, generated=True, dtype="fp32", device=model.device.type)
            exact = runners.runner("eager", whole)
            logits = torch.cat([exact.logits(rows).cpu() for rows in ids.split(case.batch)])
            exact.close()
            del whole
        runners.free()
        expected = logits.split(case.batch)
        return cls(ids, logits, fidelity(expected, {"torch": reference}, ids, case.batch)["torch"])


def compare(runs: Sequence[DecodeRun], exact: Exact, case: ModelCase, dtype: str) -> None:
    """Notes how far torch's eager model and our runners are from float32. `dtype` is the activations'."""
    for run in (run for run in runs if not run.variant.peer):
        run.own = own_gaps(run.runner, (case.batch, case.prompt, case.tokens))
        if refusal := run.own.own_refusal(MAX_DIFFERENCE[dtype]):
            run.gate, run.reason = "fail", refusal
    compared = {run.name: run for run in runs if run.variant.name == "eager" or not run.variant.peer}
    compared_runners = {name: run.runner for name, run in compared.items()}
    distances = fidelity(exact.logits.split(case.batch), compared_runners, exact.ids, case.batch)
    for name, run in compared.items():
        run.fidelity, run.torch_kl = distances[name], exact.by_torch.kl


MAX_WEIGHTS = 0.9
"""Weights that take more than this share of a GPU's memory are sharded over several."""

BenchTarget = tuple[WholeModel, ModelCase]


def larger_than(device: torch.device, config: dict[str, Any], dtype: str) -> bool:
    """Whether the weights alone fill the GPU."""
    if device.type != "cuda":
        return False
    memory = torch.cuda.get_device_properties(device).total_memory
    return runners.describe(config, dtype).weight_bytes > MAX_WEIGHTS * memory


def rows(
    config: dict[str, Any],
    wanted: Sequence[BenchTarget],
    measured: Callable[[Any, Sequence[BenchTarget]], Iterator[BenchRow]],
    larger: bool = True,
) -> Iterator[BenchRow]:
    """Rows that `measured` gives, one after the other; of a model `larger` than one GPU, those on one are errors. Each
    variant has a model of its own, which it may round.
    """
    for variant, case in wanted:
        try:
            if larger and not case.gpus:
                raise ValueError("one GPU does not hold the model; `--tensor-parallel-size 2` measures it over two")
            model = runners.load(None, config, generated=True, tensor_parallel_size=case.gpus or 1)
        except ValueError as error:
            facts, wrong = case.model_dump(exclude_none=True), f"It could not run: {error}"
            yield BenchRow(
                op="model", case=facts, variant=variant.name, params={}, peer=False, gate="error", reason=wrong
            )
            continue
        yield from measured(model, [(variant, case)])
        del model
        runners.free()


def groups_of(wanted: Sequence[BenchTarget], tensor_parallel_sizes: Sequence[int]) -> Iterator[list[BenchTarget]]:
    """What is loaded and measured together: everything; with `tensor_parallel_sizes` one group for each precision.

    The rows of a group come when it ends, and its memory is free for the next one.
    """
    if tensor_parallel_sizes:
        for weights in dict.fromkeys(case.weights for _, case in wanted):
            yield [pair for pair in wanted if pair[1].weights == weights]
    elif wanted:
        yield list(wanted)


def reference(model: Any) -> Runner:
    """torch's own ops on the model."""
    return TensorParallelRunner(model) if isinstance(model, TensorParallelModel) else runners.runner("eager", model)


def options_of(variant: WholeModel, case: ModelCase, model: Any) -> dict[str, Any]:
    """The GPUs of a model that is not sharded yet; one that is can be rounded to nearest alone."""
    if isinstance(model, TensorParallelModel):
        return {"rounding": {"method": "nearest"}} if variant.lossy else {}
    return {"devices": list(range(case.gpus))} if case.gpus else {}
