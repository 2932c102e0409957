"""Numbers and verdicts as people read them: three significant digits, thousands separated, units beside them."""

import math
from datetime import UTC, datetime
from typing import Any

from workers.documents.base import Verdict
from workers.documents.model import ModelManifest
from workers.documents.traffic import Traffic
from workers.documents.workload import Objective, Sla

MISSING = "–"
VERDICTS: dict[str, str] = {
    "met": "met",
    "missed": "missed",
    "not_enough_samples": "not enough samples",
    "too_close": "too close to call",
}
VERDICT_LABELS = {verdict: words.capitalize() for verdict, words in VERDICTS.items()}


def in_a_sentence(verdict: Verdict) -> str:
    """What a promise is by its verdict, as a sentence ends: `met`, `missed`, `too close to call` or `undecided`."""
    return "undecided" if verdict == "not_enough_samples" else VERDICTS[verdict]


def number(value: float | None, digits: int = 3) -> str:
    """`value` with `digits` significant digits: 81.5, 1,071, 0.00213; a dash for None."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return MISSING
    size = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded value: 9.996 is 10.0
    if size < -4 or size > 12:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - size)}f}"


def plain(value: float, digits: int = 3) -> str:
    """`number` without the zeros that end it, for sentences: 10, 0.8, 3,860."""
    text = number(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def quantity(value: float | None, unit: str = "") -> str:
    """A number with its unit: `81.5 ms`, `$0.27`."""
    if value is None:
        return MISSING
    if unit.startswith("USD"):
        tail = unit.removeprefix("USD").removeprefix("/")
        return dollars(value) + (f" / {tail.replace('Mtok', 'M tokens')}" if tail else "")
    return f"{number(value)} {unit}".rstrip()


def before_words(sla: Sla, model: ModelManifest) -> str:
    """What before is: the runner that the workload says runs today.

    A model that does not generate text makes one forward pass for each request, whichever runner it has. It is never
    put under load, so vLLM is not measured with it.
    """
    if model.decodes_once:
        measured = "measured is one forward pass, of the encoder and of one decoder step"
        return f"what runs today, as stated: transformers, {sla.baseline_plan_runner}; {measured}"
    if model.kind != "decoder":
        return f"what runs today, as stated: transformers' own forward pass, {sla.baseline_plan_runner}"
    if sla.baseline_runner == "vllm":
        after = "; after is vLLM with the plan" if sla.after_runner == "vllm" else ""
        return f"vLLM, under load alone{after}; without load the plan is compared with {sla.compared_with}"
    how = "compiled with a static cache" if sla.baseline_runner == "compiled" else "eager"
    return f"what runs today, as stated: transformers' own generate, {how}"


def objective_limit(objective: Objective) -> str:
    """What an objective promises: `≤ 100 ms`, `≥ 1,000 tokens/s`, `≥ 1.5x faster`, which is than today."""
    if objective.limit is None:
        better = "as much" if objective.direction == "at_least" else "faster"
        return f"≥ {plain(objective.at_least_faster or 1.0)}x {better}"
    return f"{'≥' if objective.direction == 'at_least' else '≤'} {quantity(objective.limit, objective.unit)}"


def dollars(value: float | None) -> str:
    """USD with two decimals, or three significant digits below a dollar where they say more."""
    if value is None:
        return MISSING
    if abs(value) >= 1 or round(value, 2) == value:
        return f"${value:,.2f}"
    return f"${number(value)}"


def request_words(traffic: Traffic, model: ModelManifest) -> str:
    """A request in words: `128 prompt and 64 output tokens`, `texts of 128 tokens`, `one image a request`."""
    if model.kind == "decoder":
        return f"{traffic.prompt_tokens:,} prompt and {traffic.output_tokens:,} output tokens"
    step = ", with one decoder step" if model.decodes_once else ""
    if model.counted in ("images", "recordings"):
        return f"one {model.counted.removesuffix('s')} a request{step}"
    return f"texts of {traffic.prompt_tokens:,} tokens{step}"


def speed_words(speed: float) -> str:
    """How fast a recording is replayed: `the recorded speed`, `2.5 times the recorded speed`."""
    return "the recorded speed" if speed == 1 else f"{plain(speed)} times the recorded speed"


def traffic_words(traffic: Traffic) -> str:
    """A load in words: `one user`, `8 users`, `12.5 requests per second`, `2.5 times the recorded speed`."""
    if traffic.speed is not None:
        return speed_words(traffic.speed)
    return users_words(traffic.concurrency) if traffic.rate is None else rate_words(traffic.rate)


def users_words(count: int) -> str:
    """How many users: `one user`, `8 users`."""
    return "one user" if count == 1 else f"{count:,} users"


def rate_words(rate: float) -> str:
    """A rate of arrivals: `1 request per second`, `12.5 requests per second`."""
    return "1 request per second" if rate == 1 else f"{plain(rate)} requests per second"


def percent(value: float | None, digits: int = 1) -> str:
    """A share as a percentage; `value` is a fraction. A share that would be rounded to nothing is `<1 %`, `<0.1 %`."""
    if value is None:
        return MISSING
    least = 10.0**-digits
    if 0 < abs(100 * value) < least / 2:
        return f"<{least:.{digits}f} %" if value > 0 else f">-{least:.{digits}f} %"
    return f"{100 * value:.{digits}f} %"


def points(value: float | None, digits: int = 1) -> str:
    """The difference of two shares in percentage points; `value` is a fraction: `-2.4 points`."""
    return MISSING if value is None else f"{100 * value:+.{digits}f} points"


MOMENTS = {"minute": "%Y-%m-%d %H:%M", "second": "%Y-%m-%d %H:%M:%S", "clock": "%H:%M:%S"}
"""How exactly a time is told; `clock` leaves the day out."""


def moment(at: str | datetime, to: str = "second") -> str:
    """A time with its zone, in ISO 8601 where it is text, for people: `2026-11-23 20:38:51 UTC`."""
    known = datetime.fromisoformat(at) if isinstance(at, str) else at
    return f"{known.astimezone(UTC):{MOMENTS[to]}} UTC"


MAX_FLOOR_SHARE = 1.05
"""As `kernels.measure.roofline.MAX_FLOOR_SHARE`, which charts do not import; a test holds them equal."""


def possible(share: float | None) -> float | None:
    """A floor's share of a time; None where it is more than can be, as in results of versions that kept such shares."""
    return share if share is not None and share <= MAX_FLOOR_SHARE else None


