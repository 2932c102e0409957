"""Pages about the kernels, every variant and one document, and about the method."""

from itertools import groupby

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.text import capfirst
from django.views.decorators.http import require_safe

from kernels import registry
from workbench.library import documents, sources

TITLES = {"lm_head": "LM head", "model": "Whole models", "rmsnorm": "RMSNorm", "rope": "RoPE"}
"""Headings of operations whose names are more than words."""


@require_safe
def kernel_list(request: HttpRequest) -> HttpResponse:
    """Every variant by the part of the work that it does, and the documents."""
    variants = sorted(registry.variants(), key=lambda variant: (variant.op, variant.peer))
    context = {
        "ops": [(_title(op), list(group)) for op, group in groupby(variants, key=lambda variant: variant.op)],
        "pages": [(name, documents.page(name).title) for name in documents.names()],
    }
    return render(request, "library/kernels.html", context)


def _title(op: str) -> str:
    return TITLES.get(op) or capfirst(op.replace("_", " "))


@require_safe
def kernel_page(request: HttpRequest, name: str) -> HttpResponse:
    """One document."""
    try:
        page = documents.page(name)
    except KeyError as error:
        raise Http404("There is no such page.") from error
    about = [variant for variant in registry.variants() if variant.page == name]
    context = {"page": page, "variants": about, "sources": sources.of_page(name)}
    return render(request, "library/kernel.html", context)


@require_safe
def method(request: HttpRequest) -> HttpResponse:
    """What each word and figure means, by which formula it is computed, and when something counts as proven."""
    return render(request, "library/method.html", {"page": documents.method()})


@require_safe
def meanings(request: HttpRequest) -> JsonResponse:
    """What each word of the method means, by its id, for the explanations beside terms."""
    return JsonResponse(documents.method().meanings)
