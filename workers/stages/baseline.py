"""Measures what the customer runs today, at the workload's traffic."""

import time
from typing import Any

import torch

from kernels import runners
from workers.cost.pricing import hourly_price
from workers.documents.stages import BaselineResult, StageInput
from workers.harness.context import Context, StageError
from workers.measuring.alternation import warm_clients
from workers.measuring.served_model import device_of, dtype_of, load_once, prepared, watch_device
from workers.planning import placements
from workers.planning.trials import keeps, primary
from workers.stats.intervals import tokens_per_second
from workers.stats.sample_sizes import MIN_REQUESTS, distributions, is_enough

MEASURE_SECONDS = 4.0
"""Requests are measured for this long, unless their objectives are decided before. Verify measures the same runner
again, beside the plan."""
MIN_MEASURED = 2
"""Requests that are measured however long they take."""
MIN_REQUESTS_ON_CPU, CPU_SHARE = 6, 0.05
"""Requests that are measured on a CPU within this share of the minutes: a plan there is rarely so much faster that two
slow ones tell it from today's."""


def run(document: StageInput, context: Context) -> BaselineResult:
    """The baseline stage: requests until the objectives are decided or their time is spent."""
    context.report_progress(0.0, "loading the model")
    placed = placements.choose_placement(document, context) if document.tensor_parallel_size > 1 else {}
    model = load_once(document, context)
    if document.model.kind == "decoder":
        check_logits(model)
    workload = document.workload
    device = device_of(document.gpu_class)
    size = document.tensor_parallel_size
    usd_per_hour = hourly_price(document.prices, document.gpu_class, size)
    with prepared(runners.runner(workload.baseline_plan_runner, model), document) as runner:
        context.report_progress(0.2, "warming up")
        clients = warm_clients(document, runner, 1, context.shared)
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with watch_device(document) as environment:
            start = time.monotonic()
            while not is_enough(workload.objectives, clients.served, usd_per_hour):
                if has_enough(document, len(clients.served), time.monotonic() - start, context.seconds_left):
                    break
                clients.serve()
                done = len(clients.served)
                context.report_progress(0.2 + 0.8 * done / (done + MIN_REQUESTS), f"requests measured: {done}")
        peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
    served = clients.served
    return BaselineResult(
        environment=environment(),
        runner=workload.baseline_plan_runner,
        dtype=dtype_of(document),
        requests=sum(batch.requests for batch in served),
        distributions=distributions(document.model, workload.objectives, served, usd_per_hour),
        tokens_per_second=tokens_per_second(served),
        primary=primary(document, clients, size),
        keeps=keeps(document, clients, size),
        peak_memory_gib=peak,
        **placed,
    )


def has_enough(document: StageInput, done: int, seconds: float, seconds_left: float) -> bool:
    share = CPU_SHARE * 60 * document.workload.constraints.minutes if document.gpu_class == "cpu" else 0.0
    few = done < MIN_MEASURED or (done < MIN_REQUESTS_ON_CPU and seconds < share and seconds_left > 0)
    return (seconds > MEASURE_SECONDS or seconds_left <= 0) and not few


TOKENS = 8


def check_logits(model: Any) -> None:
    """One pass of a model that generates text. Raises StageError where its logits are no numbers, or all alike.

    Neither its answers nor a plan's fidelity could be judged then, after minutes of measuring.
    """
    generator = torch.Generator().manual_seed(11)
    ids = torch.randint(model.config.vocab_size, (1, TOKENS), generator=generator).to(model.device)
    with torch.inference_mode():
        logits = model(input_ids=ids).logits.float()
    if not bool(torch.isfinite(logits).all()):
        raise StageError(
            "The model's logits are not finite numbers, so nothing that it answers can be judged: its weights hold "
            "NaN or infinite values, or are too large for its precision.",
            refused=True,
            field="model",
        )
    if bool((logits.amax(-1) == logits.amin(-1)).any()):
        raise StageError(
            "The model gives every token the same logit, so nothing that it answers can be judged: its weights are "
            "zero, or hardly differ.",
            refused=True,
            field="model",
        )


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
