"""vLLM beside the plans of compose: its figure, and the sentence where there is none. A stand-in runs on the CPU."""

import re
import time
from pathlib import Path

from tests.kernels.runners import vllm_stand_in
from tests.workers.conftest import stage_input
from tests.workers.stages.confined import confined
from workers.charts import plans
from workers.documents.stages import ComposeResult, Results
from workers.measuring.served_model import load
from workers.planning import peers

WITHOUT_COMPILER = {"constraints": {"exclude": ["compiled", "compiled_tuned", "compiled_max_autotune"]}}


def test_a_confined_stage_measures_vllm_as_a_peer_and_never_chooses_it(outside: Path) -> None:
    result = ComposeResult.model_validate_json(confined(outside, stage_input("compose", **WITHOUT_COMPILER)))
    (found,) = result.peers
    assert (found.gate, found.version, found.peer) == ("pass", "0.0", True), found.sentence
    assert found.primary is not None
    assert found.primary.value > 0
    assert found.served_ids is not None
    assert found.served_ids.acceptable
    assert found.settings["dtype"] == "float32"
    assert found.settings["process_group"] == "fake, of one process"
    assert "a peer, never chosen" in found.sentence
    assert result.plan["runner"] == "eager"
    headers, rows = plans.table(Results(compose=result))
    row = dict(zip(headers, next(row for row in rows if row[0] == "vllm 0.0"), strict=True))
    assert (row["chosen"], row["median"]) == ("peer", found.primary.value)
    assert plans.figure(Results(compose=result))["data"][0]["y"][0] == "vllm 0.0 (peer)"


def test_one_that_cannot_be_started_is_a_sentence(context, monkeypatch):
    document = stage_input("compose")
    model = load(document, context)
    for python, seconds, said in (
        (None, 0, "no environment is configured."),
        ("/nowhere", 0, "starting it takes about 60 s and 30 s were left."),
        ("/nowhere/bin/python", 600, "[Errno 2] No such file"),
    ):
        monkeypatch.delenv("KERNELS_VLLM_PYTHON", raising=False)
        if python:
            monkeypatch.setenv("KERNELS_VLLM_PYTHON", python)
        monkeypatch.setattr(context, "_deadline", time.monotonic() + 30.4 + seconds)
        peer = peers.measure_vllm(document, context, model, 0.1)
        assert (peer.gate, peer.primary) == ("error" if seconds else "refused", None)
        assert peer.sentence.startswith(f"vLLM was not measured: {said}")


def test_an_engine_that_serves_other_ids_has_no_figure(context, monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(vllm_stand_in.environment(tmp_path / "vllm", honest=False)))
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(context, "_deadline", context._deadline + 600)
    document = stage_input("compose")
    peer = peers.measure_vllm(document, context, load(document, context), 0.1)
    assert (peer.gate, peer.primary) == ("fail", None)
    assert "is refused. " in peer.sentence


def test_one_that_was_begun_in_time_may_start_a_little_late_and_no_more(context, monkeypatch, tmp_path):
    slow = vllm_stand_in.program(tmp_path / "vllm", "exec sleep 600")
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", str(slow))
    monkeypatch.setattr(peers, "WORST_START_SECONDS", 0.0)
    monkeypatch.setattr(peers, "OVERRUN_SECONDS", 0.5)
    document = stage_input("compose")
    model = load(document, context)
    monkeypatch.setattr(context, "_deadline", time.monotonic() + 2)
    peer = peers.measure_vllm(document, context, model, 0.1)
    assert peer.gate == "error"
    assert re.match(r"vLLM was not measured: vLLM gave no answer within [0-2](\.\d+)? s", peer.sentence)
