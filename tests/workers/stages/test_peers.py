"""vLLM beside the plans of compose: a sentence where it has no figure; with one: test_stage_process.py."""

import re
import time

from tests.kernels.runners import vllm_stand_in
from tests.workers.conftest import stage_input
from workers.measuring.served_model import load
from workers.planning import peers


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
