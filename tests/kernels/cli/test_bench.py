"""`python -m kernels list`, `check` and `bench` on this machine, at tiny shapes."""

import json
import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from kernels.__main__ import main
from kernels.cases import GROUPS, cases, check_cases
from kernels.cli import bench_decode, bench_decode_run, bench_document
from kernels.cli.bench import bench_rows
from kernels.cli.bench_decode import Options, _bench_targets
from kernels.hardware import GPUS
from kernels.measure import ceilings
from kernels.ops import LinearCase, ModelCase
from kernels.runners import served_answers
from kernels.tune import ahead, autotune
from kernels.tune.trial import Trial

ROW_FIELDS = {
    *("op", "case", "variant", "peer", "ms", "ms_low", "ms_high", "tflops", "gbps", "floor_share"),
    *("ratio_to_best_peer", "gate", "kernels"),
}


@pytest.fixture(autouse=True)
def known_ceilings(monkeypatch):
    """Ceilings as measured once here: measuring them takes seconds and has its own test."""
    result = {"read_tbps": 0.01, "copy_tbps": 0.01, "matrix_tflops": {"fp32": 0.1, "bf16": 0.2}, "launch_us": 1.0}
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda *_, **__: result)


def test_a_reader_that_has_ended_costs_no_traceback():
    """As of `python -m kernels list | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "kernels", "list"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_list_names_every_variant(capsys):
    assert main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    names = {row["variant"] for row in rows}
    assert {"sdpa_flash", "torch_linear", "int8_dynamic_cpu", "torch_rmsnorm", "eager", "compiled"} <= names
    result = {row["variant"]: row for row in rows}
    assert result["flash_hopper"]["gpus"] == result["megakernel_fp8"]["gpus"] == ["h200", "h100"]
    assert (result["int8_dynamic_cpu"]["gpus"], result["flash_hopper"]["dtypes"]) == (["cpu"], ["bf16", "fp16"])
    lacking = {name for name, row in result.items() if not row["gpus"]}
    assert lacking <= {"subquadratic"}, "a peer whose package may not be installed"
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert "(peer, lossy)" in printed
    assert "FlashAttention in Triton, sm_80 and later; any GPU; bf16 fp16\n" in printed
    assert "torch's linear, the epilogue after it (peer); any device; bf16 fp16 fp32\n" in printed


def test_check_gates_an_op_and_a_named_variant_is_told_why_it_is_refused(capsys):
    assert main(["check", "rope", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["gate"] for row in rows if row["variant"] == "torch_rope"} == {"pass"}
    assert {row["gate"] for row in rows} <= {"pass", "refused"}
    assert main(["check", "attention", "--variant", "sdpa_cudnn"]) == 0
    assert "refused" in capsys.readouterr().out
    assert main(["check", "rope", "--variant", "rope_triton"]) == 0
    assert "refused rope_triton" in capsys.readouterr().out
    main(["bench", "fused", "--variant", "rope_triton", "--only", "op=rope m=", "--seconds", "0.2"])
    assert "rope_triton" not in capsys.readouterr().out
    main(["bench", "fused", "--variant", "gated_triton", "--only", "op=gated m=1", "--seconds", "0.2"])
    assert re.search(r"gated_triton +refused .*: \S+", capsys.readouterr().out)


def test_bench_writes_the_document_and_appends(tmp_path, capsys):
    path = tmp_path / "bench.json"
    assert main(["bench", "attention", "--seconds", "0.5", "--only", "kind=decode", "--json", str(path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("A CPU, tiny shapes")
    assert printed[1].startswith("Ceilings here: ")
    assert printed[1].endswith(" µs.")
    assert all("% of floor" in line for line in printed[2:] if " ms [" in line)
    first = json.loads(path.read_text())
    assert {"device", "gpu_uuid", "lease_id", "versions", "commit", "ceilings", "rows"} <= set(first)
    assert all(set(row) >= ROW_FIELDS for row in first["rows"])
    assert max(row["ratio_to_best_peer"] or 0 for row in first["rows"]) == 1.0
    again = ["bench", "fused", "--seconds", "0.5", "--only", "op=gated m=1", "--json", str(path), "--append"]
    assert main(again) == 0
    both = bench_document.read(path)
    assert {row.op for row in both.rows} == {"attention", "gated"}
    foreign = both.model_copy(update={"lease_id": "another machine"})
    bench_document.write(path, foreign)
    assert main(again) == 1
    assert "lease_id" in capsys.readouterr().err


def test_bench_decode_times_a_whole_model(tmp_path, monkeypatch):
    monkeypatch.setattr(served_answers, "MAX_LATE_S", 0.5)  # a busy machine keeps no millisecond
    path = tmp_path / "bench.json"
    options = ["--runner", "eager", "--rounds", "6", "--seconds", "0.1", "--json", str(path)]
    assert main(["bench", "decode", *options]) == 0
    (row,) = bench_document.read(path).rows
    assert row.variant == "eager"
    assert row.ttf64_ms == row.ms
    assert 0 < row.ms_per_token < row.ttf64_ms
    assert row.gate == "pass"
    assert (row.rounds, row.judged) == (5, 5)
    assert row.read_share == pytest.approx(row.case["bytes_per_token"] / row.ms_per_token / 1e9 / 0.01)
    case = {name: row.case[name] for name in ("model", "weights", "batch", "prompt", "tokens")}
    assert case == {"model": "tiny-llama", "weights": "fp32", "batch": 1, "prompt": 128, "tokens": 64}
    assert row.kl is None
    named = ["--batch", "2", "--prompt", "32", "--model", "tiny-qwen2", "--fidelity", "300"]
    assert main(["bench", "decode", *options, *named, "--append"]) == 0
    compared = bench_document.read(path).rows[1]
    assert (compared.kl, compared.disagreement, compared.tokens, compared.torch_kl) == (0, 0, 512, 0)
    assert [(row.case["model"], row.case["batch"], row.case["prompt"]) for row in bench_document.read(path).rows] == [
        ("tiny-llama", 1, 128),
        ("tiny-qwen2", 2, 32),
    ]


def test_bench_decode_measures_vllm_where_there_is_an_environment_of_it(monkeypatch):
    case = ModelCase(model="llama-3.2-1b", batch=1, prompt=128, tokens=64)
    monkeypatch.delenv("KERNELS_VLLM_PYTHON", raising=False)
    assert "vllm" not in {each.name for each, _ in _bench_targets(case, Options(), GPUS["h200"])}
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", "python3")
    assert "vllm" in {each.name for each, _ in _bench_targets(case, Options(), GPUS["h200"])}


def test_bench_decode_offers_every_precision_beside_the_peers():
    """Each with the bytes that its own weights and the bf16 keys and values take."""
    case = ModelCase(
        model="llama-3.2-1b", batch=1, prompt=128, tokens=64, parameters=1_000_000, bytes_per_token=2_100_000
    )
    result = {each.name: own for each, own in _bench_targets(case, Options(), GPUS["h200"])}
    assert {"eager", "compiled", "cuda_graphs", "megakernel", "megakernel_fp8", "megakernel_nvfp4"} <= set(result)
    assert "compiled_max_autotune" not in result
    assert result["megakernel_fp8"].weights == "fp8"
    assert result["megakernel_fp8"].bytes_per_token == 1_100_000
    assert result["megakernel_nvfp4"].bytes_per_token == 662_500
    only = Options(weights=["nvfp4"], slow_builds=True)
    weights = {each.name: own.weights for each, own in _bench_targets(case, only, GPUS["h200"])}
    assert weights["compiled_max_autotune"] == "bf16"
    assert weights["megakernel_nvfp4"] == "nvfp4"
    assert "megakernel" not in weights


@pytest.mark.parametrize("first", [0, 12], ids=["every id", "behind the prompt"])
@pytest.mark.parametrize(
    ("planted", "own", "gate"),
    [(0.0, 0.0, "pass"), (0.02, 0.0, "pass"), (0.25, 0.0, "fail"), (0.25, 0.065, "pass"), (0.5, 0.065, "fail")],
)
def test_bench_decode_looks_at_every_row_of_a_batch(planted, own, gate, first):
    """Of 0.25 in one row of eight 8.8 % are left, which a mixture's own difference may explain."""
    generator = torch.Generator().manual_seed(1)
    expected = torch.randn(8, 16, 50, generator=generator)
    wrong = expected.clone()
    wrong[5, first:] += planted * torch.randn(16, 50, generator=generator)[first:]
    runner = SimpleNamespace(
        gives_logits=True,
        prepare=lambda *sizes: None,
        logits=lambda ids: wrong,
    )
    variant = SimpleNamespace(build=lambda case, params: lambda model: runner)
    case = ModelCase(model="tiny-llama", weights="bf16", batch=8, prompt=12, tokens=64)
    ids = torch.zeros(8, 16, dtype=torch.int64)
    known = bench_decode_run.ReferenceOutputs(ids, expected, own)
    run = bench_decode_run.prepared(variant, case, None, known)
    assert run.gate == gate, run.reason


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "decode", "--runner", "gone"], "gone"),
        (["bench", "gemm", "--variant", "skiny"], "did you mean skinny"),
        (["bench", "gemm", "--variant", "flash_triton"], "a variant of attention, not of linear, grouped"),
        (["bench", "gemm", "--runner", "eager"], "--runner is not for gemm"),
        (["bench", "decode", "--variant", "eager"], "--runner names its variants"),
        (["bench", "gemm", "--json", "/"], "--json: / is a directory"),
        (["bench", "gemm", "--json", "/proc/bench.json"], "--json: /proc: "),
        (["bench", "decode", "--weights", "gone"], "no weights 'gone'"),
        (["bench", "decode", "--jobs", "2"], "--jobs is not for decode"),
        (["check", "rope", "--variant", "skinny"], "a variant of linear, not of rope"),
        (["check", "--variant", "eager"], "a variant of model"),
    ],
)
def test_a_wrong_call_is_one_sentence_before_anything_is_measured(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(bench_decode, "decode_rows", measured_nothing)
    monkeypatch.setattr(autotune, "try_case", measured_nothing)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize("seconds", ["0", "nan", "soon"])
def test_no_time_is_measured_in_no_time(seconds, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "fused", "--seconds", seconds])
    assert f"'{seconds}' is no time above 0" in capsys.readouterr().err


