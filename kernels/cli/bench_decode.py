"""`bench decode`: whole models generating 64 tokens, runners alternating; a group has one model, batch and prompt."""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kernels import registry, runners
from kernels.cli import bench_decode_run
from kernels.cli.bench_decode_run import BenchTarget, DecodeRun, Exact, ReferenceOutputs, compare, judge, prepared
from kernels.cli.bench_document import BenchRow
from kernels.cli.bench_experts import count_choices, skew_routers, with_experts
from kernels.hardware import Gpu
from kernels.measure.roofline import doubt, exceeds_peak, floor_ms
from kernels.model.model_case import case_of_shapes, model_case
from kernels.model_files import catalogue
from kernels.model_files.families import is_mixture
from kernels.ops import ModelCase
from kernels.proof.kernel_names import is_own, kernels_seen
from kernels.runners.vllm_runner import PYTHON_VARIABLE
from kernels.runners.whole_model import WholeModel

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
MIN_ROUNDS, SLOW = 5, 3.0
"""After MIN_ROUNDS rounds a runner that takes SLOW times as long as the fastest peer is not measured any more."""


@dataclass(frozen=True)
class Options:
    """What to measure; None is what the tables and the variants offer. `seconds` bounds one group's rounds.

    The routers of mixtures are skewed by `router_skew` (bench_experts.py). `fidelity` tokens are compared with the
    float32 model, by torch's own ops and by every variant that is no peer. Each number in `tensor_parallel_sizes` adds
    the megakernel's variants on that number of GPUs, the first ones of the machine. A model that is larger than one GPU
    is measured with these variants alone, one after the other, each over shards that the GPUs make of it. So is a
    mixture of experts, whose launches hold the experts once more, and after one GPU's. The
    `processes` share `rounds` and `seconds`. A runner that starts a process starts a fresh one for each of them.
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
    router_skew: float = 0.0
    tensor_parallel_sizes: Sequence[int] = ()
    processes: int = 1

    def groups(self, cpu: bool) -> list[tuple[str, int, int]]:
        """(model, batch, prompt): the table, or every combination of what is named."""
        table: tuple[tuple[str, int, int], ...] = CPU_TABLE if cpu else TABLE
        if not (self.models or self.batches or self.prompts):
            return list(table)
        models = self.models or list(dict.fromkeys(model for model, _, _ in table))
        return list(itertools.product(models, self.batches or (1,), self.prompts or (128,)))


def decode_rows(options: Options, ceilings: dict[str, Any], on_device: tuple[torch.device, Gpu]) -> Iterator[BenchRow]:
    """Rows of every group and runner. Raises KeyError for a model that the catalogue has not."""
    (device, gpu), dtype = on_device, dtype_on(on_device[0])
    for name, groups in itertools.groupby(options.groups(device.type == "cpu"), key=lambda group: group[0]):
        config, _ = catalogue.entry(name)
        larger = bench_decode_run.larger_than(device, config, dtype)
        several = options.tensor_parallel_sizes and is_mixture(config) and not options.router_skew
        if larger or several:
            for group in groups:
                targets = _bench_targets(case_of_shapes(config, name, dtype, *group[1:], TOKENS), options, gpu)
                yield from bench_decode_run.rows(config, targets, partial(_measure, options, gpu, ceilings), larger)
            continue
        model = runners.load(None, config, seed=0, generated=True, dtype=dtype, device=device.type)
        skew_routers(model, options.router_skew)
        for _, batch, prompt in groups:
            case = model_case(model, name, dtype, batch, prompt, TOKENS)
            for targets in bench_decode_run.groups_of(
                _bench_targets(case, options, gpu), options.tensor_parallel_sizes
            ):
                yield from _measure(options, gpu, ceilings, model, targets)
                runners.free()
        del model


def dtype_on(device: torch.device) -> str:
    """What models are served in on a device."""
    return "fp32" if device.type == "cpu" else "bf16"


def _measure(
    options: Options, gpu: Gpu, ceilings: dict[str, Any], model: Any, targets: Sequence[BenchTarget]
) -> Iterator[BenchRow]:
    generator, case, reference = torch.Generator().manual_seed(5), targets[0][1], bench_decode_run.reference(model)
    ids = torch.randint(model.config.vocab_size, (case.batch, case.prompt), generator=generator).to(model.device)
    with count_choices(model, case.batch) as chosen:
        references = ReferenceOutputs.of(reference, ids, generator)
    exact = Exact.of(model, reference, case, options.fidelity) if options.fidelity else None
    reference.close()
    runners.free()
    runs = [
        prepared(variant, with_experts(targeted, model, chosen), model, references) for variant, targeted in targets
    ]
    for run in runs:
        if run.gate == "pass":
            run.warm_up()
    for process in range(options.processes):
        for run in runs if process else []:
            if run.gate == "pass":
                run.restart()
        _serve(runs, -(-options.rounds // options.processes), options.seconds / options.processes)
    reference = bench_decode_run.reference(model)
    judge(runs, reference, dtype_on(model.device))
    reference.close()
    if exact is not None:
        compare([run for run in runs if run.gate == "pass"], exact, case, dtype_on(model.device))
    rows = []
    for run in runs:
        rows.append(_row(run, gpu, ceilings, ids))
        run.runner.close()
    sure = [row for row in rows if row.gate == "pass" and row.ms and not _doubt(row, ceilings)]
    for row in rows:
        alike = [peer.ms or 0.0 for peer in sure if peer.peer and peer.case["weights"] == row.case["weights"]]
        ratio = min(alike) / (row.ms or 1.0) if alike and any(row is sure_row for sure_row in sure) else None
        yield row.model_copy(update={"ratio_to_best_peer": ratio})


def _serve(runs: Sequence[DecodeRun], rounds: int, seconds: float) -> None:
    """So many requests to each runner, in turn, for about so long; MIN_ROUNDS at least."""
    end = time.monotonic() + seconds
    for done in range(rounds):
        if done >= MIN_ROUNDS and time.monotonic() > end:
            break
        fastest = min((ms for run in runs if run.variant.peer and (ms := run.ms())), default=float("inf"))
        for run in runs:
            if run.gate == "pass" and (done < MIN_ROUNDS or (run.ms() or 0) < SLOW * fastest):
                run.serve()


def _doubt(row: BenchRow, ceilings: dict[str, Any]) -> str:
    """A sentence where a row's time, or that of its decode step, lies below its measured floor; "" otherwise."""
    case, read = ModelCase.model_validate(row.case), ceilings.get("read_tbps")
    step_ms = case.step_bytes / 1e9 / read if read else None
    return doubt(floor_ms(case, ceilings), row.ms or 0.0) or doubt(step_ms, row.ms_per_token or 0.0)


