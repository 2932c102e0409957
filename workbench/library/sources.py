"""The source of the kernels that a document is about, as it is installed here."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from kernels import registry


class SourceFile(NamedTuple):
    """A file of the package `kernels`: its path, and its text."""

    path: str
    text: str

    @property
    def lines(self) -> int:
        return self.text.count("\n")


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
