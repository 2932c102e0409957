"""Every Triton kernel of ours is right in Triton's interpreter: the files `interpreted_*.py`, in one process.

A process of its own for each of them would import torch and Triton again, which takes as long as the tests.
"""

from pathlib import Path

from tests.kernels import interpreting

FOLDER = Path(__file__).parent
FILES = (
    "attention/interpreted_decode.py",
    "attention/interpreted_prefill.py",
    "runners/interpreted_experts.py",
    "runners/interpreted_prompts.py",
    "fused/interpreted_fused.py",
    "server/interpreted_kernels.py",
)


def test_they_are_right_under_the_interpreter() -> None:
    interpreting.run_tests(*(FOLDER / name for name in FILES))
