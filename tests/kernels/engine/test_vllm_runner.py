"""vLLM beside this library's runners: what is said to its process, and what happens when that process misbehaves.

The process runs a stand-in for vLLM's engine here, since vLLM needs a GPU; the real one is timed by `bench decode`.
"""

import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels import engine, registry
from kernels.engine.vllm_runner import VllmRunner
from tests.kernels.engine.engine_models import CONFIGS

STAND_IN = """
from types import SimpleNamespace as Some

__version__ = "0"


class SamplingParams:
    def __init__(self, **given):
        self.max_tokens = given["max_tokens"]


class LLM:
    '''Answers with id 7; the second sequence starts a step late, as chunked prefill makes it.'''

    def __init__(self, model, **given):
        compilation, scheduler = Some(cudagraph_mode="FULL"), Some(async_scheduling=True)
        self.llm_engine = self
        self.vllm_config = Some(compilation_config=compilation, scheduler_config=scheduler)
        self.left = {}

    def add_request(self, name, prompt, sampling):
        if len(prompt["prompt_token_ids"]) > 30:
            raise ValueError("the prompt is too long")
        self.left[name] = sampling.max_tokens + len(self.left)

    def has_unfinished_requests(self):
        return bool(self.left)

    def step(self):
        ready = [name for row, name in enumerate(self.left) if row == 0 or self.left[name] <= 4]
        for name in list(self.left):
            self.left[name] -= 1
            if not self.left[name]:
                del self.left[name]
        return [Some(request_id=name, outputs=[Some(token_ids=[7])]) for name in ready]
"""


def python_of(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Makes `KERNELS_VLLM_PYTHON` a program that runs `script`."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(program))


@pytest.fixture
def model() -> Any:
    return engine.load(None, CONFIGS["llama"], seed=3, generated=True, dtype="bf16", device="cpu")


@pytest.fixture
def runner(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VllmRunner:
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").write_text(STAND_IN)
    (package / "sampling_params.py").write_text("class RequestOutputKind:\n    DELTA = 1\n")
    python_of(tmp_path, monkeypatch, f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"')
    return VllmRunner(model)


def test_a_batch_has_a_token_when_every_sequence_has_it(runner: VllmRunner) -> None:
    runner.prepare(2, 8, 4)
    made = runner.generate(torch.zeros(2, 8, dtype=torch.int64), 4)
    assert made.tokens == [[7] * 4] * 2
    assert len(made.times_ns) == 4
    assert made.start_ns < made.times_ns[0]
    assert made.times_ns == sorted(made.times_ns)
    runner.close()


def test_it_says_what_it_runs_with(runner: VllmRunner) -> None:
    runner.prepare(1, 8, 4)
    assert runner.settings["version"] == "0"
    assert runner.settings["attention_backend"] == "FLASH_ATTN"
    assert runner.settings["async_scheduling"] is True
    runner.close()


def test_what_the_engine_refuses_is_said_in_its_words(runner: VllmRunner) -> None:
    runner.prepare(1, 8, 4)
    with pytest.raises(RuntimeError, match="vLLM: ValueError: the prompt is too long"):
        runner.generate(torch.zeros(1, 31, dtype=torch.int64), 4)
    assert runner.generate(torch.zeros(1, 8, dtype=torch.int64), 4).tokens == [[7] * 4]
    runner.close()


def test_a_process_that_dies_is_a_sentence_with_the_end_of_its_log(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python_of(tmp_path, monkeypatch, "echo 'no such GPU' >&2; exit 1")
    runner = VllmRunner(model)
    with pytest.raises(RuntimeError, match=r"vLLM gave no answer .* no such GPU"):
        runner.prepare(1, 8, 4)
    runner.close()


def test_without_an_environment_it_does_not_start(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELS_VLLM_PYTHON", raising=False)
    with pytest.raises(RuntimeError, match="KERNELS_VLLM_PYTHON is not set"):
        VllmRunner(model).prepare(1, 8, 4)


def test_no_plan_is_made_of_it() -> None:
    assert not registry.variant("vllm").in_plans
