"""Runs tests in Triton's interpreter (no GPU, fp16 and fp32), in a process: Triton decides at its import."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kernels.ops import Case
from kernels.proof import gate, inputs
from kernels.proof.calls import outputs_of
from kernels.proof.gate import PoisonedEmpty
from kernels.proof.reference_cache import ReferenceCache
from kernels.registry import Variant

ROOT = Path(__file__).resolve().parents[2]


def run_tests(*paths: Path) -> None:
    """Runs files of tests in the interpreter. Raises AssertionError with pytest's report when one fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:django", "-p", __name__,
         "--noconftest", "-o", "addopts=--import-mode=importlib", "-c", os.devnull, "--rootdir", str(ROOT),
         *map(str, paths)],
        cwd=ROOT, env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@torch.no_grad()
def assert_right(
    variant: Variant, case: Case, params: dict[str, Any], kinds: Sequence[inputs.Magnitude] = inputs.KINDS
) -> None:
    """One function is right on inputs of these magnitudes, by the accuracy gate's limits."""
    function = variant.build(case, params)
    for seed, kind in enumerate(kinds):
        drawn = inputs.draw(case, "cpu", seed, kind)
        expected, _ = gate.expect(variant, case, params, drawn, (kind, seed), ReferenceCache())
        packed = gate.pack(variant, case, params, drawn)
        with PoisonedEmpty():
            outputs = outputs_of(case, packed, function(**packed))
        for comparison in expected.compare_all(outputs, f"on {kind} inputs"):
            assert comparison.holds, f"{case.key} {params}: {comparison}"


def pytest_configure() -> None:
    """Triton 3.6 converts a loop's bound to an integer in a way that numpy 2.4 refuses, and patches its language anew
    at each call of a function: a fifth of the time.
    """
    from triton.runtime import interpreter

    patch_tensor, patch_language, patched = interpreter._patch_lang_tensor, interpreter._patch_lang, set[int]()

    def tensor_patched(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    def language_patched(function: Any) -> Any:
        if id(function.__globals__) not in patched:
            patched.add(id(function.__globals__))
            patch_language(function)  # for good
        return interpreter._LangPatchScope()

    interpreter._patch_lang_tensor = tensor_patched
    interpreter._patch_lang = language_patched
