"""The price of what the model gives, before and after, from the verified speed. Pure: no torch, no clock.

The whole GPU is charged to the tokens, images, … that are counted. Money never comes from a latency ratio alone.
"""

from workers.charts.text import plain
from workers.documents.base import Basis
from workers.documents.model import ModelManifest
from workers.documents.prices import CostLine, PriceBook, Sensitivity
from workers.documents.stages import PriceResult, StageInput, VerifyResult
from workers.documents.workload import Deployment, Traffic, Workload
from workers.harness.context import Context, StageError
from workers.pricing import GpuPrice, gpu_price, usd_per_mtok
from workers.verdicts import overall


def _holds(verdict: str) -> bool | None:
    return {"met": True, "missed": False}.get(verdict)


def _sides(verify: VerifyResult) -> tuple[bool | None, bool | None]:
    before = overall([each.verdict_before for each in verify.outcomes])
    return _holds(before), _holds(verify.verdict)


def _measured_line(
    label: str, device: str, price: GpuPrice, rate: float, holds: bool | None, workload: Workload, model: ModelManifest
) -> CostLine:
    known = rate if holds is not False else None
    return CostLine(
        label=label,
        gpu=device,
        usd_per_hour=price.typical,
        price_basis=price.basis,
        tokens_per_second=known,
        speed_basis="measured",
        usd_per_mtok=usd_per_mtok(price.typical, known) if known else None,
        usd_per_mtok_at_duty=usd_per_mtok(price.typical, known, workload.duty_cycle) if known else None,
        holds_sla=holds,
        note=_line_note(price, rate, holds, workload.traffic, model),
    )


def _line_note(price: GpuPrice, rate: float, holds: bool | None, traffic: Traffic, model: ModelManifest) -> str:
    cost = usd_per_mtok(price.typical, rate)
    said = []
    if holds is False:
        unit = model.counted
        said.append(f"The SLA does not hold; without it {plain(rate, 4)} {unit}/s at {plain(cost)} USD/M {unit}.")
    elif holds is None:
        said.append("Too few samples to say that the SLA holds.")
    if model.kind == "decoder":
        share = traffic.output_tokens / (traffic.prompt_tokens + traffic.output_tokens)
        said.append(f"Output tokens; over prompt and output tokens together {plain(cost * share)} USD/M.")
    elif model.counted == "tokens":
        said.append("Tokens are those the model reads.")
    elif model.counted in ("sequences", "embeddings"):
        said.append(f"One of the {model.counted} is the answer to a text of {traffic.prompt_tokens:,} tokens.")
    return " ".join(said)


def _stated_rate(present: Deployment, traffic: Traffic, model: ModelManifest) -> tuple[float | None, Basis, str]:
    """What the present deployment gives per second: stated, or modelled as one batch at a time at its latency."""
    rate = f"{model.counted}/s"
    if present.tokens_per_second is not None:
        return present.tokens_per_second, "stated", f"Latency, price and {rate} as stated."
    count = _in_latency(present, traffic, model)
    if count is None:
        metric = f"a {present.metric} alone says nothing of the price of {model.counted}"
        return None, "stated", f"No {rate} stated, and {metric}."
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


def _present_line(present: Deployment, workload: Workload, model: ModelManifest) -> CostLine:
    rate, basis, note = _stated_rate(present, workload.traffic, model)
    limits = [
        each.limit
        for each in workload.objectives
        if each.metric == present.metric and each.n == present.n and each.direction == "at_most"
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
    present: Deployment, verify: VerifyResult, traffic: Traffic, model: ModelManifest
) -> float | None:
    """The rate after, counted the way the present deployment's are: stated, or from the same metric."""
    if present.tokens_per_second is not None:
        return verify.tokens_per_second_after
    for each in verify.after:
        if (each.metric, each.n) == (present.metric, present.n):
            same = present.model_copy(update={"latency_ms": each.percentiles["p50"]})
            return _stated_rate(same, traffic, model)[0]
    return None


