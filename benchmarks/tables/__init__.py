"""The tables of the documents, each written from the committed results: `TABLES` has them by name.

A table is a function without arguments that returns Markdown. Importing a module of this package registers its tables.
"""

import importlib
import pkgutil

from benchmarks.tables.writing import TABLES

for module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(module.name)

__all__ = ["TABLES"]
