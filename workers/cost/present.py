"""The customer's present deployment, as stated, beside what was measured: its line of prices, and the ratios to it."""

from workers.cost.pricing import GpuPrice, usd_per_mtok
from workers.documents.base import Basis
from workers.documents.measurement import find_metric
from workers.documents.model import ModelManifest
from workers.documents.money import ServedLoad
from workers.documents.prices import CostLine
from workers.documents.stages import VerifyResult
from workers.documents.traffic import Traffic
from workers.documents.workload import Deployment, Workload, metric_title


def stated_rate(present: Deployment, traffic: Traffic, model: ModelManifest) -> tuple[float | None, Basis, str]:
    """What the present deployment gives per second: stated, or modelled as one batch at a time at its latency."""
    rate = f"{model.counted}/s"
    if present.tokens_per_second is not None:
        return present.tokens_per_second, "stated", f"Latency, price and {rate} as stated."
    count = _in_latency(present, traffic, model)
    if count is None:
        metric = metric_title(present.metric, present.n)
        return None, "stated", f"No {rate} stated, and {metric} alone says nothing of the price of {model.counted}."
    what = f"{count} of the {model.counted} a request in the stated {present.latency_ms:g} ms, batch by batch"
    return traffic.batch * count / present.latency_ms * 1000, "modelled", f"{rate.capitalize()} modelled: {what}."


def _in_latency(present: Deployment, traffic: Traffic, model: ModelManifest) -> int | None:
    """How many of the model's answers one request gets within the stated latency; None where it does not say."""
    if model.kind == "decoder":
        whole = traffic.output_tokens
        return {"ttf_n": present.n, "e2e": whole, "batch_latency": whole, "tpot": 1, "itl": 1}.get(present.metric)
    if present.metric not in ("e2e", "batch_latency"):
        return None
    return traffic.prompt_tokens if model.counted == "tokens" else 1


def present_line(present: Deployment, workload: Workload, model: ModelManifest) -> CostLine:
    rate, basis, note = stated_rate(present, workload.traffic, model)
    limits = [
        objective.limit
        for objective in workload.objectives
        if (objective.metric, objective.n, objective.direction) == (present.metric, present.n, "at_most")
        and objective.limit is not None
    ]
    return CostLine(
        label="present deployment",
        gpu=present.gpu,
        usd_per_hour=present.usd_per_hour,
        price_basis="stated",
        tokens_per_second=rate,
        speed_basis=basis,
        usd_per_mtok=usd_per_mtok(present.usd_per_hour, rate) if rate else None,
        usd_per_mtok_at_duty=usd_per_mtok(present.usd_per_hour, rate, workload.duty_cycle) if rate else None,
        holds_sla=all(present.latency_ms <= limit for limit in limits) if limits else None,
        note=note,
    )


def _like_for_like_rate(
    present: Deployment, verify: VerifyResult, traffic: Traffic, model: ModelManifest, after: ServedLoad | None
) -> float | None:
    """The rate after, counted the way the present deployment's are: stated, or from the same metric."""
    if present.tokens_per_second is not None:
        return after.per_second.value if after else None
    distribution = find_metric(verify.after, (present.metric, present.n))
    if distribution is None:
        return None
    return stated_rate(present.model_copy(update={"latency_ms": distribution.percentiles["p50"]}), traffic, model)[0]


def present_ratios(
    workload: Workload, verify: VerifyResult, price: GpuPrice, model: ModelManifest, after: ServedLoad | None
) -> tuple[float, float] | None:
    """How many times the present deployment's speed, and its price of an hour over the book's of the plan's GPUs.

    Their product is how many times cheaper a token (or an image) is: 281 ms on a GPU of 1.97 times the price against
    77 ms are 281/77 = 3.65 in speed, and 7.2 in money. None where the book has no price, or the two speeds cannot be
    counted alike.
    """
    present = workload.present
    if present is None or price.basis == "modelled":
        return None
    now, _, _ = stated_rate(present, workload.traffic, model)
    then = _like_for_like_rate(present, verify, workload.traffic, model, after)
    if not now or not then:
        return None
    return then / now, present.usd_per_hour / (price.typical * verify.gpus)
