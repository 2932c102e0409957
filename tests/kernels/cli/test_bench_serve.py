"""`python -m kernels bench serve`: the server of this library under load over HTTP, at a tiny model on the CPU."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import vllm_plugin
from kernels.__main__ import main
from kernels.cli.bench_serve import ServeBench, rounding_of
from kernels.cli.serve_document import ServeCase, ServeRow, ours
from kernels.cli.served_model import prepare_model
from kernels.load.lists import Lengths
from kernels.load.vllm_server import ServerSettings, vllm
from kernels.measure import ceilings
from kernels.runners.plan_files import read_model, read_plan

CALL = ["bench", "serve", "--model", "tiny-llama"]


@pytest.fixture(autouse=True)
def on_one_core(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    result = {"read_tbps": 0.01, "copy_tbps": 0.01, "matrix_tflops": {"fp32": 0.1}, "launch_us": 1.0}
    monkeypatch.setattr(ceilings, "measure_ceilings", lambda *_, **__: result)


def test_every_answer_is_counted_and_the_ids_that_were_served_are_the_models(tmp_path: Path):
    path = tmp_path / "serve.json"
    load = ["--users", "2", "--prompt", "12", "--tokens", "5", "--poisson", "0.1", "--rate", "40"]
    assert main([*CALL, *load, "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [(row["case"]["arrivals"], row["case"]["lengths"].split(",")[0]) for row in rows] == [
        ("closed", "equal"), ("closed", "log-normal"), ("poisson", "log-normal"),
    ]  # fmt: skip
    first, _, poisson = rows
    case = {name: first["case"][name] for name in ("model", "weights", "prompt", "tokens", "transport", "requests")}
    assert list(case.values()) == ["tiny-llama", "fp32", 12, 5, "http", 40]
    assert (first["case"]["concurrency"], poisson["case"]["rate"]) == (2, 40)
    for row in rows:
        assert (row["op"], row["variant"], row["peer"], row["gate"], row["failed"]) == (
            "serve", "kernels", False, "pass", 0,
        )  # fmt: skip
        assert row["logit_gaps"]["ids"] >= 8
        assert row["tokens_per_second"] > 0
        assert 0 < row["ttft_ms"]["p50"] <= row["ttft_ms"]["p99"]
        assert row["tpot_ms"]["p50"] > 0
        assert 0 <= row["goodput"] <= row["requests_per_second"] * 2
    assert first["floor_tokens_per_second"] > first["tokens_per_second"]


def test_a_kv_cache_in_fp8_is_asked_of_the_server_and_named_in_its_rows(tmp_path: Path):
    path = tmp_path / "serve.json"
    load = ["--users", "2", "--prompt", "12", "--tokens", "5", "--kv-cache-dtype", "fp8"]
    assert main([*CALL, *load, "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["rows"]
    assert (row["gate"], row["case"]["kv_cache_dtype"], row["floor_ms"]) == ("pass", "fp8", None)
    assert row["settings"]["options"] == "--kv-cache-dtype=fp8"
    assert row["logit_gaps"]["ids"] >= 8


def test_the_floor_of_a_mixture_reads_the_experts_that_several_requests_choose(tmp_path: Path):
    """32 tokens choose 111.8 of 128 experts evenly, of 9.4 MB in each of 48 layers, at 4 TB/s."""
    rates = {"read_tbps": 4.0, "copy_tbps": 4.0, "matrix_tflops": {"bf16": 700}, "launch_us": 1.0}
    model = prepare_model("qwen3-30b-a3b", "bf16", "cpu", tmp_path, weights=False)
    one, several = (model.floors(128, [count], rates)[count] for count in (1, 32))
    further = (128 * (1 - (1 - 8 / 128) ** 32) - 8) * 3 * 2048 * 768 * 2 * 48
    assert several - one == pytest.approx(64 * further / 4e9, rel=0.05)
    directory = replace(model, generated=False)
    assert directory.floors(128, [32], rates)[32] < 1.2 * one


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--batch", "2"], "--batch is not for serve"),
        (["--vllm", "/no/python"], "--vllm: /no/python is no Python"),
        (["--model", "no-model"], "no-model is no directory"),
        (["--weights", "int8", "--weights", "nvfp4"], "--weights: nvfp4 is not served"),
        (
            ["--kv-cache-dtype", "fp8", "--vllm-plugin"],
            "--vllm-plugin: it leaves a model with a KV cache in fp8 to vLLM",
        ),
    ],
)
def test_a_wrong_call_is_a_sentence_before_anything_is_measured(wrong: list[str], said: str, capsys):
    assert main([*CALL, *wrong]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


def test_this_server_is_started_once_in_each_precision(tmp_path: Path):
    wanted = ServerSettings(tmp_path / "model", "mine", "bf16", 8123, 192, 32)
    result = [ours(wanted, "cuda", ["--no-megakernel"], weights) for weights in ("bf16", "int8")]
    assert "--weights" not in result[0].command
    assert " ".join(result[1].command).endswith("--no-megakernel --weights int8")
    assert [item.settings["weights"] for item in result] == ["bf16", "int8"]


def test_answers_of_a_checkpoint_in_fp8_are_judged_by_what_each_server_rounds(tmp_path: Path):
    """This library's hold its values; a peer rounds activations to fp8 too."""
    folder = tmp_path / "model"
    model = replace(prepare_model("tiny-llama", "bf16", "cpu", folder), device="cuda")
    load = {"model": "tiny-llama", "prompt": 12, "tokens": 5, "arrivals": "closed", "requests": 2}
    rows = [
        ServeRow(case=ServeCase(weights=weights, **load), variant="", peer=peer, gate="pass")
        for weights, peer in (("fp8", False), ("int8", False), ("bf16", True))
    ]
    assert [rounding_of(row, model) for row in rows] == ["fp8", "int8", "bf16"]
    config = json.loads((folder / "config.json").read_text())
    stored = {"dequantised_from": {"quant_method": "fbgemm_fp8"}}
    (folder / "config.json").write_text(json.dumps(config | stored))
    assert [rounding_of(row, model) for row in rows] == ["bf16", "int8", "fp8"]


