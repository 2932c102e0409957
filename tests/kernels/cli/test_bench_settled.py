"""Rows with settled times beside those of bursts, and the cases that `--only` picks."""

from kernels.cases import cases
from kernels.cli.bench import bench_rows, picked
from kernels.cli.bench_lines import row_line
from kernels.ops import LinearCase
from kernels.tune.timed_variant import SettledTime
from kernels.tune.trial import Trial


def test_settled_times_have_ratios_of_their_own():
    case, rates = LinearCase(m=1, n=8, k=8), {"ms_low": 1.0, "ms_high": 9.0}
    times = {
        "torch_linear": (2.0, 4.0),
        "torch_linear_separate": (3.0, 3.0),
        "skinny": (1.0, 2.0),
        "small_gemm": (1.0, 0),
    }
    trials = [
        Trial(
            op="linear",
            case=case,
            variant=name,
            peer=name.startswith("torch"),
            lossy=False,
            gate="pass",
            ms=burst,
            ms_low=burst,
            ms_high=burst,
            raced=True,
            settled=SettledTime(ms=settled, **rates) if settled else None,
        )
        for name, (burst, settled) in times.items()
    ]
    rows = {row.variant: row for row in bench_rows(trials)}
    assert {name: row.ratio_to_best_peer for name, row in rows.items()} == {
        "torch_linear": 1.0, "torch_linear_separate": 2 / 3, "skinny": 2.0, "small_gemm": 2.0,
    }  # fmt: skip
    found = {name: row.settled.ratio_to_best_peer for name, row in rows.items() if row.settled}
    assert found == {"torch_linear": 0.75, "torch_linear_separate": 1.0, "skinny": 1.5}
    assert " settled 2.0000 ms  1.50x" in row_line(rows["skinny"])
    assert rows["small_gemm"].settled is None


def test_a_whole_key_stands_for_its_case_alone():
    offered = cases("fused", cpu=False)
    plain = "op=rmsnorm m=16384 n=2048 residual=True dtype=bf16"
    assert [each.key for each in picked(offered, [plain])] == [plain]
    part = "rmsnorm m=16384 n=2048 residual=True"
    assert [each.key for each in picked(offered, [part])] == [plain, f"{plain} quantise=fp8"]
    assert [each.op for each in picked(offered, ["lm_head m=1 ", plain])] == ["rmsnorm"] + ["lm_head"] * 10
    assert picked(offered, [""]) == offered
