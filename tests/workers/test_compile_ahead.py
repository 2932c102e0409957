"""Kernels of a run's plans are compiled beside its first stages, for every organisation and by the worker alone."""

import json
import os
from pathlib import Path

import psutil
import pytest

from kernels.cuda import nvrtc
from tests.waiting import wait_for
from tests.workers.conftest import TINY, manifest, stage_input
from workers import compile_ahead
from workers.child_environment import template_environment

SMALL = TINY | {"dtype": "bfloat16", "hidden_size": 256, "intermediate_size": 512, "head_dim": 64}


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL))
    return folder


def started(model, cache, stage="admit", gpu_class="h100", **constraints):
    document = stage_input(stage, manifest(SMALL), gpu_class=gpu_class, constraints=constraints or {})
    return compile_ahead.start(document, model, cache, template_environment(os.environ))


@pytest.mark.slow
def test_the_megakernel_of_a_model_is_compiled_and_proven_and_found_by_its_name(model, tmp_path, monkeypatch):
    process = started(model, tmp_path / "cache")
    assert psutil.Process(process.pid).nice() >= 0
    folder = compile_ahead.folder_of(tmp_path / "cache")
    wait_for(lambda: {"decode", "proof"} <= {each.name.split("-")[0] for each in folder.iterdir()}, 300, "a megakernel")
    process.kill()
    monkeypatch.setenv(nvrtc.PREBUILT, compile_ahead.prebuilt({nvrtc.PREBUILT: str(tmp_path)}, tmp_path / "cache"))
    made = next(each for each in folder.iterdir() if each.name.startswith("decode-"))
    assert nvrtc.made_ahead(made.name) == made
    assert nvrtc.made_ahead("decode-none.cubin") is None


@pytest.mark.parametrize(("stage", "gpu_class"), [("compose", "h100"), ("admit", "cpu"), ("admit", "b200")])
def test_nothing_is_compiled_for_a_later_stage_or_a_gpu_without_such_kernels(model, tmp_path, stage, gpu_class):
    assert started(model, tmp_path / "cache", stage, gpu_class) is None


def test_the_oldest_files_make_room(model, tmp_path, monkeypatch):
    monkeypatch.setattr(compile_ahead, "MOST_FILES", 2)
    folder = compile_ahead.folder_of(tmp_path / "cache")
    folder.mkdir(parents=True)
    for age, name in enumerate(("new.cubin", "middle.cubin", "old.cubin")):
        (folder / name).touch()
        os.utime(folder / name, (1000 - age, 1000 - age))
    started(model, tmp_path / "cache").kill()
    assert not (folder / "old.cubin").exists()
    assert (folder / "new.cubin").exists()
