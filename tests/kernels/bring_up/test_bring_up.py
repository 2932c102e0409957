"""The whole bring-up on this CPU, with a few cases; entries of GPUs as files."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.__main__ import main
from kernels.bring_up import cli, report, work
from kernels.bring_up.document import BringUp, Gap, Race
from kernels.bring_up.model_cost import cost, race_of
from kernels.bring_up.shares import OpShare, op_shares
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
    result = BringUp.model_validate_json((tmp_path / "here" / "bring-up.json").read_text())
    assert (result.environment.gpu_class, result.stranger) == ("cpu", True)
    assert result.ceilings.read_tbps > 0
    assert result.limits.shared_tbps is None
    assert result.limits.absent["grid_barrier_us"] == "A CPU has no thread blocks."
    assert {race.case for race in result.races} == {case.key for case in FEW}
    assert all(race.peer_ms for race in result.races)
    assert {proof.variant: proof.passed for proof in result.proofs}["torch_rmsnorm"] == 1
    assert not result.stopped
    assert not result.left_out
    report = (tmp_path / "here" / "bring-up.md").read_text()
    assert result.environment.device in report
    assert "| torch_rmsnorm | rmsnorm | 1 | 0 | 0 |" in report
    assert "- Not measured: barrier of a block, barrier of all SMs. A CPU has no thread blocks." in report
    capsys.readouterr()
    assert main(["bring-up", str(tmp_path / "here"), "--quick"]) == 0
    assert " of " not in capsys.readouterr().out  # no step ran again
    again = BringUp.model_validate_json((tmp_path / "here" / "bring-up.json").read_text())
    assert again.minutes > 0.9 * result.minutes  # those of the first call count


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["bring-up", str(tmp_path / "file" / "here")]) == 2
    assert capsys.readouterr().err.startswith("kernels bring-up: ")


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
    result = known(os.environ | {"KERNELS_GPUS": str(tmp_path)})
    assert (result[-2], result[-1]) == ("x900", "x900")
    stranger = known(os.environ | {"KERNELS_GPUS": str(tmp_path), "KERNELS_WITHOUT_GPUS": "all"})
    assert stranger == ["cpu", "x900", "x900"]
    entry = replace(GPUS["h200"], gpu_class="x900", name="NVIDIA X900", source="measured")
    write_entry(tmp_path / "x900.json", entry)
    assert read_entry(tmp_path / "x900.json") == entry


@pytest.mark.parametrize(
    ("name", "found"),
    [("NVIDIA GH200 480GB", "gh200-480gb"), ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-generation"),
     ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA L40S", "l40s")],
)  # fmt: skip
def test_classes_are_whole_words_of_the_name(name, found):
    assert class_of(name) == found


def row(variant, ms, peer=False, gate="pass"):
    return {"variant": variant, "ms": ms, "peer": peer, "gate": gate}


def test_the_fastest_that_passed_counts():
    rows = [row("mine", 3.0), row("slow", 4.0), row("wrong", 1.0, gate="fail"), row("torch", 2.0, peer=True)]
    race = race_of("a case", rows, 1.5)
    assert (race.own, race.own_ms, race.peer, race.peer_ms, race.floor_ms) == ("mine", 3.0, "torch", 2.0, 1.5)
    assert race_of("a case", [row("wrong", 1.0, gate="fail")], None) == Race(case="a case")


@pytest.fixture(scope="module")
def ops():
    return work.layer_ops("cpu", "tiny-llama")


def races(ops, **of_op):
    """A race for each case of the model: ours takes 2 ms, the peer 3, the floor 1, but for the ops given."""
    times = {"own_ms": 2.0, "peer_ms": 3.0, "floor_ms": 1.0}
    return {
        case.key: Race(case=case.key, **({"own": "mine", "peer": "torch"} | times | of_op.get(case.op, {})))
        for case in ops.cases()
    }


def test_a_gap_is_what_a_request_would_save(ops):
    kinds = {"linear": {"peer_ms": 1.25}, "lm_head": {"own": "", "own_ms": None}}
    estimate = cost("tiny-llama", ops, races(ops, **kinds))
    by_op = {}
    for gap in estimate.gaps:
        by_op.setdefault(gap.case.split()[0], gap)
    head = by_op["op=lm_head"]
    assert (head.kind, head.variant, head.calls, head.ms) == ("missing", "torch", 64, 64 * (3.0 - 1.0))
    linear = by_op["op=linear"]
    assert (linear.kind, linear.calls, linear.ms) == ("behind", 252, 252 * (2.0 - 1.25))
    norm = next(gap for gap in estimate.gaps if gap.case.startswith("op=rmsnorm") and gap.calls == 64)
    assert (norm.kind, norm.ms) == ("above", 64 * 1.0)
    assert [gap.ms for gap in estimate.gaps] == sorted((gap.ms for gap in estimate.gaps), reverse=True)


def test_the_cheapest_arrangement_counts_where_every_op_has_a_time(ops):
    fused = cost("tiny-llama", ops, races(ops, step_attention={"own_ms": 0.5, "peer_ms": None, "floor_ms": 0.5}))
    assert any(True for gap in fused.gaps)
    assert not any("op=attention kind=decode" in gap.case for gap in fused.gaps)
    slow = cost("tiny-llama", ops, races(ops, step_attention={"own_ms": 50.0, "peer_ms": None}))
    assert any("op=attention kind=decode" in gap.case for gap in slow.gaps)
    assert cost("tiny-llama", ops, races(ops, lm_head={"own_ms": None, "peer_ms": None})) is None


def test_failures_come_before_gaps_and_large_gaps_before_small_ones():
    rows = [
        {"variant": "mine", "case": "x", "gate": "fail", "sentence": "Off by 3."},
        {"variant": "mine", "case": "y", "gate": "pass", "sentence": ""},
        {"variant": "other", "case": "y", "gate": "refused", "sentence": "sm is 75."},
    ]
    proofs = report.proofs_of(rows, {"mine": "linear", "other": "linear"})
    assert (proofs[0].passed, proofs[0].failed, proofs[1].refused, proofs[1].refusal) == (1, 1, 1, "sm is 75.")
    gaps = [
        Gap(model="m", case=f"case {ms}", calls=1, kind="above", ms=ms, variant="mine", call_ms=ms + 1, bound_ms=1)
        for ms in range(1, 15)
    ]
    steps = report.next_steps(proofs, {"the race of z": "It took more than 8 s."}, gaps)
    assert len(steps) == report.NEXT_STEPS
    assert steps[0].startswith("Mend mine: 1 of 2 proofs failed, such as x: Off by 3.")
    assert steps[1] == "Find out why this gave nothing: the race of z. It took more than 8 s."
    assert "case 14" in steps[2]
    assert "case 13" in steps[3]


def test_shares_of_an_op_are_medians_and_what_cannot_be_does_not_count():
    shares = op_shares(
        [
            Race(case="op=linear m=1", own="mine", own_ms=2.0, peer="torch", peer_ms=1.0, floor_ms=0.5),
            Race(case="op=linear m=2", own="mine", own_ms=1.0, peer="torch", peer_ms=3.0, floor_ms=0.8),
            Race(case="op=linear m=3", own="mine", own_ms=1.0, floor_ms=1.2),  # no time lies so far below its floor
            Race(case="op=rope"),
        ]
    )
    assert shares == [OpShare("linear", 3, 0.65, 0.5, 1.75), OpShare("rope", 1, None, None, None)]
