"""The whole workbench on one machine without a server: `workbench up`, `make demo`, browser tests."""

from workbench.embedded.process import EmbeddedError
from workbench.embedded.stack import Workbench, main

__all__ = ["EmbeddedError", "Workbench", "main"]