def test_a_text_that_no_case_has_is_said(capsys):
    assert main(["bench", "fused", "--only", "m=nothing"]) == 1
    assert "no case of fused has 'm=nothing' in its key" in capsys.readouterr().err
    assert main(["bench", "fused", "--seconds", "0.2", "--only", "m=nothing", "--only", "op=gated m=1"]) == 0


@pytest.mark.parametrize(("text", "said"), [("{", "Invalid JSON"), ("{}", "device: Field required")])
def test_what_is_no_bench_document_is_not_appended_to(text, said, tmp_path, capsys):
    path = tmp_path / "bench.json"
    path.write_text(text)
    assert main(["bench", "fused", "--append", "--json", str(path)]) == 1
    error = capsys.readouterr().err
    assert f"{path}: not a bench document: {said}" in error
    assert error.count("\n") == 1
    assert path.read_text() == text


def test_processes_go_ahead_through_the_gate(monkeypatch):
    asked = []
    monkeypatch.setattr(ahead, "prove_ahead", lambda _, cases, jobs: asked.append((len(cases), jobs)) or {})
    main(["bench", "fused", "--only", "op=gated m=1", "--seconds", "0.2"])
    assert not asked
    main(["bench", "fused", "--only", "op=gated m=1", "--seconds", "0.2", "--jobs", "2"])
    assert asked == [(2, 2)]


