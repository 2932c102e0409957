"""The price of what the model gives, before and after, from the verified speed. Pure: no torch, no clock.

The whole GPU is charged to what is counted, such as tokens or images. Money never comes from a latency ratio alone.
"""

from collections.abc import Sequence

from workers.cost import arrangements
from workers.cost.arrangements import several_gpus
from workers.cost.loads import LoadPair, PriceBreakdown, at_any_load
from workers.cost.present import present_line, present_ratios
from workers.cost.pricing import GpuPrice, gpu_price, usd_per_mtok
from workers.cost.run_economics import run_economics
from workers.cost.same_load import same_load
from workers.documents.load import LoadCurve, UnderLoadResult
from workers.documents.model import ModelManifest
from workers.documents.money import ServedLoad
from workers.documents.prices import CostLine, PriceBook, PriceResult, Sensitivity
from workers.documents.stages import AdmitResult, PlanTrial, Results, StageInput, VerifyResult
from workers.documents.workload import Workload
from workers.harness.context import Context, StageError
from workers.wording.text import capitalised, dollars, number, plain, times

ONE_STEP = "Each pays for the encoder's pass and one decoder step, not for the text that the decoder writes after it."


def _measured_line(
    label: str,
    device: str,
    price: GpuPrice,
    side: ServedLoad | None,
    priced: PriceBreakdown,
    absence: tuple[bool | None, str],
) -> CostLine:
    """A side's line, without a cost where the hardware is not ours; `absence` is `_absence` of a missing `side`."""
    holds, note = (side.holds, _named(label, side, priced)) if side else absence
    rate = side.per_second.value if side and side.holds is not False else None
    usd = side.usd_per_hour if side else price.typical
    cost = usd_per_mtok(usd, rate) if rate and usd else None
    return CostLine(
        label=label,
        gpu=_gpus(side) if side else device,
        usd_per_hour=usd,
        price_basis=side.price_basis if side else price.basis,
        tokens_per_second=rate,
        speed_basis="measured",
        usd_per_mtok=cost,
        usd_per_mtok_at_duty=cost / priced.workload.duty_cycle if cost else None,
        holds_sla=holds,
        note=note,
    )


def _absence(curve: LoadCurve | None, loaded: bool) -> tuple[bool | None, str]:
    """Whether a side without a load to price holds the SLA, and why it has none; `loaded`: whether the price after
    stands at a searched load.
    """
    if curve is None and loaded:
        return None, "It was not measured under load, where the price after stands."
    if curve is None or curve.limit.missed:
        return False, "No load that was measured keeps the promises."
    return None, "No load is shown to keep the promises. The lowest that was measured is not shown to miss them."


def _named(label: str, side: ServedLoad, priced: PriceBreakdown) -> str:
    """The note; where vLLM is before under load, a price before that stands without load names what was measured."""
    compared_with = priced.workload.compared_with
    named = label == "before" and not side.highest and compared_with != "before"
    return f"{compared_with.capitalize()}. " * named + _line_note(side, priced)


def _gpus(side: ServedLoad) -> str:
    """The GPU by its name, and how many there are of it: `2 x NVIDIA H200`."""
    return side.gpu if side.gpus == 1 else f"{side.gpus} x {side.gpu}"


def _line_note(side: ServedLoad, priced: PriceBreakdown) -> str:
    model, traffic, rate = priced.model, priced.workload.traffic, side.per_second.value
    notes, unit = [f"At {side.load}, by {side.server}."] if side.highest else [], model.counted
    if side.gpus > 1 and side.usd_per_hour is not None:
        notes.append(f"{side.gpus} GPUs at {dollars(side.usd_per_hour / side.gpus)} an hour each.")
    if side.holds is False:
        cost = "" if side.usd_per_hour is None else f", {dollars(usd_per_mtok(side.usd_per_hour, rate))} a million"
        notes.append(f"The promise is missed. Ignoring it: {plain(rate, 4)} {unit}/s{cost}.")
    elif side.holds is None:
        notes.append("Too few samples to say that the promise holds.")
    if side.usd_per_hour is None:
        notes.append("What an hour of this hardware costs is not known here.")
    elif side.read_per_second is not None:
        both = usd_per_mtok(side.usd_per_hour, rate + side.read_per_second.value)
        notes.append(f"For output tokens. Prompt and output tokens together: {dollars(both)} a million.")
    elif model.counted == "tokens":
        notes.append("Tokens are those the model reads.")
    elif model.counted in ("sequences", "embeddings"):
        notes.append(f"Each of the {model.counted} is the answer to a text of {traffic.prompt_tokens:,} tokens.")
    return " ".join(notes)


