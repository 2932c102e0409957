"""The tables of the documents, each written from the committed results: `TABLES` has them by name.

A table is a function without arguments that returns Markdown.
"""

from benchmarks.tables import (
    attention,
    bring_up,
    compiled,
    every_op,
    fft,
    fused,
    gemm,
    host,
    models,
    panel,
    predictions,
    serve,
    several_gpus,
    site,
)
from benchmarks.tables.writing import TABLES

__all__ = [
    "TABLES",
    "attention",
    "bring_up",
    "compiled",
    "every_op",
    "fft",
    "fused",
    "gemm",
    "host",
    "models",
    "panel",
    "predictions",
    "serve",
    "several_gpus",
    "site",
]
