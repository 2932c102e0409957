"""`python -m kernels run`: the plan's model, the metric, and a sentence that compares."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernels.__main__ import main
from kernels.cli import run
from kernels.engine.weights import digest, generated_digest
from kernels.measure.environment import here
from kernels.model_files import catalogue
from kernels.plan import Expected, Plan


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(json.dumps(catalogue.entry("tiny-llama")[0]))
    return tmp_path / "model"


def expected(**changes: Any) -> Expected:
    facts: dict[str, Any] = {
        "metric": "ttf_n",
        "n": 4,
        "unit": "ms",
        "value": 50,
        "low": 0,
        "high": 1e9,
        "device": here(device="cpu")["device"],
        "batch": 1,
        "prompt_tokens": 8,
        "output_tokens": 4,
    }
    return Expected(**facts | changes)


def write_plan(directory: Path, **changes: Any) -> Path:
    facts: dict[str, Any] = {
        "model_digest": generated_digest(catalogue.entry("tiny-llama")[0], 0),
        "gpu": "cpu",
        "runner": "eager",
        "dtype": "fp32",
        "expected": expected(),
    }
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


def test_it_says_when_the_figure_is_another_one(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(write_plan(directory, expected=expected(high=1e-6)), directory) == 1
    assert "this lies outside its interval" in capsys.readouterr().out


def test_another_device_is_no_failure(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(write_plan(directory, expected=expected(high=1e-6, device="NVIDIA H200")), directory) == 0
    assert "on NVIDIA H200: another device, so the two need not agree" in capsys.readouterr().out


def test_a_plan_for_another_model_is_refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(write_plan(directory, options={"seed": 4}), directory) == 2
    assert "its configuration with seed 4 has the digest" in capsys.readouterr().err


def test_what_cannot_be_done_here_is_one_sentence(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(write_plan(directory), directory, "--json", "/nowhere/run.json") == 2
    assert "--json: there is no directory /nowhere" in capsys.readouterr().err
    assert command(write_plan(directory, runner="megakernel"), directory) == 2
    assert "written for Hopper GPUs" in capsys.readouterr().err


def test_a_gpu_that_is_not_there_is_one_sentence(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert command(write_plan(directory), directory, "--device", "cuda") == 2
    assert "torch finds no NVIDIA GPU" in capsys.readouterr().err


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


def test_an_uploaded_model_is_known_by_its_files(directory: Path) -> None:
    from hashlib import sha256

    (directory / "model.safetensors").write_bytes(b"weights")
    config = (directory / "config.json").read_bytes()
    pairs = [("config.json", sha256(config).hexdigest()), ("model.safetensors", sha256(b"weights").hexdigest())]
    plan = Plan(model_digest=digest(pairs), gpu="cpu", runner="eager")
    assert run.read_model(directory, plan)[1] is False


@pytest.mark.parametrize(
    ("metric", "n", "value"),
    [
        ("ttft", None, [12.0]),
        ("ttf_n", 2, [14.0]),
        ("e2e", None, [18.0]),
        ("tpot", None, [3.0]),
        ("itl", None, [2.0, 4.0]),
        ("throughput", None, [2 * 3 / 0.010]),
    ],
)
def test_the_metrics_of_one_batch(metric: str, n: int | None, value: list[float]) -> None:
    traffic = expected(metric=metric, n=n, batch=2, output_tokens=3)
    times = [20_000_000, 22_000_000, 26_000_000]
    assert run.metric_samples(traffic, 8_000_000, 16_000_000, times) == pytest.approx(value)


@pytest.mark.parametrize("module", ["kernels.engine", "kernels.engine.weights", "kernels.__main__", "kernels.cli.run"])
def test_it_imports_without_torch(module: str, root: Path) -> None:
    code = f"import sys, {module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
