"""The long load on the server, for a few seconds at a tiny model."""

import json
from pathlib import Path

from benchmarks import serve_steady


def test_nothing_is_lost_and_every_token_is_counted(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = tmp_path / "steady.json"
    options = ["--model", "tiny-llama", "--minutes", "0.05", "--rate", "15", "--sample-seconds", "0.1"]
    assert serve_steady.main([*options, "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert found["requests"] > 15
    assert found["requests"] == found["answered"] + found["gone_away"]
    assert found["gone_away"] > 0
    assert found["prompt_tokens"] == found["prompt_tokens_counted_by_the_server"]
    more = found["tokens_counted_by_the_server"] - found["tokens_of_whole_answers"]
    assert 0 <= more <= found["gone_away"] * serve_steady.LENGTHS.tokens * serve_steady.LENGTHS.most
    assert found["all_pages_free_again"]
    assert found["memory_mib"][0]["engine"] > 10
    assert found["growth_mib"]["server"] is not None