def _sensitivity(price: GpuPrice, sides: LoadPair) -> list[Sensitivity]:
    rates = [side.per_second.value / side.gpus if side and side.holds is not False else None for side in sides]
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


def _sentence(result: PriceResult, price: GpuPrice, verify: VerifyResult, searched: bool) -> str:
    """The sentences. Where loads were `searched`, the prices stand at these, and the verdict is of another load."""
    sentences = [
        *_sla_cost_sentences(result, price, verify.recommended, searched),
        _same_load_sentence(result),
        _per_dollar_words(result),
        _against_present(result, verify.gpus),
        _at_load(result),
        verify.environment.telemetry.void,
        price.note,
    ]
    return " ".join(filter(None, sentences))


def _sla_cost_sentences(result: PriceResult, price: GpuPrice, recommended: bool, searched: bool) -> list[str]:
    """What a million costs while the promises hold, after and before."""
    before, after = result.lines[0], result.lines[1]
    gpu, counted = after.gpu, result.counted
    if after.usd_per_mtok is None:
        missed = after.holds_sla is False
        if searched:
            load = "No load" if missed else "Not even the lowest load"
            return [f"{load} {'keeps' if missed else 'is shown to keep'} the promises on {gpu}."]
        return [f"The promise is {'missed' if missed else 'not shown to hold'} on {gpu}."]
    written = "output tokens" if result.economics and result.economics.generates else counted
    start = "" if recommended else "As it runs today, "
    words = f"{start}a million {written} costs {dollars(after.usd_per_mtok)} on {gpu} at "
    sentences = [f"{capitalised(words)}{dollars(after.usd_per_hour or price.typical)} an hour."]
    if not after.holds_sla:
        sentences.append("There are too few samples to say that the promise holds there.")
    return [*sentences, _was(before, searched)] if recommended else sentences


def _was(before: CostLine, searched: bool) -> str:
    if before.usd_per_mtok is not None:
        return f"Before, it cost {dollars(before.usd_per_mtok)}."
    if before.holds_sla is False:
        return "Before, no load kept the promise." if searched else "Before, the promise was missed."
    return "What it cost before is not known."


def _same_load_sentence(result: PriceResult) -> str:
    """Both prices at one load, where a side has none under the promise; "" elsewhere."""
    both = result.same_load
    if both is None or all(line.usd_per_mtok is not None for line in result.lines[:2]):
        return ""
    after, before = dollars(both.usd_after.value), dollars(both.usd_before.value)
    return f"Promise or not, at {both.before.load}: {after} instead of {before} a million."


def _per_dollar_words(result: PriceResult) -> str:
    ratio, (before, after) = result.before_after_ratio, result.lines[:2]
    if ratio is None:
        return ""
    own = "" if before.usd_per_hour == after.usd_per_hour else ", each at its own price"
    return f"A dollar buys {number(ratio)}x the {result.counted} at {result.loads}{own}."


def _against_present(result: PriceResult, gpus: int) -> str:
    """The speed and the price of an hour beside those of the present deployment, and both together."""
    speed, money, together = result.present_speed_ratio, result.present_price_ratio, result.present_ratio
    if speed is None or money is None or together is None:
        return ""
    faster = (
        f"{number(speed)}x the {result.counted} per second" if result.present_speed == "throughput" else times(speed)
    )
    on = "a GPU" if gpus == 1 else f"{gpus} GPUs"
    cheaper = f"{on} {times(money, 'USD')}"
    return f"Against the present deployment, as stated: {faster} on {cheaper}, together {number(together)}x."


