"""Where the time of one request goes: traced once, counted once, joined into a table with its bottlenecks."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from kernels import runners
from kernels.measure import ceilings
from kernels.measure.environment import environment_info
from kernels.model.loading import kind_of
from kernels.runners import Runner
from kernels.runners.clients import Clients
from workers.documents.measurement import Ceilings
from workers.documents.profile import OpRow, ProfileResult
from workers.documents.stages import StageInput
from workers.documents.traffic import Traffic
from workers.harness.context import Context
from workers.measuring.served_model import device_of, load_once, prepared, watch_device
from workers.traces import attribution, capture, graph_replays, reader, table, timeline
from workers.traces.bottlenecks import RequestFacts, bottlenecks, paces, waits
from workers.traces.capture import REQUESTS_TIMED, answer, request, wall_ms
from workers.traces.table import profiled_cases
from workers.traces.windows import TracedWindows, Window, longer, sample, windows
from workers.wording.text import percent

KNOWN_FOR = timedelta(hours=12)
"""So long the ceilings that a run has measured on a GPU hold for the next ones on it."""
SAMPLE_SECONDS = 4.0
"""Further windows of a request are traced only within this time: layers repeat, so the first one tells most of it."""


class WallTimes(NamedTuple):
    """The median wall times in ms of a request and of each of its phases."""

    request_ms: float
    phases: dict[str, float]


def _time_requests(runner: Runner, prompt: torch.Tensor, tokens: int, generates: bool) -> WallTimes:
    """Those of REQUESTS_TIMED requests; of fewer, but one, where these take longer than SAMPLE_SECONDS."""
    end = time.monotonic() + SAMPLE_SECONDS
    answers = [answer(runner, prompt, tokens, generates)]
    while len(answers) < REQUESTS_TIMED and time.monotonic() < end:
        answers.append(answer(runner, prompt, tokens, generates))
    firsts = [(item.times_ns[0] - item.start_ns) / 1e6 for item in answers]
    return _wall_times(firsts, [wall_ms(item) for item in answers] if generates else [])


def _of_baseline(document: StageInput) -> WallTimes | None:
    """Those of the requests that baseline served, where it ran the same runner and no request waited for another."""
    baseline, traffic = document.results.baseline, document.workload.traffic
    if baseline is None or baseline.runner != "eager" or traffic.concurrency > traffic.batch:
        return None
    samples = {dist.metric: dist.samples for dist in baseline.distributions if dist.n is None}
    if "batch_latency" in samples:
        return _wall_times(samples["batch_latency"], [])
    return _wall_times(samples["ttft"], samples["e2e"]) if {"ttft", "e2e"} <= samples.keys() else None


def _wall_times(firsts: Sequence[float], wholes: Sequence[float]) -> WallTimes:
    """Of times in ms until the first and the last token; the latter are none of a model that does not generate."""
    if not wholes:
        return WallTimes(median(firsts), {"forward": median(firsts)})
    decode = median(whole - first for first, whole in zip(firsts, wholes, strict=True))
    return WallTimes(median(wholes), {"prefill": median(firsts), "decode": decode})


def _sample_windows(runner: Runner, prompt: torch.Tensor, steps: int, generates: bool, folder: Path) -> TracedWindows:
    """The windows of a request with `steps` decode steps, counted and traced."""

    def in_window(window: Window) -> Callable[[], float]:
        ids = longer(prompt, window.skipped) if window.skipped else prompt
        return request(runner, ids, window.steps + 1, generates)

    end = time.monotonic() + SAMPLE_SECONDS
    planned = windows(steps) if generates else [Window(0, 0)]
    return sample(runner.model, generates, planned, in_window, folder, lambda: time.monotonic() < end)


def _profile_replay(
    document: StageInput, model: torch.nn.Module, prompt: torch.Tensor, sampled: TracedWindows, ceilings: Ceilings,
    context: Context,
) -> list[OpRow]:  # fmt: skip
    """The table of the same request by the compiled runner, whose kernels CUDA graphs replay, with its idle time.

    Its first decode steps stand for all: each reads the whole of a cache that is as long as the request will be.
    """
    path, steps, tokens = context.artifacts / "replayed.json", sampled.steps, document.workload.traffic.output_tokens
    with prepared(runners.runner("compiled", model), document) as runner:
        wall = median(request(runner, prompt, tokens, True)() for _ in range(REQUESTS_TIMED))
        capture.trace(model, True, request(runner, prompt, steps + 1, True), path)
    work = graph_replays.name_replays(attribution.attribute(reader.read(path)), sampled.counted)
    scale = table.TraceScale(decode=(tokens - 1) / steps if steps else 1.0)
    return table.add_idle(table.rows(work, sampled.counted, ceilings, scale), wall)


def _ceilings(document: StageInput, context: Context) -> Ceilings:
    """Those that an earlier run measured on this very GPU within KNOWN_FOR, else measured now."""
    facts = environment_info(device=device_of(document.gpu_class))
    stored, uuid, now = document.ceilings.get(document.gpu), facts.get("gpu_uuid", ""), datetime.now(UTC)
    same = stored and stored.at and uuid and stored.gpu_uuid == uuid
    if stored and same and now - datetime.fromisoformat(stored.at) < KNOWN_FOR:
        return stored
    context.report_progress(0.0, "measuring the device's ceilings")
    measured = ceilings.measure_ceilings(device_of(document.gpu_class))
    return Ceilings.model_validate({**measured, "gpu_uuid": uuid, "at": now.isoformat(timespec="seconds")})


def run(document: StageInput, context: Context) -> ProfileResult:
    """The profile stage: of the eager model, whose operations have names, and of CUDA graphs where these run today."""
    traffic = document.workload.traffic
    limits = _ceilings(document, context)
    context.report_progress(0.25, "loading the model")
    model = load_once(document, context)
    generates = kind_of(model) == "decoder"
    runner = runners.runner("eager", model)
    runner.prepare(traffic.batch, traffic.prompt_tokens, traffic.output_tokens)
    prompt, steps = Clients(runner, traffic, seed=3).draw(), traffic.output_tokens - 1
    with watch_device(document) as environment:
        wall = _of_baseline(document) or _time_requests(runner, prompt, traffic.output_tokens, generates)
        context.report_progress(0.5, "tracing one request")
        sampled = _sample_windows(runner, prompt, steps, generates, context.artifacts)
    context.report_progress(0.7, "attributing the trace")
    counted, scale = sampled.counted, sampled.scale(steps)
    rows = table.rows(sampled.work, counted, limits, scale)
    device_ms, share = sum(row.ms for row in rows), table.attributed_share(rows)
    if table.beyond(device_ms, wall.request_ms):
        wall = _time_requests(runner, prompt, traffic.output_tokens, generates)
    launches = table.launches(sampled.work, scale)
    replayed: list[OpRow] = []
    if generates and device_of(document.gpu_class) == "cuda" and document.workload.baseline_plan_runner == "compiled":
        context.report_progress(0.8, "tracing the compiled model's CUDA graphs")
        replayed = _profile_replay(document, model, prompt, sampled, limits, context)
    shown, doubt = table.add_idle(rows, wall.request_ms), table.beyond(device_ms, wall.request_ms)
    waiting, pace = waits(rows, wall.phases), paces(rows, wall.phases)
    facts = RequestFacts(limits, sampled.on_gpu, launches, waiting, bool(doubt), pace, generates)
    trace, shown_timeline = timeline.keep(context.artifacts / "trace-0.json", sampled.first, context)
    context.report_progress(1.0, f"attributed {percent(share, 1)} of the device's time")
    return ProfileResult(
        environment=environment(),
        ceilings=limits,
        request_ms=wall.request_ms,
        device_ms=device_ms,
        doubt=doubt,
        attributed_share=share,
        launches=launches,
        rows=shown,
        bottlenecks=bottlenecks(shown, facts),
        cases=profiled_cases(counted, rows, scale, traffic.prompt_tokens, traffic.output_tokens),
        replayed=replayed,
        replayed_share=table.attributed_share(replayed) if replayed else None,
        notes=_notes(traffic, sampled, generates),
        trace=trace,
        timeline=shown_timeline,
    )


def _notes(traffic: Traffic, sampled: TracedWindows, generates: bool) -> list[str]:
    notes, steps = [], traffic.output_tokens - 1
    if generates and sampled.steps < steps:
        where = "the first" if sampled.cut_short else "early, middle and late"
        notes.append(f"Traced: the prompt and {sampled.steps} decode steps, {where}, scaled to {steps}.")
    if sampled.left_out:
        first = min(window.skipped for window in sampled.left_out)
        notes.append(
            f"Decode steps from the {first:,}th on did not fit into memory while traced: what grows with the cache, "
            "attention above all, takes longer than shown."
        )
    if not sampled.on_gpu:
        notes.append("On a CPU an operation's time is that of the host, less what the profiler adds to it.")
    return notes


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
