"""Measures what the customer runs today, at the workload's traffic."""

import torch

from kernels import engine
from kernels.engine.clients import Clients
from workers.documents.stages import BaselineResult, StageInput
from workers.harness.context import Context
from workers.measuring.conditions import watched
from workers.measuring.sample_sizes import LEAST_REQUESTS, distributions, is_enough
from workers.measuring.served_model import device_of, dtype_of, load, prepared
from workers.measuring.sound_logits import check_logits
from workers.pricing import hourly_price
from workers.statistics import tokens_per_second

TIME_SHARE = 0.8
"""Share of the stage's seconds for loading and measuring; the rest is for finishing."""


def run(document: StageInput, context: Context) -> BaselineResult:
    """The baseline stage: requests until the objectives have their samples or the stage's time is spent."""
    reserve = (1 - TIME_SHARE) * context.seconds_left
    context.say(0.0, "loading the model")
    model = load(document, context)
    if document.model.kind == "decoder":
        check_logits(model)
    workload = document.workload
    device = device_of(document.gpu_class)
    usd_per_hour = hourly_price(document.prices, document.gpu_class)
    with prepared(engine.runner(workload.present_runner, model), document) as runner:
        clients = Clients(runner, workload.traffic, seed=1)
        context.say(0.2, "warming up")
        clients.warm_up()
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with watched(document) as environment:
            while not is_enough(workload.objectives, clients.served, usd_per_hour):
                if context.seconds_left <= reserve and len(clients.served) > 1:
                    break
                clients.serve()
                done = len(clients.served)
                context.say(0.2 + 0.8 * done / (done + LEAST_REQUESTS), f"requests measured: {done}")
        peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
    served = clients.served
    return BaselineResult(
        environment=environment(),
        runner=workload.present_runner,
        dtype=dtype_of(document),
        requests=sum(each.requests for each in served),
        distributions=distributions(document.model, workload.objectives, served, usd_per_hour),
        tokens_per_second=tokens_per_second(served),
        peak_memory_gib=peak,
    )


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