def _at_load(result: PriceResult) -> str:
    """The load at which the prices stand: what more at once does to them, a run of one load does not measure."""
    prices = {line.usd_per_mtok for line in result.lines[:2]} - {None}
    both = ", before as well as after" if len(prices) == 2 else ""
    if not prices:
        return ""
    if result.highest:
        return f"These prices stand at {result.loads}."
    alone = f" Their ratio is that of the latencies, so it is no ratio of {result.counted} per dollar."
    same = alone if result.at_once == 1 and len(prices) == 2 else ""
    return f"These prices stand at {result.load}{both}. Other loads were not measured.{same}"


def price(
    workload: Workload,
    book: PriceBook,
    gpu_class: str,
    verify: VerifyResult,
    model: ModelManifest,
    load: UnderLoadResult | None = None,
    trials: Sequence[PlanTrial] = (),
    admit: AdmitResult | None = None,
) -> PriceResult:
    """Unit costs before, after and of the present deployment, from what was measured per second and the book's prices.

    They stand at the highest loads that hold where `load` has searched both sides, else at the load of `verify`.
    `before_after_ratio` is that of the measured rates at the same price, whether or not each side holds the SLA; the
    lines say which does. It is None where no change is recommended, where a side has no rate, and at one request at a
    time, where the rates are reciprocals of the latencies: no money comes from a latency alone. A plan on several GPUs
    is compared with the best of compose's `trials` on one. `admit` has what was predicted of other divisions.
    """
    priced, results = PriceBreakdown(workload, model, book, gpu_class), Results(verify=verify, load=load)
    gpu, sides = gpu_price(book, gpu_class), priced.sides(results)
    after = sides[1]
    curves = [load.before, load.after if verify.recommended else load.before] if load else [None, None]
    loaded = bool(after and after.highest)
    lines = [
        _measured_line(label, verify.environment.device, gpu, side, priced, _absence(curve, loaded))
        for label, side, curve in zip(("before", "after"), sides, curves, strict=True)
    ]
    if workload.present is not None:
        lines.append(present_line(workload.present, workload, model))
    against = present_ratios(workload, verify, gpu, model, after)
    result = PriceResult(
        book=book,
        lines=lines,
        before_after_ratio=_per_dollar(sides) if verify.recommended else None,
        present_ratio=against[0] * against[1] if against else None,
        present_speed_ratio=against[0] if against else None,
        present_price_ratio=against[1] if against else None,
        present_speed="throughput" if workload.present and workload.present.tokens_per_second else "latency",
        at_once=after.users if after else workload.traffic.batch,
        highest=bool(after and after.highest),
        highest_load=after.load if after and after.highest else "",
        duty_cycle=workload.duty_cycle,
        sensitivity=_sensitivity(gpu, sides),
        counted=model.counted,
        economics=run_economics(priced, results),
        any_load=at_any_load(priced, results),
        same_load=same_load(priced, results),
        arrangement=arrangements.sentence(workload, admit.predicted, book, gpu_class, admit.tensor_parallel_size)
        if admit
        else "",
        sentence="",
    )
    several = several_gpus(verify, trials, workload.objectives[0], gpu.typical, model.counted)
    first = _sentence(result, gpu, verify, searched=curves[1] is not None)
    notes = [first, several, ONE_STEP if model.decodes_once else ""]
    return result.model_copy(update={"sentence": " ".join(filter(None, notes))})


def _per_dollar(sides: LoadPair) -> float | None:
    """After over before of what a dollar buys; None where a side has no rate or price, or both serve one at a time."""
    before, after = sides
    if before is None or after is None or not before.usd_per_hour or not after.usd_per_hour:
        return None
    if max(before.users, after.users) == 1:
        return None
    return after.per_second.value / before.per_second.value * before.usd_per_hour / after.usd_per_hour


def run(document: StageInput, context: Context) -> PriceResult:
    """The price stage. Raises StageError when the model has not been verified."""
    verify, load = document.results.verify, document.results.load
    if verify is None:
        raise StageError("price: the run has no verified result to price")
    context.report_progress(1.0, f"priced {document.model.counted} before and after")
    trials = document.results.compose.trials if document.results.compose else ()
    return price(
        document.workload,
        document.prices,
        document.gpu_class,
        verify,
        document.model,
        load,
        trials,
        document.results.admit,
    )


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
