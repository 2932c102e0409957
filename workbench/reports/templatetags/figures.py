"""Numbers on pages, printed as in the charts and the report."""

from django import template

from workers.charts import text

register = template.Library()

register.filter("number", text.number)
register.filter("quantity", text.quantity)
register.filter("dollars", text.dollars)
register.filter("percent", text.percent)
register.filter("scaled", text.scaled)


@register.filter
def case(candidate: object) -> str:
    """A candidate's case in a few words."""
    return text.case_label(candidate.op, candidate.case)  # type: ignore[attr-defined]


@register.filter
def seconds(value: float | None) -> str:
    """A duration: `0.4 s`, `42 s`, `3 min 05 s`."""
    if value is None:
        return ""
    if value < 10:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@register.filter
def size(value: int) -> str:
    """Bytes with a binary prefix."""
    amount = float(value)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
