"""`python -m kernels run`: the plan's model, the metric, and a sentence that compares."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels import runners
from kernels.__main__ import main
from kernels.cli import run
from kernels.measure.environment import environment_info
from kernels.model_files import catalogue
from kernels.model_files.digests import hash_of, model_digest
from kernels.plan import Expected, Plan
from kernels.runners import by_name
from tests.kernels.runners import sharded_runner


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(json.dumps(catalogue.entry("tiny-llama")[0]))
    return tmp_path / "model"


def expected(**changes: Any) -> Expected:
    facts: dict[str, Any] = {
        "metric": "ttf_n", "n": 4, "unit": "ms", "value": 50, "low": 0, "high": 1e9,
        "device": environment_info(device="cpu")["device"], "batch": 1, "prompt_tokens": 8, "output_tokens": 4,
    }  # fmt: skip
    return Expected(**facts | changes)


def write_plan(directory: Path, **changes: Any) -> Path:
    facts: dict[str, Any] = {
        "model_digest": model_digest(catalogue.entry("tiny-llama")[0], (), generated=True), "gpu": "cpu",
        "runner": "eager", "dtype": "fp32", "expected": expected(**changes.pop("expected", {})),
    }  # fmt: skip
    path = directory.parent / "plan.json"
    path.write_text(Plan(**facts | changes).model_dump_json())
    return path


def command(plan: Path, directory: Path, *more: str) -> int:
    return main(["run", "--plan", str(plan), "--model", str(directory), "--device", "cpu", "--requests", "7", *more])


def test_it_reproduces_the_figure(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = directory.parent / "run.json"
    assert command(write_plan(directory), directory, "--json", str(out)) == 0
    assert "this lies within its interval" in capsys.readouterr().out
    document = run.RunDocument.model_validate_json(out.read_text())
    assert len(document.samples) == 7
    assert 0 < document.low <= document.value <= document.high
    assert document.within
    assert document.same_device
    assert document.environment["versions"]["torch"]


@pytest.mark.parametrize(
    ("model", "status", "printed"),
    [
        ("tiny-llama", 0, "this lies within its interval"),
        ("tiny-qwen2", 2, "tiny-qwen2: the plan is for the model"),
        ("tiny-lama", 2, "tiny-lama is no directory, and no catalogue model 'tiny-lama'; there are llama-3.2-1b"),
    ],
)
def test_the_model_may_be_a_catalogue_entry(directory, model, status, printed, capsys):
    assert command(write_plan(directory), Path(model)) == status
    assert printed in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("changes", "more", "status", "said"),
    [
        ({"expected": {"high": 1e-6}}, [], 1, "this lies outside its interval"),
        ({"expected": {"high": 1e-6, "device": "NVIDIA H200"}}, [], 0, "on NVIDIA H200: another device"),
        ({"expected": {"metric": "cost_per_mtok"}}, [], 2, "cost_per_mtok needs a price"),
        ({"options": {"seed": 4}}, [], 2, "with seed 4 have the digest"),
        ({"runner": "megakernel"}, [], 2, "written for Hopper GPUs"),
        ({}, ["--json", "/nowhere/run.json"], 2, "--json: there is no directory /nowhere"),
        ({}, ["--device", "cuda"], 2, "torch finds no NVIDIA GPU"),
    ],
)
def test_each_end_has_its_status_and_its_sentence(directory, changes, more, status, said, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert command(write_plan(directory, **changes), directory, *more) == status
    printed = capsys.readouterr()
    assert said in (printed.err if status == 2 else printed.out)


@pytest.mark.parametrize("generated", [True, False], ids=["generated", "from files"])
def test_a_plan_for_two_gpus_gets_a_model_in_two_shards(directory, capsys, monkeypatch, generated):
    """Each in its GPU's place, made there or read from its slices of the files; a whole model fails the runner."""
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", sharded_runner.NAME)
    monkeypatch.setattr(run, "_suits", lambda plan, device: True)
    if not generated:
        config = catalogue.entry("tiny-llama")[0]
        runners.load(None, config, generated=True, dtype="fp32", device="cpu").save_pretrained(directory)
    digest = model_digest(*_config_and_hashes(directory), generated)
    sharded = {"model_digest": digest, "runner": "megakernel"}
    assert command(write_plan(directory, **sharded, tensor_parallel_size=2), directory) == 0
    assert f"preparing the megakernel runner on 2 {expected().device}" in capsys.readouterr().err
    assert command(write_plan(directory, **sharded, tensor_parallel_size=4), directory) == 2
    assert "num_key_value_heads 2: 4 GPUs need a multiple of 4" in capsys.readouterr().err


def test_a_model_that_does_not_fit_is_one_sentence(directory, capsys, monkeypatch):
    def full(*args: Any, **kwargs: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB.\nMore.")

    monkeypatch.setattr(run, "_suits", lambda plan, device: True)
    monkeypatch.setattr(runners, "load", full)
    assert command(write_plan(directory), directory) == 2
    assert "the model does not fit: CUDA out of memory. Tried to allocate 20 GiB.\n" in capsys.readouterr().err
    options = {"weights": "fp8", "rounding": {"method": "gptq"}}
    assert command(write_plan(directory, runner="megakernel", tensor_parallel_size=2, options=options), directory) == 2
    assert "does not fit, and GPTQ rounds it whole on the first GPU before it is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "plan.json: the document: Invalid JSON"), ('{"gpu": "cpu"}', "plan.json: model_digest: Field required")],
)
def test_a_broken_plan_is_refused(directory: Path, text: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write_plan(directory)
    plan.write_text(text)
    assert command(plan, directory) == 2
    message = capsys.readouterr().err
    assert reason in message
    assert "Traceback" not in message


def _config_and_hashes(directory: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    paths = sorted(path for path in directory.iterdir() if path.suffix == ".json" or path.suffix == ".safetensors")
    return json.loads((directory / "config.json").read_text()), [(path.name, hash_of(path)) for path in paths]


@pytest.mark.parametrize("weights", [True, False], ids=["with weights", "generated"])
def test_a_plan_is_for_configuration_weights_and_tokenizer(directory: Path, weights: bool) -> None:
    if weights:
        (directory / "model.safetensors").write_bytes(b"weights")
    (directory / "tokenizer.json").write_text("{}")
    config, hashes = _config_and_hashes(directory)
    config |= {"limit": {"__float__": "Infinity"}}
    plan = Plan(model_digest=model_digest(config, hashes, not weights), gpu="cpu", runner="eager")
    (directory / "README.md").write_text("Documentation counts for nothing.")
    (directory / "trainer_state.json").write_text("{}")
    (directory / "onnx").mkdir()
    (directory / "onnx" / "config.json").write_text("What an upload leaves out counts for nothing.")
    (directory / "config.json").write_text(json.dumps(config | {"limit": math.inf}, indent=7))
    assert run.read_model(directory, plan) == (config, not weights, 0)
    (directory / "tokenizer.json").write_text("{ }")
    with pytest.raises(run.PlanRefused, match="the plan is for the model"):
        run.read_model(directory, plan)
