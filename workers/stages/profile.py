"""Where the time of one request goes: traced once, counted once, joined into a table with its bottlenecks."""

from collections.abc import Callable, Sequence
from statistics import median

import torch

from kernels import engine
from kernels.engine import Generation, Runner
from kernels.engine.clients import Clients
from kernels.measure import ceilings
from workers.documents.measurement import Ceilings
from workers.documents.stages import OpRow, ProfileResult, StageInput
from workers.documents.traffic import Traffic
from workers.harness.context import Context
from workers.measuring.conditions import watched
from workers.measuring.served_model import device_of, kind_of, load, prepared
from workers.traces import attribution, capture, graph_replays, reader, table, timeline
from workers.traces.bottlenecks import RequestFacts, bottlenecks, waits
from workers.traces.cases import profiled_cases
from workers.traces.census import CountedOp
from workers.traces.windows import Sampled, Window, longer, sample, windows

REQUESTS_TIMED = 3
SECONDS_FOR_GRAPHS = 15.0
"""Compiling may take longer than is left, but compose finds the compilers' caches warm and gets that time back."""


def _answer(runner: Runner, prompt: torch.Tensor, tokens: int, generates: bool) -> Generation:
    return runner.generate(prompt, tokens) if generates else runner.encode(prompt)


def _phases_ms(answers: Sequence[Generation], generates: bool) -> dict[str, float]:
    """The median wall time in ms of each phase of a request."""
    first = median((each.times_ns[0] - each.start_ns) / 1e6 for each in answers)
    if not generates:
        return {"forward": first}
    return {"prefill": first, "decode": median((each.times_ns[-1] - each.times_ns[0]) / 1e6 for each in answers)}


def _request(runner: Runner, prompt: torch.Tensor, tokens: int, generates: bool) -> Callable[[], float]:
    """Runs one request and gives its wall time in ms."""

    def once() -> float:
        answer = _answer(runner, prompt, tokens, generates)
        return (answer.times_ns[-1] - answer.start_ns) / 1e6

    return once


def _scale(traffic: Traffic, traced_steps: int, generates: bool, host: float) -> table.Scale:
    if not generates or not traced_steps:
        return table.Scale(host=host)
    return table.Scale(decode=(traffic.output_tokens - 1) / traced_steps, host=host)


def _replayed(
    document: StageInput, model: torch.nn.Module, prompt: torch.Tensor, counted: list[CountedOp], found: Ceilings,
    steps: int, context: Context,
) -> tuple[list[OpRow], float]:  # fmt: skip
    """The table of the same request by the compiled runner, whose kernels CUDA graphs replay, and its wall time.

    Its first decode steps stand for all: each reads the whole of a cache that is as long as the request will be.
    """
    path = context.artifacts / "replayed.json.gz"
    with prepared(engine.runner("compiled", model), document) as runner:
        wall = median(_request(runner, prompt, document.workload.traffic.output_tokens, True)() for _ in range(3))
        capture.trace(model, True, _request(runner, prompt, steps + 1, True), path)
    work = graph_replays.name_replays(attribution.attribute(reader.read(path)), counted)
    scale = _scale(document.workload.traffic, steps, True, 1.0)
    return table.rows(work, counted, found, scale), wall


def _wants_graphs(document: StageInput, context: Context, generates: bool) -> bool:
    if not generates or device_of(document.gpu_class) != "cuda":
        return False
    return document.workload.present_runner == "compiled" or context.seconds_left > SECONDS_FOR_GRAPHS


