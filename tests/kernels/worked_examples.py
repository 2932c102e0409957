"""Lets the files of docs/examples be imported as if they lay in the tree."""

import importlib
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def installed(*packages: str) -> None:
    """The files of `docs/examples`, where imports of these packages find them."""
    for package in packages:
        importlib.import_module(package).__path__.append(str(DOCS / "examples" / package.replace(".", "/")))
