"""`python -m kernels run`: runs a plan on this machine, and holds what it measures beside what the plan expects."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from kernels.cli.bench_document import unwritable
from kernels.dequantising import plain_model
from kernels.measure.intervals import median_interval
from kernels.measure.latency import ServedBatch, pool_samples
from kernels.model_files import ModelRefused
from kernels.plan import Expected, Plan
from kernels.runners.plan_files import PlanRefused, read_model, read_plan

if TYPE_CHECKING:
    from kernels.runners import Runner


class RunDocument(BaseModel):
    """What a run of a plan measured: the metric's median and 95 % interval beside the plan's `expected`."""

    environment: dict[str, Any]
    model_digest: str
    metric: str
    unit: str
    requests: int
    value: float
    low: float
    high: float
    samples: list[float]
    expected: Expected | None
    same_device: bool | None
    within: bool | None
    sentence: str


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", type=Path, required=True, help="plan.json")
    parser.add_argument("--model", type=Path, required=True, help="a directory, a GGUF file, or a catalogue entry")
    parser.add_argument("--requests", type=int, default=30, help="requests that are measured (default 30)")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: the GPU if there is one")
    parser.add_argument("--json", type=Path, help="write the result document here")


def run(options: argparse.Namespace) -> int:
    """0: within the expected interval, or nothing to compare; 1: outside it on the same device; 2: cannot be run."""
    try:
        if options.requests < 1:
            raise PlanRefused(f"--requests: {options.requests} is not a positive number")
        if options.json and (reason := unwritable(options.json)):
            raise PlanRefused(f"--json: {reason}")
        plan = read_plan(options.plan)
        directory = plain_model(options.model) if options.model.exists() else options.model
        document = run_plan(plan, directory, options.requests, options.device)
    except (PlanRefused, ModelRefused, ValueError) as error:
        print(f"kernels run: {error}", file=sys.stderr)
        return 2
    if options.json:
        options.json.write_text(document.model_dump_json(indent=2) + "\n")
    print(document.sentence)
    return 1 if document.within is False and document.same_device else 0


def run_plan(plan: Plan, directory: Path, requests: int, device: str | None = None) -> RunDocument:
    """Loads, prepares and measures. Raises PlanRefused or ValueError with one sentence."""
    import torch

    from kernels import runners
    from kernels.measure.environment import environment_info
    from kernels.measure.telemetry import TelemetrySampler

    if device == "cuda" and not torch.cuda.is_available():
        raise PlanRefused("--device: torch finds no NVIDIA GPU on this machine")
    if not _suits(plan, device):
        raise PlanRefused(
            f"the plan's runner is {plan.runner}, which is written for Hopper GPUs; here it would be a CPU"
        )
    traffic = plan.expected or Expected(
        metric="e2e", unit="ms", value=0, low=0, high=0, device="", batch=1, prompt_tokens=128, output_tokens=64
    )
    if reason := refusal(traffic):
        raise PlanRefused(reason)
    config, generated, seed = read_model(directory, plan)
    given: dict[str, Any] = {"seed": seed, "generated": generated, "dtype": plan.dtype, "device": device}
    try:
        model = runners.load(directory, config, **given | plan.sizes)
        environment = environment_info(device=model.device.type)
        runner = runners.apply(model, plan)
        del model
        on = (
            f"{plan.tensor_parallel_size} {environment['device']}"
            if plan.tensor_parallel_size > 1
            else environment["device"]
        )
        print(f"preparing the {plan.runner} runner on {on} …", file=sys.stderr)
        runner.prepare(traffic.batch, traffic.prompt_tokens, traffic.output_tokens)
    except torch.OutOfMemoryError as error:
        raise PlanRefused(_too_large(plan, str(error))) from error
    with TelemetrySampler(runner.model.device.type) as telemetry:
        samples = pool_samples(serve(runner, traffic, requests), traffic.metric, traffic.n)
    environment["telemetry"] = telemetry.summary()
    runner.close()
    return _document(plan, environment, traffic, samples, requests)


def _suits(plan: Plan, device: str | None) -> bool:
    """Whether the plan's runner can run on the device: the megakernel needs a GPU."""
    import torch

    return plan.runner != "megakernel" or (device != "cpu" and torch.cuda.is_available())


def _too_large(plan: Plan, reason: str) -> str:
    """The sentence about a model that does not fit; `reason` is torch's."""
    arguments = (
        ", and GPTQ rounds it whole on the first GPU before it is sharded"
        if plan.tensor_parallel_size > plan.shards
        else ""
    )
    return f"the model does not fit{arguments}: {reason.splitlines()[0]}"


def serve(runner: "Runner", traffic: Expected, requests: int) -> list[ServedBatch]:
    """`requests` batches of random prompts, from closed-loop clients that wait in line."""
    from kernels.runners.clients import Clients

    clients = Clients(runner, traffic, seed=7)
    clients.warm_up()
    for _ in range(requests):
        clients.serve()
    return clients.served


def refusal(traffic: Expected) -> str:
    """Why the metric cannot be measured here, in a sentence; "" when it can."""
    if traffic.metric == "cost_per_mtok":
        return f"expected.metric: {traffic.metric} needs a price; run a plan whose first objective is a time"
    if traffic.metric == "ttf_n" and not 1 <= (traffic.n or 0) <= traffic.output_tokens:
        return f"expected.n: token {traffic.n} is none of the {traffic.output_tokens} output tokens"
    if traffic.metric in ("itl", "tpot") and traffic.output_tokens < 2:
        return f"expected.metric: {traffic.metric} needs two output tokens or more"
    return ""


def _document(
    plan: Plan, environment: dict[str, Any], traffic: Expected, samples: list[float], requests: int
) -> RunDocument:
    value, low, high = median_interval(samples)
    expected = plan.expected
    same = expected.device == environment["device"] if expected else None
    within = expected.low <= value <= expected.high if expected else None
    return RunDocument(
        environment=environment,
        model_digest=plan.model_digest,
        metric=traffic.metric,
        unit=traffic.unit,
        requests=requests,
        value=value,
        low=low,
        high=high,
        samples=samples,
        expected=expected,
        same_device=same,
        within=within,
        sentence=_sentence(traffic, environment["device"], (value, low, high), expected, bool(same)),
    )


def _sentence(
    traffic: Expected, device: str, measured: tuple[float, float, float], expected: Expected | None, same: bool
) -> str:
    value, low, high = measured
    label = f"TTF{traffic.n}" if traffic.metric == "ttf_n" else traffic.metric.replace("_", " ").upper()
    figure = f"{label} p50 {value:.4g} {traffic.unit} (95 % interval {low:.4g} to {high:.4g}) on {device}"
    if expected is None:
        return f"{figure}. The plan expects nothing to compare this with."
    other = f"{expected.value:.4g} {expected.unit} ({expected.low:.4g} to {expected.high:.4g})"
    if not same:
        return f"{figure}. The plan expects {other} on {expected.device}: another device, so the two need not agree."
    if expected.low <= value <= expected.high:
        return f"{figure}. The plan expects {other}: this lies within its interval."
    if low <= expected.high and high >= expected.low:
        return f"{figure}. The plan expects {other}: the median lies outside its interval, but the intervals overlap."
    return f"{figure}. The plan expects {other}: this lies outside its interval."
