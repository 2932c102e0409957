"""Python programs in processes of their own, at the repository's root."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def python(*arguments: str, env: Mapping[str, str] | None = None, text: str = "") -> str:
    """What `python ARGUMENTS` prints, with more environment and the input `text`. A status other than 0 fails."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**os.environ, **(env or {})}, input=text,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout
