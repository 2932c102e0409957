"""How many parameters a model has, as people say it."""

from django import template

from workers.wording.text import MISSING, number

register = template.Library()


@register.filter
def count(value: int) -> str:
    """A large count: `1.24 billion`; a dash when it is not known."""
    for factor, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if value >= 0.9995 * factor:  # 999.9 million are 1.00 billion by three digits
            return f"{number(value / factor)} {name}"
    return f"{value:,}" if value else MISSING
