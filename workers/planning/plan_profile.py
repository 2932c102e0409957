"""Where a request of a plan spends its time: what is left, and how far it is from the floor."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import torch
from torch.autograd.profiler import record_function
from transformers import PreTrainedModel

from kernels import registry, runners
from kernels.measure.roofline import doubt
from kernels.model.loading import kind_of
from kernels.plan import Plan
from kernels.runners import Runner
from kernels.runners.compiled import CompiledRunner
from workers.documents.profile import OpRow, PlanProfile, ProfileResult
from workers.documents.stages import StageInput
from workers.harness.context import Context
from workers.measuring.served_model import dtype_of
from workers.planning import megakernel_profile
from workers.planning.precision import lowers_precision
from workers.traces import attribution, capture, graph_replays, reader, table, timeline
from workers.traces.attribution import DeviceWork
from workers.traces.capture import REQUESTS_TIMED, answer, median_ms, request
from workers.traces.labels import EXPERTS, UNATTRIBUTED, TraceScope
from workers.traces.op_counter import CountedOp
from workers.traces.windows import MAX_STEPS, TracedWindows, Window, longer, windows
from workers.wording.errors import error_sentence
from workers.wording.plan_profile import MEGAKERNEL
from workers.wording.text import percent, plain

SECONDS_NEEDED = 8.0
"""With less of the stage left, the plan is not profiled."""
ROWS_NAMED = 3
OPERATIONS = {
    "attention": "attention",
    "step_attention": "attention",
    "linear": "linear",
    "grouped": EXPERTS,
    "rmsnorm": "norm and residual",
    "gated": "gated activation",
    "rope": "rope and kv cache update",
    "lm_head": "lm_head",
    "fft_conv": "long convolution",
}
"""What rows call the operations whose kernels this library's variants declare."""


def profile_plan(
    runner: Runner, plan: Plan, model: PreTrainedModel, document: StageInput, prompt: torch.Tensor, context: Context,
    reserve: float = 0.0,
) -> PlanProfile | str:  # fmt: skip
    """The profile of `runner`, which runs `plan` and is prepared; `model` is the eager one, `prompt` [batch, length].

    `reserve` seconds of the stage are not spent on what goes on inside a megakernel. A sentence says why there is no
    profile: the run has none of the baseline, whose ceilings and floor it needs, too little time is left, or the runner
    cannot be traced.
    """
    before = document.results.profile
    if before is None:
        return "The plan was not profiled: the run has no profile of what runs today."
    if (rest := max(0.0, context.seconds_left)) < SECONDS_NEEDED:
        return f"The plan was not profiled: that takes {SECONDS_NEEDED:.0f} s, and {rest:.0f} s of the stage were left."
    try:
        profile = _profile(runner, plan, model, document, before, prompt, context)
    except (RuntimeError, OSError) as error:  # the verdict's samples are worth more than the profile
        return f"The plan was not profiled: it could not be traced. {error_sentence(error)}"
    if plan.runner != MEGAKERNEL:
        return profile
    context.report_progress(0.95, "recording what goes on inside the megakernel")
    steps, seconds = document.workload.traffic.output_tokens - 1, context.seconds_left - reserve
    return megakernel_profile.with_breakdown(profile, runner, prompt, steps, before.ceilings, seconds)


def _profile(
    runner: Runner, plan: Plan, model: PreTrainedModel, document: StageInput, before: ProfileResult,
    prompt: torch.Tensor, context: Context,
) -> PlanProfile:  # fmt: skip
    traffic, generates = document.workload.traffic, kind_of(model) == "decoder"
    steps = traffic.output_tokens - 1 if generates else 0
    request_ms = median_ms([answer(runner, prompt, steps + 1, generates) for _ in range(REQUESTS_TIMED)])
    spans = windows(steps) if plan.runner != "compiled" else [Window(0, min(steps, MAX_STEPS))]
    eager = runners.runner("eager", model)
    traced = TracedWindows()
    for index, window in enumerate(spans):
        ids = longer(prompt, window.skipped) if window.skipped else prompt
        shapes = capture.count(model, generates, request(eager, ids, window.steps + 1, generates))
        once = request(runner, ids, window.steps + 1, generates)
        once()
        traced.plain_ms += median(once() for _ in range(REQUESTS_TIMED))
        path = context.artifacts / f"plan-{index}.json"
        traced.traced_ms += _trace(runner, plan, model, generates, once, path)
        trace = reader.read(path)
        if plan.tensor_parallel_size > 1 and plan.placement == "tensor_parallel":
            trace = trace.of_gpu(prompt.device.index or 0)
        work = attribution.attribute(trace)
        traced.add(window, trace, work if plan.runner == "eager" else _named(work, shapes, plan), shapes)
    result = _result(traced, before, document, plan, request_ms, steps)
    kept, shown = timeline.keep(context.artifacts / "plan-0.json", traced.first, context, "plan-")
    return result.model_copy(update={"trace": kept, "timeline": shown})


