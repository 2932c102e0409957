"""Rows with settled times beside those of bursts, and the cases that `--only` picks."""

from collections import Counter

import pytest
import torch

from kernels import registry, torch_compiled
from kernels.__main__ import main
from kernels.cases import GROUPS, cases
from kernels.cli.bench import WITHOUT, bench_rows, compiled_peers, select_cases, without
from kernels.cli.bench_lines import row_line
from kernels.hardware import GPUS
from kernels.measure import ceilings
from kernels.ops import AttentionCase, GroupedCase, LinearCase, LmHeadCase, RmsNormCase, StepAttentionCase
from kernels.proof import gate
from kernels.tune import autotune
from kernels.tune.timed_variant import SettledTime
from kernels.tune.trial import Trial


def test_settled_times_have_ratios_of_their_own():
    case, rates = LinearCase(m=1, n=8, k=8), {"ms_low": 1.0, "ms_high": 9.0}
    times = {
        "torch_linear": (2.0, 4.0), "torch_linear_separate": (3.0, 3.0), "skinny": (1.0, 2.0), "small_gemm": (1.0, 0),
    }  # fmt: skip
    trials = []
    for name, (burst, settled) in times.items():
        facts = {"peer": name.startswith("torch"), "settled": SettledTime(ms=settled, **rates) if settled else None}
        facts |= {"op": "linear", "lossy": False, "gate": "pass", "raced": True}
        trials.append(Trial(case=case, variant=name, ms=burst, ms_low=burst, ms_high=burst, **facts))
    rows = {row.variant: row for row in bench_rows(trials)}
    assert {name: row.ratio_to_best_peer for name, row in rows.items()} == {
        "torch_linear": 1.0, "torch_linear_separate": 2 / 3, "skinny": 2.0, "small_gemm": 2.0,
    }  # fmt: skip
    result = {name: row.settled.ratio_to_best_peer for name, row in rows.items() if row.settled}
    assert result == {"torch_linear": 0.75, "torch_linear_separate": 1.0, "skinny": 1.5}
    assert " settled 2.0000 ms  1.50x" in row_line(rows["skinny"])
    assert rows["small_gemm"].settled is None


def test_a_whole_key_stands_for_its_case_alone():
    offered = cases("fused", cpu=False)
    plain = "op=rmsnorm m=16384 n=2048 residual=True dtype=bf16"
    assert [case.key for case in select_cases(offered, [plain])] == [plain]
    part = "rmsnorm m=16384 n=2048 residual=True"
    assert [case.key for case in select_cases(offered, [part])] == [plain, f"{plain} quantise=fp8"]
    assert [case.op for case in select_cases(offered, ["lm_head m=1 ", plain])] == ["rmsnorm"] + ["lm_head"] * 10
    assert select_cases(offered, [""]) == offered


@pytest.mark.parametrize(("asked", "usual"), [(["--seconds", "0.2"], 0.2), ([], 20.0)])
def test_builds_of_compiled_peers_are_added_to_what_is_asked_for(asked, usual, monkeypatch):
    seen = []
    rates = {"read_tbps": 0.01, "copy_tbps": 0.01, "matrix_tflops": {"fp32": 0.1, "bf16": 0.2}, "launch_us": 1.0}
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda *_, **__: rates)
    monkeypatch.setattr(autotune, "try_case", lambda place, case, seconds: seen.append(seconds) or [])
    building = registry.variant("torch_gated_compiled").build_seconds
    main(["bench", "fused", "--only", "op=gated m=1 n=", "--compiled", *asked])
    assert seen
    assert set(seen) == {usual + 2 * building}
    seen.clear()
    main(["bench", "fused", "--only", "op=gated m=1 n=", *asked])
    assert set(seen) == {usual}


LONG = AttentionCase(kind="decode", head_dim=128, heads=32, kv_heads=8, batch=1, q_len=1, kv_len=65_536)
STEP = StepAttentionCase(batch=3, heads=4, kv_heads=2, head_dim=64, kv_len=70, dtype="fp32")


def test_every_op_has_a_case_with_a_compiled_peer_or_a_reason() -> None:
    assert {case.op for case in cases("library", cpu=False) if compiled_peers(case)} == set(GROUPS["library"])
    for case in cases("library", cpu=False):
        peers = [registry.variant(name) for name in compiled_peers(case)]
        assert bool(peers) != bool(without(case)), case.key
        for peer in peers:
            assert (peer.op, peer.peer, bool(peer.build_seconds)) == (case.op, True, True)
            assert peer.serves(case, GPUS["h200"]) is None
    labels = {without(case) for case in cases("library", cpu=False)} - {""}
    assert labels == {reason for _, reason in WITHOUT}
    assert all(reason.endswith(".") for reason in labels)


@pytest.mark.parametrize(
    ("case", "names"),
    [
        (RmsNormCase(m=1, n=8), {"torch_rmsnorm_compiled"}),
        (RmsNormCase(m=1, n=8, quantise="fp8"), {"torch_rmsnorm_compiled"}),
        (LinearCase(m=1, n=8, k=8, epilogue="residual"), {"torch_linear_compiled"}),
        (LinearCase(m=1, n=8, k=8, epilogue="rmsnorm_scale"), {"torch_linear_compiled"}),
        (LinearCase(m=1, n=8, k=8, epilogue="quantise"), {"torch_linear_compiled"}), (LinearCase(m=1, n=8, k=8), set()),
        (GroupedCase(rows=8, experts=2, n=8, k=8, epilogue="swiglu"), {"torch_grouped_mm_compiled"}),
        (LmHeadCase(m=1, vocab=99, k=8), {"torch_lm_head_compiled"}),
        (LmHeadCase(m=1, vocab=99, k=8, sampling="top_k_p"), {"torch_lm_head_sampling_compiled"}),
        (STEP, {"torch_step_attention_compiled", "torch_step_flex"}), (LONG, {"torch_flex_decode"}),
        (LONG.model_copy(update={"kv_len": 192}), set()),
    ],
)  # fmt: skip
def test_the_compiled_peers_of_a_case(case, names) -> None:
    assert compiled_peers(case) == names


@pytest.mark.parametrize(
    ("name", "change"),
    [("torch_step_attention_compiled", {}), ("torch_step_flex", {"paged": True, "window": 9})],
    ids=["contiguous", "paged, a window"],
)
def test_the_function_that_is_compiled_for_a_step_is_right(name, change, monkeypatch):
    """The function alone: Inductor takes half a minute for it, and every bench gates what it compiled."""
    monkeypatch.setattr(torch, "compile", lambda function, **how: function)
    report = gate.check(registry.variant(name), STEP.model_copy(update=change), "cpu")
    assert report.passed, report.sentence


def test_a_compiled_lm_head_is_right() -> None:
    case = LmHeadCase(m=3, vocab=1009, k=256, dtype="fp32", weights="fp32")
    report = gate.check(registry.variant("torch_lm_head_compiled"), case, "cpu")
    assert report.passed, report.sentence


def test_one_function_is_compiled_for_more_shapes_than_any_bench_has() -> None:
    """Beyond torch's limit it would run uncompiled, and be timed as a compiled peer."""
    torch_compiled.compiled(abs)
    timed = Counter(case.op for case in cases("library", cpu=False) if compiled_peers(case))
    assert torch._dynamo.config.recompile_limit > max(timed.values()) > 8
