"""The first page of a report, for who decides: what is promised, what was found, what it saves, and what to do."""

from kernels.ops import BYTES, MODEL_BYTES
from kernels.quant.formats import dense_precision, head_precision
from workers.charts import under_load
from workers.charts.plans import precisions_of
from workers.documents.load import UnderLoadResult
from workers.documents.money import SameLoad, StatedFleet
from workers.documents.stages import Results, VerifyResult
from workers.wording.stages import NOT_TRIED
from workers.wording.text import (
    VERDICT_LABELS,
    capitalised,
    dollars,
    number,
    objective_limit,
    percent,
    plain,
    quantity,
    when_before,
)

MAX_NAMED = 3
"""Plans that were not tried, by name on the first page."""
RISK = {
    "met": "Judged at 99 % confidence for this traffic on this device. Other lengths and arrivals were not measured.",
    "missed": "The promise is broken at this traffic: do not give it for this model on this device.",
    "not_enough_samples": "Too few requests were measured to say. A longer run decides.",
    "too_close": "The figures lie too near the limit. A longer run or another limit decides.",
}
VOID_RISK = "Other programs used the machine: these figures decide nothing. Run it again on an idle machine."
SHORT_RISK = "There was no time to try every plan. A longer run decides."


def rows(
    results: Results, verify: VerifyResult, same: SameLoad | None, demand: StatedFleet | None, plan: str, other: str
) -> list[tuple[str, str]]:
    """Name and sentence of each line; `plan` is the label of the chosen one, `other` says which other promise holds."""
    outcomes, quality = verify.outcomes, verify.quality
    lines = [
        (
            "Promise",
            "; ".join(f"{outcome.objective.label} {objective_limit(outcome.objective)}" for outcome in outcomes),
        ),
        ("Verdict", VERDICT_LABELS[verify.verdict]),
        (
            f"{capitalised(verify.compared_with)} and after",
            "; ".join(_change(verify, at) for at in range(len(outcomes))),
        ),
        ("Promise kept under load", under_load.kept_loads(results.load) if results.load else ""),
        ("Price under the promise", _price_within_sla(results)),
        ("Price at one load, promise or not", _at_one_load(same)),
        ("Saving a month", _saving(same, demand)),
        ("Risk", _risk(verify)),
        ("Quality", quality.summary if quality else "Quality was not measured." if verify.recommended else ""),
        ("Weights", words(verify)),
        ("Not tried", "" if verify.verdict == "met" else _not_tried(results)),
        ("Recommendation", f"{_recommendation(verify, plan, results.load)} {other}".strip()),
    ]
    return [(name, sentence) for name, sentence in lines if sentence]


def _risk(verify: VerifyResult) -> str:
    busy = verify.environment.busy_share is not None and verify.verdict in ("too_close", "not_enough_samples")
    if busy or any(outcome.void for outcome in verify.outcomes):
        return VOID_RISK
    short = verify.verdict == "not_enough_samples" and verify.minutes_wanted
    return SHORT_RISK if short else RISK[verify.verdict]


def _change(verify: VerifyResult, at: int) -> str:
    outcome = verify.outcomes[at]
    unit = outcome.objective.unit
    if not verify.recommended:
        return f"{outcome.objective.label} {quantity(outcome.before, unit)} as it runs today"
    return f"{outcome.objective.label} {quantity(outcome.before, unit)} → {quantity(outcome.after, unit)}"


def _price_within_sla(results: Results) -> str:
    if results.price is None:
        return ""
    before, after = results.price.lines[:2]
    if after.usd_per_mtok is None:
        return (
            "None: the promise is not kept." if after.holds_sla is False else "None: the promise is not shown to hold."
        )
    then = "; before, none, since the promise was not kept" if before.holds_sla is False else ""
    if before.usd_per_mtok is not None and results.verify and results.verify.recommended:
        then = f"; before, {dollars(before.usd_per_mtok)}"
    where = f"at {results.price.loads}{'' if after.holds_sla else ', if it holds'}"
    return f"{dollars(after.usd_per_mtok)} a million {results.price.counted}, {where}{then}"


def _at_one_load(same: SameLoad | None) -> str:
    if same is None:
        return ""
    return f"{dollars(same.usd_before.value)} → {dollars(same.usd_after.value)} a million, at {same.where}"


def _saving(same: SameLoad | None, demand: StatedFleet | None) -> str:
    """In dollars where the workload states its demand, else as a share of the bill."""
    if demand is not None:
        return demand.sentence
    if same is None or same.before.users == 1 or same.ratio <= 1:
        return ""
    return f"{percent(1 - 1 / same.ratio, 0)} of the bill for the same requests at {same.before.load}, promise or not."


def _not_tried(results: Results) -> str:
    """The plans that were not measured, each with its reason, and how long a run takes that measures them. Those that
    could have been tried come first.
    """
    trials = results.compose.trials if results.compose else []
    refused = (trial for trial in trials if trial.gate == "refused" and trial.reason)
    left_out = sorted(refused, key=lambda trial: not trial.skipped)
    words = [
        f"“{trial.label}”: {trial.reason.removeprefix(NOT_TRIED).removesuffix('.')}." for trial in left_out[:MAX_NAMED]
    ]
    if len(left_out) > MAX_NAMED:
        words.append(f"{len(left_out) - MAX_NAMED} more stand in the appendix.")
    if results.verify and results.verify.minutes_wanted:
        words.append(f"A run of {plain(results.verify.minutes_wanted)} minutes tries those that time was short for.")
    return " ".join(words)


def _recommendation(verify: VerifyResult, plan: str, load: UnderLoadResult | None) -> str:
    if not verify.recommended:
        return "Keep what runs today: no plan is shown to be better."
    if verify.verdict == "met":
        run = f"Run the plan “{plan}”" if plan else "Run the plan"
        if load and load.after and not load.after.limit.held:
            return f"{run}, but give the promise for the stated traffic alone: under load it is not shown to hold."
        return f"{run} and give the promise."
    return f"Do not give the promise yet. The plan “{plan}” comes nearest." if plan else ""


def words(verify: VerifyResult) -> str:
    """`Weights in int8 take 1.06 bytes each in place of 2; the mean KL divergence is …`; "" where none are rounded.

    The bytes are those of the plan's smallest weights. Of generated weights, classes and vectors no divergence is told.
    """
    dtype, quality = str(verify.plan.get("dtype") or "bf16"), verify.quality
    smallest = min(precisions_of(verify.plan), key=lambda name: BYTES[name])
    if BYTES[smallest] >= BYTES["bf16"]:
        return ""
    brings = (
        f"Weights in {smallest.split('_')[0]} take {MODEL_BYTES[smallest]:.3g} bytes each in place of {BYTES[dtype]:g}"
    )
    head = head_precision(smallest) or dtype
    others = "those of the LM head" if dense_precision(smallest) else "those of other matrices"
    brings += f", {others}, in {head}, {MODEL_BYTES[head]:.3g}" if head != smallest else ""
    if quality is None or quality.kl_before is None or quality.called != "quality":
        return f"{brings}."
    before = when_before(verify.compared_with)
    return (
        f"{brings}; the mean KL divergence from float32 is {number(quality.kl_after)} nats after and "
        f"{number(quality.kl_before)} {before}."
    )
