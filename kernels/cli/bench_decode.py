"""`bench decode`: whole models generating 64 tokens, runners alternating; a group has one model, batch and prompt."""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from kernels import engine, registry
from kernels.cli import bench_divided
from kernels.cli.bench_divided import Wanted
from kernels.cli.bench_document import BenchRow
from kernels.cli.bench_known import Known
from kernels.engine import Runner
from kernels.engine.divided import Divided
from kernels.engine.model_case import case_of_shapes, model_case
from kernels.engine.vllm_runner import PYTHON_VARIABLE
from kernels.engine.whole_model import WholeModel
from kernels.hardware import Gpu
from kernels.measure import fidelity
from kernels.measure.fidelity import Fidelity
from kernels.measure.intervals import median_interval
from kernels.measure.latency import Served, samples_of
from kernels.measure.roofline import doubt, exceeds_peak, floor_ms
from kernels.model_files import catalogue
from kernels.ops import ModelCase
from kernels.proof import logit_gate
from kernels.proof.kernel_names import is_own, kernels_seen
from kernels.proof.logit_gate import LARGEST_DIFFERENCE
from kernels.proof.served_ids import LogitGaps, judge, own_gaps

TOKENS = 64
TABLE = (
    *itertools.product(("llama-3.2-1b", "qwen2.5-1.5b"), (1,), (128, 1024)),
    *itertools.product(("qwen2.5-0.5b", "llama-3.1-8b"), (1,), (128,)),
    *itertools.product(("llama-3.2-1b", "qwen2.5-1.5b"), (8,), (128,)),
    ("llama-3.2-1b", 1, 16384),
)
"""(model, batch, prompt) of the groups of a GPU when none is named."""
CPU_TABLE = (("tiny-llama", 1, 128),)
QUICK_BUILD_SECONDS = 60.0
"""Variants that may take longer to build run only when they are named, or with `--compiled`."""
FEWEST, SLOW = 5, 3.0
"""After FEWEST rounds a runner that takes SLOW times as long as the fastest peer is not measured any more."""


@dataclass(frozen=True)
class Options:
    """What to measure; None is what the tables and the variants offer. `seconds` bounds one group's rounds.

    `fidelity` tokens are compared with the float32 model, by eager and by every variant that is no peer. Each number in
    `gpus` adds the megakernel's variants on that number of GPUs, the first ones of the machine. A model that is larger
    than one GPU is measured with these variants alone, one after the other, each over parts that the GPUs make of it.
    """

    models: Sequence[str] | None = None
    batches: Sequence[int] | None = None
    prompts: Sequence[int] | None = None
    weights: Sequence[str] | None = None
    runners: Sequence[str] | None = None
    slow_builds: bool = False
    rounds: int = 30
    seconds: float = 60.0
    fidelity: int = 0
    gpus: Sequence[int] = ()

    def groups(self, cpu: bool) -> list[tuple[str, int, int]]:
        """(model, batch, prompt): the table, or every combination of what is named."""
        table: tuple[tuple[str, int, int], ...] = CPU_TABLE if cpu else TABLE
        if not (self.models or self.batches or self.prompts):
            return list(table)
        models = self.models or list(dict.fromkeys(model for model, _, _ in table))
        return list(itertools.product(models, self.batches or (1,), self.prompts or (128,)))


@dataclass
class _Run:
    """One runner of the group, what it measured, and whether its logits are the model's."""

    variant: WholeModel
    case: ModelCase
    runner: Runner
    gate: str
    reason: str = ""
    fidelity: Fidelity | None = None
    own: LogitGaps | None = None
    served: list[list[int]] = field(default_factory=list)
    ttft_ms: list[float] = field(default_factory=list)
    ttf64_ms: list[float] = field(default_factory=list)
    per_token_ms: list[float] = field(default_factory=list)

    def serve(self, prompt: torch.Tensor) -> None:
        """A timed request. One that fails ends those of this runner."""
        try:
            made = self.runner.generate(prompt, TOKENS)
        except RuntimeError as error:
            self.gate, self.reason = "error", _failure(error)
            return
        self.served = made.tokens
        request = Served(made.start_ns, made.start_ns, tuple(made.times_ns), len(prompt), TOKENS)
        self.ttft_ms += samples_of(request, "ttft")
        self.ttf64_ms += samples_of(request, "ttf_n", TOKENS)
        self.per_token_ms += samples_of(request, "tpot")

    @property
    def name(self) -> str:
        """The variant's, with its GPUs if they are several."""
        return f"{self.variant.name} on {self.case.gpus} GPUs" if self.case.gpus else self.variant.name

    def ms(self) -> float | None:
        return median_interval(self.ttf64_ms)[0] if self.ttf64_ms else None