def run(document: StageInput, context: Context) -> ProfileResult:
    """The profile stage: always of the eager model, whose operations have names; of its CUDA graphs if time allows."""
    device, traffic = device_of(document.gpu_class), document.workload.traffic
    context.say(0.0, "measuring the device's ceilings")
    limits = Ceilings.model_validate(ceilings.measure_ceilings(device))
    context.say(0.25, "loading the model")
    model = load(document, context)
    generates = kind_of(model) == "decoder"
    runner = engine.runner("eager", model)
    runner.prepare(traffic.batch, traffic.prompt_tokens, traffic.output_tokens)
    prompt = Clients(runner, traffic, seed=3).draw()

    def part(window: Window) -> Callable[[], float]:
        return _request(
            runner, longer(prompt, window.skipped) if window.skipped else prompt, window.steps + 1, generates
        )

    with watched(document) as environment:
        answers = [_answer(runner, prompt, traffic.output_tokens, generates)]
        while len(answers) < REQUESTS_TIMED and context.seconds_left:
            answers.append(_answer(runner, prompt, traffic.output_tokens, generates))
        request_ms = median((each.times_ns[-1] - each.start_ns) / 1e6 for each in answers)
        context.say(0.5, "tracing one request")
        spans = windows(traffic.output_tokens - 1) if generates else [Window(0, 0)]
        sampled = sample(model, generates, spans, part, context.artifacts)
    context.say(0.7, "attributing the trace")
    work, counted = sampled.work, sampled.counted
    on_gpu = any(piece.launch >= 0 for piece in work)
    host = 1.0 if on_gpu else min(1.0, sampled.plain_ms / sampled.traced_ms)
    scale = _scale(traffic, sampled.steps, generates, host)
    rows = table.rows(work, counted, limits, scale)
    device_ms = sum(row.ms for row in rows)
    if table.beyond(device_ms, request_ms):
        answers = [_answer(runner, prompt, traffic.output_tokens, generates) for _ in range(REQUESTS_TIMED)]
        request_ms = median((each.times_ns[-1] - each.start_ns) / 1e6 for each in answers)
    launches = round(sum(scale.of(piece.phase) for piece in work))
    replayed: list[OpRow] = []
    replayed_share = None
    if _wants_graphs(document, context, generates):
        context.say(0.8, "tracing the compiled model's CUDA graphs")
        replayed, wall = _replayed(document, model, prompt, counted, limits, sampled.steps, context)
        replayed_share = table.attributed_share(replayed)
        replayed = table.with_idle(replayed, wall)
    shown = table.with_idle(rows, request_ms)
    doubt = table.beyond(device_ms, request_ms)
    request = RequestFacts(limits, on_gpu, launches, waits(rows, _phases_ms(answers, generates)), bool(doubt))
    trace, shown_timeline = timeline.keep(context.artifacts / "trace-0.json.gz", sampled.first, context)
    context.say(1.0, f"attributed {table.attributed_share(rows):.1%} of the device's time")
    return ProfileResult(
        environment=environment(),
        ceilings=limits,
        request_ms=request_ms,
        device_ms=device_ms,
        doubt=doubt,
        attributed_share=table.attributed_share(rows),
        launches=launches,
        rows=shown,
        bottlenecks=bottlenecks(shown, request),
        cases=profiled_cases(counted, rows, scale, traffic.prompt_tokens, traffic.output_tokens),
        replayed=replayed,
        replayed_share=replayed_share,
        notes=_notes(traffic, sampled, generates, on_gpu),
        trace=trace,
        timeline=shown_timeline,
    )


def _notes(traffic: Traffic, sampled: Sampled, generates: bool, on_gpu: bool) -> list[str]:
    notes, steps = [], traffic.output_tokens - 1
    if generates and sampled.steps < steps:
        notes.append(f"Traced: the prompt and {sampled.steps} decode steps, early, middle and late, scaled to {steps}.")
    if sampled.left_out:
        first = min(window.skipped for window in sampled.left_out)
        notes.append(
            f"Decode steps from the {first:,}th on did not fit into memory while traced: what grows with the cache, "
            "attention above all, takes longer than shown."
        )
    if not on_gpu:
        notes.append("On a CPU an operation's time is that of the host, less what the profiler adds to it.")
    return notes


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
