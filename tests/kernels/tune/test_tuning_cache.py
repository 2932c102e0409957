"""Choices between variants: measured once, kept per machine, versions and code."""

import json

import pytest
import torch

from kernels import registry
from kernels.hardware import GPUS
from kernels.measure.environment import sources_digest
from kernels.measure.timing import StoppingRule
from kernels.ops import LinearCase
from kernels.tune.autotune import TuningContext
from kernels.tune.trial import Trial
from kernels.tune.tuning_cache import CODE, TuningCache
from tests.kernels import planted

CASE = LinearCase(m=4, n=48, k=32, dtype="fp32", weights="fp32")
QUICK = StoppingRule(seconds=0.2, least=6, most=30, warmup_seconds=0.0)
ENVIRONMENT = {"device": "CPU", "driver": "", "versions": {"torch": "2.13.0"}}


def test_choice_is_measured_once_per_machine_and_versions(tmp_path, monkeypatch):
    choices = TuningCache(ENVIRONMENT, tmp_path)
    only = frozenset({"torch_linear"})
    assert choices.find(CASE) is None
    made = choices.choose(CASE, TuningContext(torch.device("cpu"), GPUS["cpu"], rule=QUICK, only=only))
    assert made.variant == "torch_linear"
    assert made.ms > 0
    assert made.sentence
    assert TuningCache(ENVIRONMENT, tmp_path).find(CASE) == made
    newer = ENVIRONMENT | {"versions": {"torch": "2.14.0"}}
    assert TuningCache(newer, tmp_path).find(CASE) is None
    monkeypatch.setattr("kernels.tune.tuning_cache.sources_digest", lambda *of: "another")
    assert TuningCache(ENVIRONMENT, tmp_path).find(CASE) is None


def test_choices_are_those_of_the_variants_code(tmp_path):
    """What was the fastest may be slower, or have lost its params, in another version of the library."""
    for version in ("one", "two"):
        (tmp_path / version / "gemm").mkdir(parents=True)
    for version, name, text in (
        ("one", "small.cu", "a"),
        ("two", "small.cu", "b"),
        ("one", "notes.txt", "c"),
        ("two", "notes.txt", "d"),
    ):
        (tmp_path / version / "gemm" / name).write_text(text)
    one, two = (sources_digest(tmp_path / version, CODE) for version in ("one", "two"))
    assert one != two
    sources_digest.cache_clear()
    (tmp_path / "two" / "gemm" / "small.cu").write_text("a")
    assert sources_digest(tmp_path / "two", CODE) == one


def test_choice_falls_back_to_torch(tmp_path, plant):
    plant(planted.Wrong)
    choice = TuningCache(ENVIRONMENT, tmp_path).choose(
        CASE, TuningContext(torch.device("cpu"), GPUS["cpu"], rule=QUICK, only=frozenset({"planted_wrong"}))
    )
    assert choice.variant == "torch_linear"
    assert choice.ms is None


@pytest.mark.parametrize("broken", ["", "[]", '{"choices": 3}', '{"choices": {"KEY": {"variant": "gone"}}}'])
def test_broken_or_outdated_choices_are_ignored(tmp_path, broken):
    choices = TuningCache(ENVIRONMENT, tmp_path)
    choices.path.write_text(broken.replace("KEY", CASE.key))
    assert choices.find(CASE) is None


def test_cache_directory_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "deep" / "cache"))
    choices = TuningCache(ENVIRONMENT)
    won = Trial.of(CASE, registry.variant("torch_linear"), {}, "best").model_copy(
        update={"gate": "pass", "ms": 1.0, "chosen": True}
    )
    choices.keep(CASE, [won])
    assert json.loads(choices.path.read_text())["choices"][CASE.key]["variant"] == "torch_linear"
    assert choices.path.is_relative_to(tmp_path)
