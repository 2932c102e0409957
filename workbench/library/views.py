"""Pages about the kernels, every variant and one document, and about the method."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.text import capfirst
from django.views.decorators.http import require_safe

from kernels import registry
from workbench.library import documents


class SourceFile(NamedTuple):
    """A file of the package `kernels`: its path, and its text."""

    path: str
    text: str

    @property
    def lines(self) -> int:
        return self.text.count("\n")


TITLES = {"lm_head": "LM head", "model": "Whole models", "rmsnorm": "RMSNorm", "rope": "RoPE"}
"""Headings of operations whose names are more than words."""


@require_safe
def kernel_list(request: HttpRequest) -> HttpResponse:
    """Every variant by the part of the work that it does, and the documents."""
    variants = sorted(registry.variants(), key=lambda variant: (variant.op, variant.peer))
    context = {
        "ops": [
            (TITLES.get(op) or capfirst(op.replace("_", " ")), list(group))
            for op, group in groupby(variants, key=lambda variant: variant.op)
        ],
        "pages": [(name, documents.page(name).title) for name in documents.names()],
    }
    return render(request, "library/kernels.html", context)


@require_safe
def kernel_page(request: HttpRequest, name: str) -> HttpResponse:
    """One document."""
    try:
        page = documents.page(name)
    except KeyError as error:
        raise Http404("There is no such page.") from error
    about = [variant for variant in registry.variants() if variant.page == name]
    context = {"page": page, "variants": about, "sources": of_page(name)}
    return render(request, "library/kernel.html", context)


@require_safe
def method(request: HttpRequest) -> HttpResponse:
    """What each word and figure means, by which formula it is computed, and when something counts as proven."""
    return render(request, "library/method.html", {"page": documents.method()})


@require_safe
def meanings(request: HttpRequest) -> JsonResponse:
    """What each word of the method means, by its id, for the explanations beside terms."""
    return JsonResponse(documents.method().meanings)


@cache
def of_page(name: str) -> list[SourceFile]:
    """The modules of the variants that the document `name` is about, what they import of their own folder, and the
    CUDA sources that these name; CUDA first.
    """
    variants = (variant for variant in registry.variants() if variant.page == name)
    waiting = list(dict.fromkeys(Path(inspect.getfile(type(variant))) for variant in variants))
    texts: dict[Path, str] = {}
    while waiting:
        file = waiting.pop(0)
        if file in texts or not file.exists():
            continue
        texts[file] = text = file.read_text("utf-8")
        waiting += [file.with_name(f"{module}.py") for module in _siblings(file, text)]
        waiting += [file.with_name(cuda) for cuda in re.findall(r'"(\w+\.cu)"', text)]
        waiting += (file.parent / "cuda").glob("*.cu")
        if '.with_suffix(".cu")' in text:
            waiting.append(file.with_suffix(".cu"))
    shown = sorted(texts, key=lambda file: file.suffix != ".cu")
    return [SourceFile(str(file.relative_to(settings.BASE_DIR)), texts[file]) for file in shown]


def _siblings(file: Path, text: str) -> Iterator[str]:
    """The modules of its own package that a module imports from."""
    package = ".".join(file.parent.relative_to(settings.BASE_DIR).parts)
    for node in ast.walk(ast.parse(text)) if file.suffix == ".py" else ():
        if isinstance(node, ast.ImportFrom) and node.module == package:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            yield str(node.module).removeprefix(f"{package}.").partition(".")[0]