def present_ratio(workload: Workload, verify: VerifyResult, price: GpuPrice, model: ModelManifest) -> float | None:
    """How many times cheaper a token (or an image) is than in the present deployment: speed ratio times price ratio.

    281 ms on a GPU of twice the price against 77 ms: 281/77 = 3.65 times the speed, 7.3 times the economics. None
    where the book has no price, or the two speeds cannot be counted alike.
    """
    present = workload.present
    if present is None or price.basis == "modelled":
        return None
    now, _, _ = _stated_rate(present, workload.traffic, model)
    then = _like_for_like_rate(present, verify, workload.traffic, model)
    if not now or not then:
        return None
    return usd_per_mtok(present.usd_per_hour, now) / usd_per_mtok(price.typical, then)


def _sensitivity(price: GpuPrice, verify: VerifyResult, holds: tuple[bool | None, bool | None]) -> list[Sensitivity]:
    rates = [
        rate if side is not False else None
        for rate, side in zip((verify.tokens_per_second_before, verify.tokens_per_second_after), holds, strict=True)
    ]
    middle = (price.typical + price.high) / 2
    points = sorted({price.low, price.typical, round(middle, 2), price.high})
    return [
        Sensitivity(
            usd_per_hour=usd,
            before=usd_per_mtok(usd, rates[0]) if rates[0] else None,
            after=usd_per_mtok(usd, rates[1]) if rates[1] else None,
        )
        for usd in points
    ]


def _sentence(result: PriceResult, price: GpuPrice, verify: VerifyResult) -> str:
    gpu, recommended, void = verify.environment.device, verify.recommended, verify.environment.telemetry.void
    before, after = result.lines[0], result.lines[1]
    counted = result.counted
    if after.usd_per_mtok is None:
        start = f"The SLA does not hold on {gpu} at this traffic, so no {counted} served under it have a price there."
    else:
        start = (
            f"A million {counted} costs {plain(after.usd_per_mtok)} USD on {gpu} at {price.typical:.2f} USD per hour"
        )
        start += "" if after.holds_sla else " if the SLA holds there, for which there are too few samples"
        was = f", {plain(before.usd_per_mtok)} before" if before.usd_per_mtok else "; before, the SLA did not hold"
        start += f"{was if recommended else ', as it runs today'}."
    if result.before_after_ratio is not None:
        ratio = result.before_after_ratio
        start += f" At the same traffic and price, measured throughput gives {ratio:.2f}x the {counted} per dollar."
    if result.present_ratio is not None:
        start += f" Against the present deployment, speed and price together give {result.present_ratio:.2f}x."
    return " ".join(part for part in (start, void, price.note) if part)


def price(
    workload: Workload, book: PriceBook, gpu_class: str, verify: VerifyResult, model: ModelManifest
) -> PriceResult:
    """Unit costs before, after and of the present deployment, from what was measured per second and the book's prices.

    `before_after_ratio` is that of the measured rates at the same traffic and the same price, whether or not each side
    holds the SLA; the lines say which does. It is None where no change is recommended.
    """
    gpu = gpu_price(book, gpu_class)
    holds = _sides(verify)
    device = verify.environment.device
    rates = (verify.tokens_per_second_before, verify.tokens_per_second_after)
    lines = [
        _measured_line(label, device, gpu, rate, side, workload, model)
        for label, rate, side in zip(("before", "after"), rates, holds, strict=True)
    ]
    if workload.present is not None:
        lines.append(_present_line(workload.present, workload, model))
    result = PriceResult(
        book=book,
        lines=lines,
        before_after_ratio=rates[1] / rates[0] if rates[0] and verify.recommended else None,
        present_ratio=present_ratio(workload, verify, gpu, model),
        duty_cycle=workload.duty_cycle,
        sensitivity=_sensitivity(gpu, verify, holds),
        counted=model.counted,
        sentence="",
    )
    return result.model_copy(update={"sentence": _sentence(result, gpu, verify)})


def run(document: StageInput, context: Context) -> PriceResult:
    """The price stage. Raises StageError when the model has not been verified."""
    if document.results.verify is None:
        raise StageError("price: the run has no verified result to price")
    context.say(1.0, f"priced {document.model.counted} before and after")
    return price(document.workload, document.prices, document.gpu_class, document.results.verify, document.model)


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