def _bench_targets(case: ModelCase, options: Options, gpu: Gpu) -> list[BenchTarget]:
    """The variants to measure, each with the case it serves: its own weights in place of the model's."""
    targets = []
    for variant in registry.variants("model"):
        if not isinstance(variant, WholeModel):
            continue
        if options.runners:
            picked = variant.name in options.runners
        else:
            builds = options.slow_builds or variant.build_seconds <= QUICK_BUILD_SECONDS
            picked = builds and (variant.in_plans or bool(os.environ.get(PYTHON_VARIABLE)))
        targeted = case.with_weights(variant.options.get("weights", case.weights))
        listed = not options.weights or targeted.weights in options.weights or variant.peer
        able = variant.serves(case, gpu) is None or variant.serves(targeted, gpu) is None
        if picked and listed and able:
            targets.append((variant, targeted))
            if variant.most_gpus > 1:
                sizes = [size for size in options.tensor_parallel_sizes if size > 1]
                targets += [(variant, targeted.model_copy(update={"gpus": size})) for size in sizes]
    return targets


def _row(run: DecodeRun, gpu: Gpu, ceilings: dict[str, Any], ids: torch.Tensor) -> BenchRow:
    """The row of a runner without its ratio to the peers; a refused one has the times that it stated."""
    case = run.case
    row = BenchRow(
        op="model",
        case=case.model_dump(exclude_none=True),
        variant=run.variant.name,
        params=dict(run.runner.settings),
        peer=run.variant.peer,
        gate=run.gate,  # type: ignore[arg-type]
        reason=run.reason,
        judged=len(run.judged.kept) if run.judged else None,
    )
    if run.ms() is None:
        return row
    row.ms, row.ms_low, row.ms_high = run.time("ttf_n")
    row.ttf64_ms, row.rounds, row.processes_ms = row.ms, len(run.served), run.medians("ttf_n") if run.starts else []
    row.ttft_ms, row.ms_per_token = (run.time(metric)[0] for metric in ("ttft", "tpot"))
    row.regime = "settled" if ids.is_cuda else None
    if row.gate == "pass" and (impossible := exceeds_peak(case, row.ms, gpu, ceilings)):
        row.gate, row.reason = "impossible", impossible
    if row.gate != "pass":
        return row
    row.tflops, row.gbps = case.flops / row.ms / 1e9, case.least_bytes / row.ms / 1e6
    floor, read = floor_ms(case, ceilings), ceilings.get("read_tbps")
    if doubt := _doubt(row, ceilings):
        row.reason = f"{row.reason} {doubt}".strip()
    else:
        row.floor_share = floor / row.ms if floor else None
        row.read_share = case.step_bytes / 1e9 / read / row.ms_per_token if read and row.ms_per_token else None
    row.kernels = kernels_seen(lambda: run.runner.generate(ids, 4), ids.device)
    row.own = None if run.variant.peer else is_own(row.kernels, run.variant)
    if run.fidelity:
        row = row.model_copy(update=vars(run.fidelity) | {"torch_kl": run.torch_kl})
    if run.own:
        row.own_mean_gap, row.own_largest_gap = run.own.mean, run.own.largest
    return row
