"""Numbers on pages, printed as in the charts and the report."""

import re
from collections.abc import Callable
from typing import Any

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from workers.documents.measurement import Distribution
from workers.documents.workload import metric_title
from workers.wording import text

register = template.Library()


def _figure(write: Callable[..., str]) -> Callable[..., str]:
    """A filter that prints a dash for a value that is missing, which templates turn into an empty string."""

    def printed(value: Any, argument: Any = None) -> str:
        if value in (None, ""):
            return text.MISSING
        return write(value) if argument is None else write(value, argument)

    return printed


for write in (
    text.number,
    text.plain,
    text.quantity,
    text.dollars,
    text.percent,
    text.points,
    text.of_floor,
    text.scaled,
    text.times,
    text.objective_limit,
):
    register.filter(write.__name__, _figure(write))


UNITS = "ms|µs|ns|s|min|h|%|x|K|M|G|GB|GiB|MiB|KiB|MHz|W|nats|USD|TB/s|GB/s|TFLOP/s|tokens/s|images/s|requests/s"
_NUMBER = rf"\$?\d[\d,.]*(?: (?:to|of) \d[\d,.]*)? ?(?:{UNITS})(?![\w/])"
_QUANTITY = re.compile(rf"{_NUMBER}|\d[\d,.]* to \d[\d,.]*\d|--[a-z-]+ \d+")


@register.filter
def unbroken(sentence: str) -> SafeString:
    """A sentence whose numbers stay on one line with their units, and options with their values."""
    parts, at = [], 0
    for match in _QUANTITY.finditer(sentence):
        parts += [escape(sentence[at : match.start()]), format_html('<span class="nowrap">{}</span>', match[0])]
        at = match.end()
    return SafeString("".join([*parts, escape(sentence[at:])]))


@register.filter
def tera(value: float, unit: str) -> str:
    """A rate given in units of 10¹², with the prefix that suits it: `4.48 TB/s`, `5.22 GB/s`."""
    return text.scaled(value * 1e12, unit)


@register.filter
def metric(distribution: Distribution) -> str:
    """The name of a distribution's metric: TTF64, TPOT."""
    return metric_title(distribution.metric, distribution.n)


@register.filter
def count(value: Any) -> str:
    """A whole number with its thousands separated."""
    return text.MISSING if value in (None, "") else f"{value:,}"


@register.filter
def case(candidate: object) -> str:
    """A candidate's case in a few words."""
    return text.case_label(candidate.op, candidate.case)  # type: ignore[attr-defined]


@register.filter
def seconds(value: Any) -> str:
    """A duration: `0.4 s`, `42 s`, `3 min 05 s`."""
    if value in (None, ""):
        return ""
    if value < 10:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@register.filter
def size(value: Any) -> str:
    """Bytes with a binary prefix."""
    if value in (None, ""):
        return text.MISSING
    amount = float(value)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
