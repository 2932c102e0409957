"""The measurement of the paged engine, at a tiny model on a CPU."""

import json
from pathlib import Path

from benchmarks import serve_engine


def test_a_row_counts_every_token_and_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "serve.json"
    options = ["--model", "tiny-llama", "--at-once", "3", "--prompt", "12", "--tokens", "6", "--rounds", "2"]
    assert serve_engine.main([*options, "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    (row,) = found["rows"]
    assert found["device"]
    assert (row["case"]["requests"], row["concurrency"], row["gate"]) == (6, 3, "pass")
    assert row["tokens_per_second"] > 0
    assert 0 < row["ttft_ms"]["p50"] <= row["ttf6_ms"]["p50"] <= row["ttf6_ms"]["p99"]
    assert row["logit_gaps"]["largest"] < 0.01