def measured_nothing(*_: object, **__: object) -> None:
    raise AssertionError("measured")


def test_ratio_is_the_best_peers_time_over_this_ones():
    case = LinearCase(m=1, n=8, k=8)

    def trial(name, peer, gate, **kwargs):
        return Trial(op="linear", case=case, variant=name, peer=peer, lossy=False, gate=gate, **kwargs)

    trials = [
        trial("a", True, "pass", ms=2.0, raced=True),
        trial("b", True, "pass", ms=4.0, raced=True),
        trial("skinny", False, "pass", ms=1.0, raced=True, kernels=["skinny_linear"], host_us=9.5),
        trial("small_gemm", False, "pass", ms=1.0, raced=True, kernels=["nvjet_hsh_64x8"]),
        trial("e", True, "fail"),
        trial("f", True, "refused"),
        trial("g", True, "refused", late=True),
        trial("h", True, "pass", ms=0.5),
        trial("gemm_hopper", False, "pass", ms=0.5),
    ]
    rows = {row.variant: row for row in bench_rows(trials)}
    ratios = {name: row.ratio_to_best_peer for name, row in rows.items() if row.ratio_to_best_peer}
    assert ratios == {"a": 1.0, "b": 0.5, "skinny": 2.0, "small_gemm": 2.0}
    own = {name: rows[name].own for name in ("a", "skinny", "small_gemm", "gemm_hopper")}
    assert own == {"a": None, "skinny": True, "small_gemm": False, "gemm_hopper": None}
    assert [rows[name].host_us for name in ("a", "skinny")] == [None, 9.5]
    assert "f" not in rows
    assert "g" in rows


def test_lower_precision_has_no_ratio_to_a_peer_in_another():
    same, fp8 = (LinearCase(m=1, n=16, k=16, weights=value) for value in ("bf16", "fp8"))
    known = {"gate": "pass", "ms": 1.0, "raced": True}
    trials = [
        Trial(op="linear", case=case, variant=name, peer=name == "torch", lossy=case is fp8, **known)
        for name, case in (("torch", same), ("skinny", same), ("skinny_fp8", fp8))
    ]
    assert [row.ratio_to_best_peer for row in bench_rows(trials)] == [1.0, 1.0, None]


@pytest.mark.parametrize("cpu", [True, False])
def test_every_group_and_op_has_cases(cpu):
    for group, ops in GROUPS.items():
        keys = [case.key for case in cases(group, cpu)]
        assert len(keys) == len(set(keys))
        assert {case.op for case in cases(group, cpu)} == (set() if group == "decode" else set(ops))
    assert all(check_cases(op, cpu) for op in ("linear", "attention", "rmsnorm", "gated", "rope", "lm_head"))
