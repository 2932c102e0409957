"""vLLM beside this library's runners: what is said to its process, and what happens when that process misbehaves."""

from pathlib import Path
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.ops import ModelCase
from kernels.runners import vllm_runner
from kernels.runners.vllm_runner import VllmRunner
from kernels.runners.whole_model import WholeModel
from tests.kernels.runners import vllm_stand_in
from tests.kernels.runners.engine_models import load


@pytest.fixture
def model() -> Any:
    return load("llama", dtype="bf16")


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(vllm_stand_in.environment(tmp_path, honest=False)))


@pytest.mark.parametrize(
    ("name", "engine"), [("vllm", "in process"), ("vllm_async", "asynchronous, its core in a process of its own")]
)
def test_it_answers_in_batches_says_what_it_runs_with_and_starts_anew(model, python, name, engine):
    """A batch has a token when every sequence has it; what the engine refuses is said in its words."""
    variant = registry.variant(name)
    assert isinstance(variant, WholeModel)
    runner = variant.build(ModelCase(model="", batch=2, prompt=8, tokens=4), {})(model)
    assert runner.starts_process
    runner.prepare(2, 8, 4)
    wanted = {"version": "0.0", "dtype": "bfloat16", "process_group": "nccl and gloo", "torch": torch.__version__}
    wanted |= {"attention_backend": "FLASH_ATTN", "flash_attn_version": 3, "engine": engine}
    assert {key: runner.settings[key] for key in wanted} == wanted
    first = runner._process.pid
    with pytest.raises(RuntimeError, match="vLLM: ValueError: the prompt is too long"):
        runner.generate(torch.zeros(2, 31, dtype=torch.int64), 4)
    made = runner.generate(torch.zeros(2, 8, dtype=torch.int64), 4)
    assert made.tokens == [[7] * 4] * 2
    assert len(made.times_ns) == 4
    assert made.start_ns < made.times_ns[0]
    assert made.times_ns == sorted(made.times_ns)
    if name == "vllm":
        assert runner.settings["async_scheduling"] is True
        runner.prepare(1, 8, 4)
        assert runner._process.pid != first
    runner.close()


def test_a_process_that_is_not_there_dies_or_is_late_is_a_sentence(model, monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("KERNELS_VLLM_PYTHON", raising=False)
    with pytest.raises(RuntimeError, match="KERNELS_VLLM_PYTHON is not set"):
        VllmRunner(model).prepare(1, 8, 4)
    failing = vllm_stand_in.program(tmp_path, "echo 'no such GPU' >&2; exit 1")
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(failing))
    runner = VllmRunner(model)
    with pytest.raises(RuntimeError, match=r"vLLM gave no answer .* no such GPU"):
        runner.prepare(1, 8, 4)
    runner.close()
    slow = vllm_stand_in.program(tmp_path, "exec sleep 60")
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(slow))
    runner = VllmRunner(model, {"start_seconds": 0.2})
    with pytest.raises(RuntimeError, match=r"vLLM gave no answer within 0\.2 s"):
        runner.prepare(1, 8, 4)
    runner.close()


@pytest.mark.parametrize(
    ("named", "number", "shown"),
    [
        ("GPU-2f6a53d0-0000", 3, {"CUDA_VISIBLE_DEVICES": "3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ("GPU-2f6a53d0-0000", None, {}), ("1", 1, {}), ("", 0, {}),
    ],
)  # fmt: skip
def test_a_gpu_that_is_named_by_its_uuid_is_shown_by_its_number(named, number, shown):
    """vLLM reads numbers only; a worker's GPU is named by its UUID."""
    assert vllm_runner._visible(named, lambda: number) == shown


def test_no_plan_is_made_of_it() -> None:
    assert not any(registry.variant(name).in_plans for name in ("vllm", "vllm_async"))