def of_floor(share: float | None) -> str:
    """A floor's share of a time as a percentage; one that cannot be is missing."""
    return percent(possible(share), 0)


def capitalised(words: str) -> str:
    """The words with a capital first letter; the others stay as they are, unlike with `str.capitalize`."""
    return words[:1].upper() + words[1:]


def scaled(value: float | None, unit: str = "") -> str:
    """A large count with its SI prefix: 2.47 G."""
    if value is None:
        return MISSING
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{number(value / factor)} {prefix}{unit}"
    return f"{number(value)} {unit}".rstrip()


def before_label(compared_with: str) -> str:
    """What the values before are called where no change is recommended: `today`, or as `compared_with` says."""
    return "today" if compared_with == "before" else compared_with


def when_before(compared_with: str) -> str:
    """Behind a figure that was measured before: `before`, or `with generate of transformers`."""
    return "before" if compared_with == "before" else f"with {compared_with}"


def times(ratio: float, unit: str = "") -> str:
    """A ratio of before to after in words: `2.00x faster`, `1.25x slower`; of prices `2.00x cheaper`."""
    better, worse = ("cheaper", "dearer") if unit.startswith("USD") else ("faster", "slower")
    return f"{number(ratio)}x {better}" if ratio >= 1 else f"{number(1 / ratio)}x {worse}"


FUSED = {
    "bias": "with bias",
    "residual": "with residual",
    "swiglu": "with SwiGLU",
    "rmsnorm_scale": "after RMSNorm",
    "rmsnorm_scale_bias": "after RMSNorm, with bias",
    "rmsnorm_scale_swiglu": "after RMSNorm, with SwiGLU",
    "quantise": "into fp8",
}
"""Names of the operations fused into a product, by its epilogue."""
MORE = {"residual": "with residual", "quantise": "into fp8", "append": "with KV append", "paged": "in pages"}
"""Names of the operations fused into another op, by the field of its case."""


def case_label(op: str, case: dict[str, Any]) -> str:
    """A case in a few words: `linear 128×2048×8192 with SwiGLU`, `attention decode 1×32h×64 1×160`."""
    if op in ("linear", "lm_head"):
        label = f"{op.replace('_', ' ')} {case.get('m')}×{case.get('n', case.get('vocab'))}×{case.get('k')}"
        weights = "" if case.get("weights") == case.get("dtype") else str(case.get("weights"))
        epilogue = case.get("epilogue", "none")
        fused = "" if epilogue == "none" else FUSED.get(epilogue, epilogue)
        return " ".join(part for part in (label, weights, fused) if part)
    if op == "attention":
        kind = "not causal" if case.get("kind") == "prefill" and not case.get("causal", True) else case.get("kind", "")
        length = f"{case.get('q_len')}×{case.get('kv_len')}"
        return f"attention {kind} {case.get('batch')}×{case.get('heads')}h×{case.get('head_dim')} {length}"
    if op == "model":
        return f"whole model, batch {case.get('batch')}, {case.get('prompt')}+{case.get('tokens')} tokens"
    shape = "×".join(str(value) for value in case.values() if isinstance(value, int) and not isinstance(value, bool))
    more = [words for name, words in MORE.items() if case.get(name)]
    return " ".join([op.replace("_", " "), shape, *more])
