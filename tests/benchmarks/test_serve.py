"""The programs that measure the server, at a tiny model on a CPU."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import serve_engine, serve_kernels, serve_steady
from benchmarks.serve_kernels import Span, by_kernel
from kernels import runners
from kernels.load.server_process import NotStarted
from kernels.model.decoder import Decoder
from kernels.model.layer_weights import is_fp8
from kernels.quant.quantised_matrix import fp8_rows
from tests.kernels.runners.engine_models import CONFIGS


def test_a_row_of_the_paged_engine_counts_every_token_and_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "serve.json"
    options = ["--model", "tiny-llama", "--at-once", "3", "--prompt", "12", "--tokens", "6", "--rounds", "2"]
    assert serve_engine.main([*options, "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    (row,) = document["rows"]
    assert document["device"]
    assert (row["case"]["requests"], row["concurrency"], row["gate"]) == (6, 3, "pass")
    assert row["tokens_per_second"] > 0
    assert 0 < row["ttft_ms"]["p50"] <= row["ttf6_ms"]["p50"] <= row["ttf6_ms"]["p99"]
    assert row["logit_gaps"]["largest"] < 0.01


def test_a_checkpoints_fp8_has_scales_that_are_no_powers_of_two() -> None:
    model = runners.load(None, CONFIGS["llama"], generated=True, dtype="bf16", device="cpu")
    serve_engine.store(model, "fp8")
    layers = Decoder(model).layers
    assert is_fp8(layers)
    own = fp8_rows(layers[0].o)
    assert torch.equal(own.values(), layers[0].o)
    assert (own.row_scales.log2() % 1 != 0).any()


def test_overlapping_kernels_add_up_to_the_pass() -> None:
    """`b` begins while `a` runs: only what it lasts beyond `a` is its own."""
    one = [Span("a", 10, 20), Span("b", 12, 26), Span("a", 25, 31)]
    later = [Span(item.name, item.begin + 1000, item.end + 1000) for item in one]
    a, b = by_kernel([one, later])
    assert (a["kernel"], a["calls"], a["us"], a["us_a_call"], a["busy_us_a_call"]) == ("a", 2, 15, 7.5, 8)
    assert (b["kernel"], b["calls"], b["us"], b["busy_us_a_call"], b["first"]) == ("b", 1, 6, 14, 1)
    assert a["us"] + b["us"] == one[-1].end - one[0].begin


def test_steps_of_a_server_with_and_without_prompts_are_timed(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    options = ["--model", "tiny-llama", "--steps", "3+0", "3+20", "0+20", "--length", "18", "--prompt", "16"]
    assert serve_kernels.main([*options, "--json", str(path)]) == 0
    alone, mixed, prompts = json.loads(path.read_text())["rows"]
    assert (alone["decodes"], alone["tokens_of_prompts"], mixed["tokens_of_prompts"]) == (3, 0, 20)
    assert mixed["rows"] > prompts["rows"] >= 20 > alone["rows"] >= 3
    for value in (alone, mixed, prompts):
        assert value["ms"] > 0
        assert "aten::linear" in {kernel["kernel"] for kernel in value["kernels"]}


def test_a_long_load_loses_nothing_and_counts_every_token(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = tmp_path / "steady.json"
    options = ["--model", "tiny-llama", "--minutes", "0.05", "--rate", "15", "--sample-seconds", "0.1"]
    assert serve_steady.main([*options, "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert document["requests"] > 15
    assert document["requests"] == document["answered"] + document["gone_away"]
    assert document["gone_away"] > 0
    assert document["prompt_tokens"] == document["prompt_tokens_counted_by_the_server"]
    more = document["tokens_counted_by_the_server"] - document["tokens_of_whole_answers"]
    assert 0 <= more <= document["gone_away"] * serve_steady.LENGTHS.tokens * serve_steady.LENGTHS.most
    assert document["all_pages_free_again"]
    assert document["memory_mib"][0]["engine"] > 10
    assert document["growth_mib"]["server"] is not None


def test_a_long_load_on_more_gpus_than_share_a_model_is_refused_by_the_server(tmp_path: Path) -> None:
    path = tmp_path / "steady.json"
    with pytest.raises(NotStarted, match="num_key_value_heads 2: 3 GPUs need a multiple of 3"):
        serve_steady.main(["--model", "tiny-llama", "--tensor-parallel-size", "3", "--json", str(path)])
    assert not path.exists()
