"""Every Triton kernel of ours and of docs/examples is right in Triton's interpreter: the files `interpreted_*.py`."""

from pathlib import Path

from tests.kernels import interpreting

FOLDER = Path(__file__).parent
FILES = (
    "attention/interpreted_decode.py", "attention/interpreted_prefill.py", "runners/interpreted_experts.py",
    "runners/interpreted_prompts.py", "fused/interpreted_fused.py", "server/interpreted_kernels.py",
    "proof/interpreted_names.py", "interpreted_examples.py",
)  # fmt: skip


def test_they_are_right_under_the_interpreter() -> None:
    interpreting.run_tests(*(FOLDER / name for name in FILES))
