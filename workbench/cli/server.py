"""`workbench serve`: the server of `python -m kernels serve`, which needs none of the workbench's packages."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def start_server(options: Sequence[str]) -> NoReturn:
    """Becomes the server."""
    os.execv(sys.executable, [sys.executable, "-m", "kernels", "serve", *options])
