"""Template tags of every page: navigation links, badges of verdicts and states, and the source of a number."""

from datetime import datetime
from typing import Any

from django import template
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from kernels import registry
from workers.wording import text

register = template.Library()

LABELS = {
    **text.VERDICT_LABELS,
    "queued": "Queued",
    "pending": "Waiting",
    "running": "Running",
    "done": "Done",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "lost": "Lost",
    "draft": "Draft",
    "reviewed": "Reviewed",
    "published": "Published",
}
SYMBOLS = {
    "met": "✓",
    "missed": "✗",
    "not_enough_samples": "…",
    "too_close": "≈",
    "failed": "!",
    "lost": "!",
    "done": "✓",
}

BASES = {
    "measured": "Measured here, with the device, libraries and commit of this run",
    "modelled": "Computed from a model, not measured",
    "stated": "Stated by the customer or taken from the price book",
}


@register.filter
def moment(at: datetime | None, to: str = "minute") -> str:
    """A time to the minute or to the second, or the clock's time alone, always in UTC and saying so; "" for none."""
    return text.moment(at, to) if at else ""


@register.simple_tag(takes_context=True)
def nav_link(context: dict[str, Any], name: str, label: str, *also: str) -> SafeString:
    """A link of the main navigation; `also` names the other pages that belong to it. Empty if the page is absent."""
    try:
        url = reverse(name)
    except NoReverseMatch:
        return SafeString("")
    match = getattr(context.get("request"), "resolver_match", None)
    here = match is not None and match.url_name in (name, *also)
    return format_html('<a href="{}"{}>{}</a>', url, SafeString(' aria-current="page"') if here else "", label)


@register.simple_tag(takes_context=True)
def sort_head(context: dict[str, Any], column: str, label: str) -> SafeString:
    """The head of a column that a list in pages is sorted by (`workbench.pages.filters`)."""
    order, query = context["request"].GET.get("sort", ""), context["request"].GET.copy()
    here = {column: "ascending", f"-{column}": "descending"}.get(order, "")
    query["sort"] = f"-{column}" if here == "ascending" else column
    query.pop("page", None)
    mark = format_html(' aria-sort="{}"', here) if here else ""
    return format_html('<th scope="col"{}><a class="sort" href="?{}">{}</a></th>', mark, query.urlencode(), label)


@register.simple_tag
def badge(state: str | None) -> SafeString:
    """A verdict or a state in words, with its colour and symbol."""
    if not state:
        return SafeString("")
    css = state.replace("_samples", "").replace("_", "-")
    label = LABELS.get(state, state.replace("_", " ").capitalize())
    symbol = SYMBOLS.get(state)
    mark = format_html('<span aria-hidden="true">{}</span> ', symbol) if symbol else ""
    return format_html('<span class="badge badge-{}">{}{}</span>', css, mark, label)


@register.simple_tag
def basis(kind: str, detail: str = "") -> SafeString:
    """A small mark that says whether a number is measured, modelled or stated; `detail` is its provenance."""
    title = detail or BASES.get(kind, "")
    return format_html(
        '<span class="basis basis-{0}" title="{1}">{0}<span class="visually-hidden"> ({1})</span></span>', kind, title
    )


TERMS = {"ttf_n": "ttf-n", "batch_latency": "batch-latency", "cost_per_mtok": "m-tokens", "answers": "classes"}
"""Anchors in docs/method.md of metrics, and of what quality compares, that are not their own names."""


@register.simple_tag
def term(label: str, anchor: str) -> SafeString:
    """A label that leads to the line of docs/method.md which says what it means; `anchor` may be a metric."""
    address = f"{reverse('method')}#{TERMS.get(anchor, anchor)}"
    return format_html('<a class="term" href="{}">{}</a>', address, label)


@register.simple_tag
def variant(name: str | None, label: str = "") -> SafeString:
    """A variant by its label or its name, linked to the page that says what it is; plain when this version has none."""
    registered = next((entry for entry in registry.variants() if entry.name == name), None)
    if registered is None:
        return format_html("{}", label or name or "")
    address = (
        reverse("kernel", args=[registered.page]) if registered.page else f"{reverse('kernel-list')}#{registered.name}"
    )
    return format_html('<a href="{}" title="{}">{}</a>', address, registered.summary, label or registered.name)
