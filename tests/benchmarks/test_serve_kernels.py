"""The time of a server's step by its kernels: overlapping ones, and the whole program at a tiny model on a CPU."""

import json
from pathlib import Path

from benchmarks import serve_kernels
from benchmarks.serve_kernels import Span, by_kernel


def test_overlapping_kernels_add_up_to_the_pass() -> None:
    """`b` begins while `a` runs: only what it lasts beyond `a` is its own."""
    one = [Span("a", 10, 20), Span("b", 12, 26), Span("a", 25, 31)]
    later = [Span(each.name, each.begin + 1000, each.end + 1000) for each in one]
    a, b = by_kernel([one, later])
    assert (a["kernel"], a["calls"], a["us"], a["us_a_call"], a["busy_us_a_call"]) == ("a", 2, 15, 7.5, 8)
    assert (b["kernel"], b["calls"], b["us"], b["busy_us_a_call"], b["first"]) == ("b", 1, 6, 14, 1)
    assert a["us"] + b["us"] == one[-1].end - one[0].begin


def test_steps_with_and_without_prompts_are_timed(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    options = ["--model", "tiny-llama", "--steps", "3+0", "3+20", "0+20", "--length", "18", "--prompt", "16"]
    assert serve_kernels.main([*options, "--json", str(path)]) == 0
    alone, mixed, prompts = json.loads(path.read_text())["rows"]
    assert (alone["decodes"], alone["tokens_of_prompts"], mixed["tokens_of_prompts"]) == (3, 0, 20)
    assert mixed["rows"] > prompts["rows"] >= 20 > alone["rows"] >= 3
    for each in (alone, mixed, prompts):
        assert each["ms"] > 0
        assert "aten::linear" in {kernel["kernel"] for kernel in each["kernels"]}