def decode_rows(options: Options, ceilings: dict[str, Any], on_device: tuple[torch.device, Gpu]) -> Iterator[BenchRow]:
    """Rows of every group and runner. Raises KeyError for a model that the catalogue has not."""
    (device, gpu), dtype = on_device, _dtype(on_device[0])
    for name, groups in itertools.groupby(options.groups(device.type == "cpu"), key=lambda group: group[0]):
        config, _ = catalogue.entry(name)
        if bench_divided.larger_than(device, config, dtype):
            for group in groups:
                wanted = _wanted(case_of_shapes(config, name, dtype, *group[1:], TOKENS), options, gpu)
                yield from bench_divided.rows(config, wanted, partial(_measured, options, gpu, ceilings))
            continue
        model = engine.load(None, config, seed=0, generated=True, dtype=dtype, device=device.type)
        for _, batch, prompt in groups:
            case = model_case(model, name, dtype, batch, prompt, TOKENS)
            for wanted in bench_divided.groups_of(_wanted(case, options, gpu), options.gpus):
                yield from _measured(options, gpu, ceilings, model, wanted)
                bench_divided.free()
        del model


def _dtype(device: torch.device) -> str:
    """What models are served in there."""
    return "fp32" if device.type == "cpu" else "bf16"


def _measured(
    options: Options, gpu: Gpu, ceilings: dict[str, Any], model: Any, wanted: Sequence[Wanted]
) -> Iterator[BenchRow]:
    generator, case, reference = torch.Generator().manual_seed(5), wanted[0][1], bench_divided.reference(model)
    ids = torch.randint(model.config.vocab_size, (case.batch, case.prompt), generator=generator).to(model.device)
    known = Known.of(reference, ids, generator)
    reference.close()
    bench_divided.free()
    runs = [_prepared(variant, own, model, known) for variant, own in wanted]
    end = time.monotonic() + options.seconds
    for done in range(options.rounds):
        if done >= FEWEST and time.monotonic() > end:
            break
        fastest = min((run.ms() or 0 for run in runs if run.variant.peer and run.ttf64_ms), default=float("inf"))
        for run in runs:
            if run.gate == "pass" and (done < FEWEST or (run.ms() or 0) < SLOW * fastest):
                run.serve(ids)
    _judge_served(runs, bench_divided.reference(model), ids)
    if options.fidelity and not isinstance(model, Divided):
        _compare([run for run in runs if run.gate == "pass"], model, case, options.fidelity)
    for run in runs:
        yield _row(run, gpu, ceilings, _best_peer(run, runs), ids)
        run.runner.close()


def _best_peer(run: _Run, runs: Sequence[_Run]) -> float | None:
    """The time of the fastest peer that holds weights of the same precision; None where there is none.

    A row of lower precision is thus never set against a peer in bf16, which loses less.
    """
    alike = [each for each in runs if each.variant.peer and each.case.weights == run.case.weights]
    return min((each.ms() or 0 for each in alike if each.ttf64_ms and each.gate == "pass"), default=None)


def _judge_served(runs: Sequence[_Run], reference: Runner, ids: torch.Tensor) -> None:
    """Fails a runner whose last timed request served ids that are not the model's, torch's eager model being right."""
    dtype = _dtype(ids.device)
    for run in (run for run in runs if run.served and run.gate == "pass"):
        try:
            refusal = judge(reference, run.runner, [(ids, run.served)], (run.case.weights, dtype)).refusal
        except RuntimeError as error:  # no memory is left for the reference
            refusal = f"The ids that it served could not be judged: {str(error)[:200]}"
        if refusal:
            run.gate, run.reason = "fail", refusal


