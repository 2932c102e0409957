"""Kernels of a run's plans are compiled beside its first stages, for every organisation and by the worker alone."""

import json
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kernels.cuda import nvrtc
from tests.waiting import wait_for
from tests.workers.conftest import TINY, manifest, stage_input
from workers.config import WorkerConfig
from workers.host import compile_ahead
from workers.host.stage_files import Folders

SMALL = TINY | {"dtype": "bfloat16", "hidden_size": 256, "intermediate_size": 512, "head_dim": 64}


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL))
    return folder


def started(model, tmp_path, stage="admit", gpu_class="h100"):
    cache = tmp_path / "cache"
    cache.mkdir(exist_ok=True)
    config = replace(WorkerConfig.from_environment(), cache=cache, data=tmp_path / "data")
    document = stage_input(stage, manifest(SMALL), gpu_class=gpu_class)
    return compile_ahead.start(document, Folders(tmp_path, model, None), config, os.environ)


@pytest.mark.slow
def test_the_megakernel_of_a_model_is_compiled_and_proven_and_found_by_its_name(model, tmp_path, monkeypatch):
    folder = compile_ahead.folder_of(tmp_path / "cache")
    with closing(started(model, tmp_path)) as process:

        def is_made() -> bool:
            return {"decode", "proof"} <= {path.name.split("-")[0] for path in folder.iterdir()} or not process.alive

        wait_for(is_made, 300, "a megakernel")
    monkeypatch.setenv(nvrtc.PREBUILT, compile_ahead.prebuilt({nvrtc.PREBUILT: str(tmp_path)}, tmp_path / "cache"))
    log = (tmp_path / "cache" / "compile-ahead.log").read_text()
    made = next((path for path in folder.iterdir() if path.name.startswith("decode-")), None)
    assert made is not None, log
    assert nvrtc.prebuilt_file(made.name) == made
    assert nvrtc.prebuilt_file("decode-none.cubin") is None


def test_it_ends_with_all_that_it_started(model, tmp_path):
    process = started(model, tmp_path)
    guard = psutil.Process(process.pid)
    wait_for(lambda: len(guard.children(recursive=True)) > 0, 120, "what the guard starts")
    below = guard.children(recursive=True)
    process.close()
    wait_for(lambda: not any(item.is_running() and item.status() != "zombie" for item in below), 60, "their end")


def test_nothing_is_compiled_for_a_later_stage_a_gpu_without_such_kernels_or_without_a_place(model, tmp_path, caplog):
    for stage, gpu_class in (("compose", "h100"), ("admit", "cpu"), ("admit", "b200")):
        assert started(model, tmp_path, stage, gpu_class) is None
    compile_ahead.folder_of(tmp_path / "cache").write_text("in the way")
    assert started(model, tmp_path) is None
    assert "kernels not compiled ahead" in caplog.text


def test_the_oldest_files_make_room(model, tmp_path, monkeypatch):
    monkeypatch.setattr(compile_ahead, "MAX_FILES", 2)
    folder = compile_ahead.folder_of(tmp_path / "cache")
    folder.mkdir(parents=True)
    for age, name in enumerate(("new.cubin", "middle.cubin", "old.cubin")):
        (folder / name).touch()
        os.utime(folder / name, (1000 - age, 1000 - age))
    started(model, tmp_path).close()
    assert not (folder / "old.cubin").exists()
    assert (folder / "new.cubin").exists()
