"""The whole bring-up on this CPU, with a few cases; entries of GPUs as files."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.__main__ import main
from kernels.bring_up import cli, work
from kernels.bring_up.document import BringUp
from kernels.hardware import GPUS, class_of, read_entry, write_entry
from kernels.ops import LinearCase, RmsNormCase

FEW = [RmsNormCase(m=1, n=64, dtype="fp32"), LinearCase(m=1, n=64, k=64, dtype="fp32", weights="fp32")]


def test_a_bring_up_of_this_cpu_writes_its_report_and_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_cases", lambda kind, quick: FEW)
    monkeypatch.setattr(cli, "check_cases", lambda op, cpu: [])
    monkeypatch.setattr(work, "MODELS", {"cpu": ()})
    for name in ("KERNELS_CACHE", "TRITON_CACHE_DIR", "KERNELS_WITHOUT_GPUS"):
        monkeypatch.setenv(name, "")  # restored behind the test
    assert main(["bring-up", str(tmp_path / "here"), "--quick", "--stranger"]) == 0
    assert not Path(os.environ["KERNELS_CACHE"]).exists()
    found = BringUp.model_validate_json((tmp_path / "here" / "bring-up.json").read_text())
    assert (found.environment.gpu_class, found.stranger) == ("cpu", True)
    assert found.ceilings.read_tbps > 0
    assert found.limits is not None
    assert found.limits.shared_tbps is None
    assert found.limits.absent["grid_barrier_us"] == "A CPU has no thread blocks."
    assert {race.case for race in found.races} == {case.key for case in FEW}
    assert all(race.peer_ms for race in found.races)
    assert {proof.variant: proof.passed for proof in found.proofs}["torch_rmsnorm"] == 1
    assert not found.stopped
    assert not found.left_out
    report = (tmp_path / "here" / "bring-up.md").read_text()
    assert found.environment.device in report
    assert "| torch_rmsnorm | rmsnorm | 1 | 0 | 0 |" in report
    assert "- Not measured: barrier of a block, barrier of all SMs. A CPU has no thread blocks." in report
    capsys.readouterr()
    assert main(["bring-up", str(tmp_path / "here"), "--quick"]) == 0
    assert " of " not in capsys.readouterr().out  # no step ran again
    again = BringUp.model_validate_json((tmp_path / "here" / "bring-up.json").read_text())
    assert again.minutes > 0.9 * found.minutes  # those of the first call count


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["bring-up", str(tmp_path / "file" / "here")]) == 2
    assert capsys.readouterr().err.startswith("kernels bring-up: ")


def test_an_entry_is_read_as_it_was_written(tmp_path):
    entry = replace(GPUS["h200"], gpu_class="x900", name="NVIDIA X900", source="measured")
    write_entry(tmp_path / "x900.json", entry)
    assert read_entry(tmp_path / "x900.json") == entry


@pytest.mark.parametrize("change", [{"sm": "ninety"}, {"watts": -1}, {"name": 5}, {"colour": "green"}, {"sms": True}])
def test_an_entry_that_makes_no_sense_is_named(tmp_path, change):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(vars(GPUS["h200"]) | change))
    with pytest.raises(ValueError, match=r"bad\.json is no GPU entry"):
        read_entry(path)


def known(env):
    """The GPU classes that a fresh process knows with these settings."""
    code = "from kernels.hardware import GPUS, class_of; print(*GPUS, class_of('NVIDIA X900 PCIe'))"
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    ).stdout.split()


def test_a_folder_of_entries_makes_a_gpu_known(tmp_path):
    write_entry(tmp_path / "x900.json", replace(GPUS["h200"], gpu_class="x900", name="NVIDIA X900"))
    found = known(os.environ | {"KERNELS_GPUS": str(tmp_path)})
    assert (found[-2], found[-1]) == ("x900", "x900")
    stranger = known(os.environ | {"KERNELS_GPUS": str(tmp_path), "KERNELS_WITHOUT_GPUS": "all"})
    assert stranger == ["cpu", "x900", "x900"]


@pytest.mark.parametrize(
    ("name", "found"),
    [("NVIDIA GH200 480GB", "gh200-480gb"), ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-generation"),
     ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA L40S", "l40s")],
)  # fmt: skip
def test_classes_are_whole_words_of_the_name(name, found):
    assert class_of(name) == found
