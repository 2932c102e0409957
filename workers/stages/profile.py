"""Where the time of one request goes: traced once, counted once, joined into a table with its bottlenecks."""

from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from kernels import engine
from kernels.engine import Runner
from kernels.measure import ceilings
from workers.documents.base import Artifact
from workers.documents.measurement import Ceilings
from workers.documents.stages import OpRow, ProfileResult, StageInput
from workers.documents.workload import Traffic
from workers.harness.context import Context
from workers.measuring.conditions import watched
from workers.measuring.served_model import device_of, kind_of, load, prepared, vocabulary
from workers.measuring.traffic import Clients
from workers.traces import attribution, capture, graph_replays, reader, table
from workers.traces.bottlenecks import bottlenecks
from workers.traces.cases import cases
from workers.traces.census import Counted

TRACED_TOKENS = 17
"""The traced request generates this many tokens; the table is scaled to the whole request."""
MOST_TRACE_BYTES = 64 * 2**20
"""Bytes of JSON that the trace artifact keeps, before compression."""
REQUESTS_TIMED = 3
SECONDS_FOR_GRAPHS = 15.0
"""Compiling may take longer than is left, but compose finds the compilers' caches warm and gets that time back."""


def _request(runner: Runner, prompt: torch.Tensor, tokens: int, generates: bool) -> Callable[[], float]:
    """Runs one request and gives its wall time in ms."""

    def once() -> float:
        answer = runner.generate(prompt, tokens) if generates else runner.encode(prompt)
        return (answer.times_ns[-1] - answer.start_ns) / 1e6

    return once


def _keep_trace(path: Path, context: Context) -> Artifact:
    """The trace as an artifact: its first events when it is very large, so that a viewer still opens it."""
    short = reader.shorten(path, path.with_name("trace-kept.json.gz"), MOST_TRACE_BYTES)
    return context.keep(short, "trace.json.gz", "application/gzip")


def _scale(traffic: Traffic, traced: int, generates: bool, host: float) -> table.Scale:
    if not generates or traced < 2:
        return table.Scale(host=host)
    return table.Scale(decode=(traffic.output_tokens - 1) / (traced - 1), host=host)


def _replayed(
    document: StageInput, model: torch.nn.Module, prompt: torch.Tensor, counted: list[Counted], found: Ceilings,
    tokens: int, context: Context,
) -> tuple[list[OpRow], float]:  # fmt: skip
    """The table of the same request by the compiled runner, whose kernels CUDA graphs replay, and its wall time."""
    path = context.artifacts / "replayed.json.gz"
    with prepared(engine.runner("compiled", model), document) as runner:
        wall = median(_request(runner, prompt, document.workload.traffic.output_tokens, True)() for _ in range(3))
        capture.trace(model, True, _request(runner, prompt, tokens, True), path)
    work = graph_replays.name_replays(attribution.attribute(reader.read(path)), counted)
    scale = _scale(document.workload.traffic, tokens, True, 1.0)
    return table.rows(work, counted, found, scale), wall


def _wants_graphs(document: StageInput, context: Context, generates: bool) -> bool:
    if not generates or device_of(document.gpu_class) != "cuda":
        return False
    return document.workload.baseline_runner == "compiled" or context.seconds_left > SECONDS_FOR_GRAPHS


def run(document: StageInput, context: Context) -> ProfileResult:
    """The profile stage: always of the eager model, whose operations have names; of its CUDA graphs if time allows."""
    device, traffic = device_of(document.gpu_class), document.workload.traffic
    context.say(0.0, "measuring the device's ceilings")
    limits = Ceilings.model_validate(ceilings.measure_ceilings(device))
    context.say(0.25, "loading the model")
    model = load(document, context)
    generates = kind_of(model) == "decoder"
    traced = min(traffic.output_tokens, TRACED_TOKENS)
    path = context.artifacts / "trace.json.gz"
    runner = engine.runner("eager", model)
    runner.prepare(traffic.batch, traffic.prompt_tokens, traffic.output_tokens)
    prompt = Clients(runner, traffic, kind_of(model), vocabulary(model), device, seed=3).draw()
    with watched(document) as environment:
        whole, part = (_request(runner, prompt, tokens, generates) for tokens in (traffic.output_tokens, traced))
        request_ms = median(whole() for _ in range(REQUESTS_TIMED))
        part_ms = median(part() for _ in range(REQUESTS_TIMED))
        context.say(0.5, "tracing one request")
        counted = capture.count(model, generates, part)
        slowed: list[float] = []
        capture.trace(model, generates, lambda: slowed.append(part()), path)
    context.say(0.7, "attributing the trace")
    work = attribution.attribute(reader.read(path))
    on_gpu = any(piece.launch >= 0 for piece in work)
    scale = _scale(traffic, traced, generates, 1.0 if on_gpu else min(1.0, part_ms / slowed[0]))
    rows = table.rows(work, counted, limits, scale)
    launches = round(sum(scale.of(piece.phase) for piece in work))
    replayed: list[OpRow] = []
    replayed_share = None
    if _wants_graphs(document, context, generates):
        context.say(0.8, "tracing the compiled model's CUDA graphs")
        replayed, wall = _replayed(document, model, prompt, counted, limits, traced, context)
        replayed_share = table.attributed_share(replayed)
        replayed = table.with_idle(replayed, wall)
    shown = table.with_idle(rows, request_ms)
    context.say(1.0, f"attributed {table.attributed_share(rows):.1%} of the device's time")
    return ProfileResult(
        environment=environment(),
        ceilings=limits,
        request_ms=request_ms,
        device_ms=sum(row.ms for row in rows),
        attributed_share=table.attributed_share(rows),
        launches=launches,
        rows=shown,
        bottlenecks=bottlenecks(shown, limits, on_gpu, launches),
        cases=cases(counted, rows, scale, traffic.prompt_tokens, traffic.output_tokens),
        replayed=replayed,
        replayed_share=replayed_share,
        notes=_notes(traffic, traced, generates, on_gpu),
        trace=_keep_trace(path, context),
    )


def _notes(traffic: Traffic, traced: int, generates: bool, on_gpu: bool) -> list[str]:
    notes = []
    if generates and traced < traffic.output_tokens:
        notes.append(f"Traced: the prompt and {traced - 1} decode steps, scaled to {traffic.output_tokens - 1}.")
    if not on_gpu:
        notes.append("On a CPU an operation's time is that of the host, less what the profiler adds to it.")
    return notes


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
