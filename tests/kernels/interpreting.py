"""Runs Triton variants through the accuracy gate, or tests of them, in Triton's interpreter (fp16 and fp32 only).

It needs no GPU. Triton decides at its import whether it interprets, so both run in a process of their own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kernels.ops import Case

ROOT = Path(__file__).resolve().parents[2]


def gate(runs: list[tuple[str, Case, dict[str, Any]]]) -> dict[str, str]:
    """For each (variant, case, params) whose gate did not pass, its key and what the gate says."""
    given = json.dumps([(name, case.model_dump(), params) for name, case, params in runs])
    done = subprocess.run(
        [sys.executable, __file__],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(),
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    return json.loads(done.stdout.splitlines()[-1])


def run_tests(*paths: Path) -> None:
    """Runs files of tests in the interpreter. Raises AssertionError with pytest's report when one fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:django", "--noconftest",
         "-o", "addopts=--import-mode=importlib", "-c", os.devnull, "--rootdir", str(ROOT), *map(str, paths)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def environment() -> dict[str, str]:
    """The environment variables of a process in which Triton interprets."""
    return os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def let_tensors_be_bounds() -> None:
    """Triton 3.6 converts a loop's bound to an integer in a way that numpy 2.4 refuses."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patched


def _main() -> None:
    from kernels import registry
    from kernels.ops import case_from
    from kernels.proof import gate

    let_tensors_be_bounds()
    said = {}
    for name, dumped, params in json.load(sys.stdin):
        case = case_from.validate_python(dumped)
        report = gate.check(registry.variant(name), case, "cpu", params)
        if not report.passed:
            said[f"{name} {case.key} {params}"] = report.sentence
    print(json.dumps(said))


if __name__ == "__main__":
    _main()