def _trace(
    runner: Runner, plan: Plan, model: torch.nn.Module, generates: bool, once: Callable[[], float], path: Path
) -> float:
    """Traces one call into `path` and returns its ms. Only the eager runner calls modules that can be marked."""
    traced: list[float] = []
    marked = plan.runner == "eager"
    with _steps_marked(runner):
        capture.trace(runner.model if marked else model, generates, lambda: traced.append(once()), path, marked)
    return traced[0]


@contextmanager
def _steps_marked(runner: Runner) -> Iterator[None]:
    """Inside the block, traces name the phase of a compiled runner's prompt pass and of its steps.

    On a GPU the replayed graphs tell prompt and steps from each other, so nothing is marked there.
    """
    session = runner.session if isinstance(runner, CompiledRunner) else None
    if session is None or session.device.type == "cuda":
        yield
        return
    prefill, step = session.prefill, session.step

    def marked(call: Callable[..., object], phase: str) -> Callable[..., None]:
        def wrapped(*arguments: torch.Tensor) -> None:
            with record_function(TraceScope("step", phase).record):
                call(*arguments)

        return wrapped

    session.prefill, session.step = marked(prefill, "prefill"), marked(step, "decode")  # type: ignore[method-assign]
    try:
        yield
    finally:
        session.prefill, session.step = prefill, step  # type: ignore[method-assign]


def _named(work: list[DeviceWork], counted: list[CountedOp], plan: Plan) -> list[DeviceWork]:
    """The work with the names that CUDA graphs' kernels, and kernels outside modules, have by place or by name."""
    if not any(piece.launch >= 0 for piece in work):
        return work
    named = graph_replays.name_replays(work, counted)
    return [piece._replace(label=_own_name(piece, plan)) if piece.label == UNATTRIBUTED else piece for piece in named]


def _own_name(piece: DeviceWork, plan: Plan) -> str:
    if plan.runner == MEGAKERNEL and piece.kernel == "decode":
        return MEGAKERNEL
    own = (variant.op for variant in registry.variants() if piece.kernel in variant.kernels)
    return next((OPERATIONS[op] for op in own if op in OPERATIONS), "") or graph_replays.operation_of_name(piece.kernel)


def _result(
    traced: TracedWindows, before: ProfileResult, document: StageInput, plan: Plan, request_ms: float, steps: int
) -> PlanProfile:
    scale = traced.scale(steps)
    lower = lowers_precision(plan, dtype_of(document))
    rows = table.rows(traced.work, [] if lower else traced.counted, before.ceilings, scale)
    # Of the layers; the LM head of what runs today is whole, and so are layers that run in turn.
    shards = document.tensor_parallel_size if document.placement == "tensor_parallel" else 1
    whole = sum((1 if row.op == "lm_head" else shards) * (row.floor_ms or 0.0) for row in before.rows)
    floor = None if lower else whole / plan.tensor_parallel_size
    device_ms, launches = sum(row.ms for row in rows), table.launches(traced.work, scale)
    rows, launches = _launched_once(rows, launches) if plan.runner == MEGAKERNEL else (rows, launches)
    shared = f" Times and launches are those of the first of its {plan.tensor_parallel_size} GPUs, the floor is shared."
    return PlanProfile(
        request_ms=request_ms,
        device_ms=device_ms,
        launches=launches,
        attributed_share=table.attributed_share(rows),
        floor_ms=floor,
        rows=table.add_idle(rows, request_ms),
        sentence=sentence(rows, request_ms, device_ms, launches, floor, traced.on_gpu)
        + (shared if plan.placement == "tensor_parallel" and plan.tensor_parallel_size > 1 else ""),
    )


def _launched_once(rows: list[OpRow], launches: int) -> tuple[list[OpRow], int]:
    """Rows and launches with one launch of the megakernel for all tokens, in place of one in each window."""
    too_many = sum((row.launches or 1) - 1 for row in rows if row.op == MEGAKERNEL)
    once = {"calls": 1, "launches": 1}
    return [row.model_copy(update=once) if row.op == MEGAKERNEL else row for row in rows], launches - too_many


def sentence(
    rows: Sequence[OpRow], request_ms: float, device_ms: float, launches: int, floor_ms: float | None, on_gpu: bool
) -> str:
    """What a request of the plan takes, where most is left, and what the floor is. `rows` without idle time."""
    what = "launches on the device" if on_gpu else "operations"
    doubtful = table.beyond(device_ms, request_ms)
    spent = "made of" if doubtful else f"{plain(min(device_ms, request_ms))} ms of it in"
    sentence = f"{doubtful} " if doubtful else ""
    sentence += f"A request of the plan takes {plain(request_ms)} ms, {spent} {launches:,} {what}"
    total_ms = device_ms or 1.0
    most = ", ".join(
        f"{row.op} ({row.phase or 'no phase'}, {percent(row.ms / total_ms, 0) if doubtful else f'{plain(row.ms)} ms'})"
        for row in rows[:ROWS_NAMED]
    )
    sentence += f"; most of that is {most}" if most else ""
    if not floor_ms:
        return f"{sentence}; there is no measured floor of its operations in its precision."
    if doubt(floor_ms, request_ms):
        return f"{sentence}; the floor by the measured ceilings is longer than that, so one of the two is wrong."
    return f"{sentence}; the model's operations cannot take less than {plain(floor_ms)} ms by the measured ceilings."