def _compare(runs: Sequence[_Run], model: Any, case: ModelCase, tokens: int) -> None:
    """Notes how far torch's eager model and our own runners are from float32, and what these serve from themselves."""
    for run in (each for each in runs if not each.variant.peer):
        run.own = own_gaps(run.runner, (case.batch, case.prompt, case.tokens))
        if refusal := run.own.own_refusal(LARGEST_DIFFERENCE[_dtype(model.device)]):
            run.gate, run.reason = "fail", refusal
    compared = {run.name: run for run in runs if run.variant.name == "eager" or not run.variant.peer}
    config, _ = catalogue.entry(case.model)
    exact = engine.load(None, config, seed=0, generated=True, dtype="fp32", device=model.device.type)
    count = -(-tokens // (fidelity.LENGTH * case.batch)) * case.batch
    ids = torch.randint(model.config.vocab_size, (count, fidelity.LENGTH), generator=torch.Generator().manual_seed(6))
    runners = {name: run.runner for name, run in compared.items()}
    found = fidelity.fidelity(engine.runner("eager", exact), runners, ids, case.batch)
    for name, run in compared.items():
        run.fidelity = found[name]


def _wanted(case: ModelCase, options: Options, gpu: Gpu) -> list[Wanted]:
    """The variants to measure, each with the case it serves: its own weights in place of the model's."""
    wanted = []
    for variant in registry.variants("model"):
        if not isinstance(variant, WholeModel):
            continue
        if options.runners:
            picked = variant.name in options.runners
        else:
            builds = options.slow_builds or variant.build_seconds <= QUICK_BUILD_SECONDS
            picked = builds and (variant.in_plans or bool(os.environ.get(PYTHON_VARIABLE)))
        own = case.with_weights(variant.options.get("weights", case.weights))
        listed = not options.weights or own.weights in options.weights or variant.peer
        able = variant.serves(case, gpu) is None or variant.serves(own, gpu) is None
        if picked and listed and able:
            wanted.append((variant, own))
            if variant.most_gpus > 1:
                wanted += [(variant, own.model_copy(update={"gpus": count})) for count in options.gpus if count > 1]
    return wanted


def _prepared(variant: WholeModel, case: ModelCase, model: Any, known: Known) -> _Run:
    try:
        runner = variant.build(case, bench_divided.options_of(variant, case, model))(model)
    except ValueError as error:
        return _Run(variant, case, bench_divided.reference(model), "error", f"It could not run: {error}")
    try:
        runner.prepare(case.batch, case.prompt, case.tokens)
        if not runner.gives_logits:
            return _Run(variant, case, runner, "pass")
        difference = logit_gate.difference(runner.logits(known.ids).float(), known.logits)
        refusal = logit_gate.refusal(difference, case.weights)
        refusal = refusal or logit_gate.refusal_after_prompt(
            runner, known.probe, case.prompt, known.behind, case.weights
        )
    except Exception as error:
        return _Run(variant, case, runner, "error", _failure(error))
    if refusal:
        return _Run(variant, case, runner, "fail", refusal)
    return _Run(variant, case, runner, "pass", f"Its logits differ from eager's by {difference:.2%}.")


def _failure(error: Exception) -> str:
    return f"It could not run: {type(error).__name__}: {str(error)[:200]}"


def _row(run: _Run, gpu: Gpu, ceilings: dict[str, Any], best: float | None, ids: torch.Tensor) -> BenchRow:
    case = run.case
    row = BenchRow(
        op="model",
        case=case.model_dump(exclude_none=True),
        variant=run.variant.name,
        params=dict(run.runner.settings),
        peer=run.variant.peer,
        gate=run.gate,  # type: ignore[arg-type]
        reason=run.reason,
    )
    if not run.ttf64_ms:
        return row
    ms, low, high = median_interval(run.ttf64_ms)
    per_token = median_interval(run.per_token_ms)[0]
    floor, read = floor_ms(case, ceilings), ceilings.get("read_tbps")
    too_good = exceeds_peak(case, ms, gpu, ceilings)
    read_ms = case.step_bytes / 1e9 / read if read else 0.0
    reason = " ".join(each for each in (run.reason, doubt(floor, ms) or doubt(read_ms, per_token)) if each)
    names = kernels_seen(lambda: run.runner.generate(ids, 4), ids.device) if run.gate == "pass" else []
    return row.model_copy(
        update={
            "ms": ms,
            "ms_low": low,
            "ms_high": high,
            "tflops": case.flops / ms / 1e9,
            "gbps": case.least_bytes / ms / 1e6,
            "floor_share": floor / ms if floor and not doubt(floor, ms) else None,
            "ratio_to_best_peer": best / ms if best else None,
            "gate": "impossible" if too_good else run.gate,
            "reason": too_good or reason,
            "kernels": names,
            "own": None if run.variant.peer or not names else is_own(names),
            "ttft_ms": median_interval(run.ttft_ms)[0],
            "ttf64_ms": ms,
            "ms_per_token": per_token,
            "read_share": read_ms / per_token if read and not doubt(read_ms, per_token) else None,
            "rounds": len(run.ttf64_ms),
            "regime": "settled" if ids.is_cuda else None,
            **(vars(run.fidelity) if run.fidelity else {}),
            **({"own_mean_gap": run.own.mean, "own_largest_gap": run.own.largest} if run.own else {}),
        }
    )