def test_the_plug_in_is_another_vllm_with_a_plan_of_the_model(tmp_path: Path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 9.9.9\n")
    python.chmod(0o755)
    required = ["--site", str(tmp_path), "--json", str(tmp_path / "out.json")]
    options = vllm_plugin.arguments().parse_args(["--vllm", str(python), "--vllm-plugin", *required])
    model = prepare_model("tiny-llama", "fp32", "cpu", tmp_path / "model")
    bench = ServeBench(options, model, [2], Lengths(12, 5), {}, tmp_path)
    servers = bench.servers()
    assert [(server.variant, server.peer) for server in servers] == [
        ("kernels", False), ("vllm", True), ("vllm_plugin", False),
    ]  # fmt: skip
    assert "KERNELS_PLAN" not in servers[1].environment
    path = Path(servers[2].environment["KERNELS_PLAN"])
    assert read_model(model.directory, read_plan(path))[1:] == (False, 0)
    lowered, plain = (vllm_plugin.started_as(bench, named, path) for named in ("vllm_plugin-int8+3", "vllm"))
    assert read_plan(Path(lowered.environment["KERNELS_PLAN"])).options == {"weights": "int8"}
    assert lowered.settings["weights"] == "int8", "its answers are judged as those of int8 weights"
    assert '"num_speculative_tokens": 3' in lowered.command[-1]
    assert lowered.environment["VLLM_CACHE_ROOT"] != plain.environment["VLLM_CACHE_ROOT"]
    assert (lowered.peer, plain.peer, "KERNELS_PLAN" in plain.environment) == (False, True, False)
    eager = vllm_plugin.started_as(bench, "vllm_plugin+3eager", path)
    assert [value.environment.get("VLLM_PROBE_EAGER") for value in (eager, lowered)] == ["1", None]
    assert eager.command[-1] == lowered.command[-1]


def test_vllm_is_started_with_the_model_the_size_and_what_else_was_asked(tmp_path: Path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 9.9.9\n")
    python.chmod(0o755)
    wanted = ServerSettings(tmp_path / "model", "mine", "bf16", 8123, 192, 32)
    result = vllm(wanted, str(python), {"A": "b"}, ["--api-server-count=4"])
    command = " ".join(result.command)
    assert f"vllm.entrypoints.cli.main serve {tmp_path}/model --served-model-name mine" in command
    assert "--port 8123 --dtype bfloat16 --max-model-len 192 --max-num-seqs 32" in command
    assert command.endswith("--api-server-count=4")
    assert (result.peer, result.settings["version"]) == (True, "9.9.9")
    assert "--tokenizer" not in result.command
    (tmp_path / "model" / "tokenizer").mkdir(parents=True)
    assert f"--tokenizer {tmp_path}/model/tokenizer" in " ".join(vllm(wanted, str(python), {}).command)
    lowered = vllm(wanted, str(python), {}, ["--quantization=fp8"])
    assert (lowered.settings["weights"], "weights" in result.settings) == ("fp8", False)
