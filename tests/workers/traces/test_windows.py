"""The traced decode steps stand for all of a request."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.workers.conftest import TINY, context_of, stage_input
from workers.stages import profile
from workers.traces import capture, reader
from workers.traces.reader import Trace
from workers.traces.windows import MAX_STEPS, Window, sample, windows


@pytest.mark.parametrize("steps", [1, 18, 19, 20, 127, 128, 2047])
def test_the_windows_have_the_requests_mean_cache_length(steps):
    result = windows(steps)
    traced = [window.skipped + step for window in result for step in range(window.steps)]
    assert len(set(traced)) == len(traced) <= MAX_STEPS
    assert traced[0] >= 0
    assert traced[-1] < steps
    assert sum(traced) / len(traced) == pytest.approx((steps - 1) / 2)


def test_attentions_bytes_are_those_of_every_step_of_a_long_answer(tmp_path, known_ceilings):
    document = stage_input("profile", traffic={"prompt_tokens": 16, "output_tokens": 257})
    result = profile.run(document, context_of(TINY, tmp_path))
    (row,) = [row for row in result.rows if (row.op, row.phase) == ("attention", "decode")]
    heads, kv_heads, dim, layers, element = 4, 2, 16, 1, 4
    q_and_out, k_and_v = 2 * heads, 2 * kv_heads
    truth = sum(layers * element * dim * (q_and_out + k_and_v * (16 + step + 1)) for step in range(256))
    assert row.least_bytes == pytest.approx(truth, rel=1e-9)
    assert row.calls == layers * 256
    assert "early, middle and late" in result.notes[0]


def test_a_window_that_does_not_fit_is_left_out(tmp_path):
    model = torch.nn.Linear(2, 2)

    def request(window: Window):
        def once() -> float:
            if window.skipped:
                raise torch.OutOfMemoryError("too long")
            model(torch.ones(1, 2))
            return 1.0

        return once

    result = sample(model, False, [Window(0, 5), Window(90, 5)], request, Path(tmp_path))
    assert (result.steps, result.left_out) == (5, [Window(90, 5)])


def test_on_a_gpu_no_request_is_timed_without_the_profiler(monkeypatch, tmp_path):
    """A CPU's times are scaled to those without it: the median of three requests."""
    monkeypatch.setattr(capture, "count", lambda model, generates, once: [once()][1:])
    monkeypatch.setattr(capture, "trace", lambda model, generates, once, path: once())
    monkeypatch.setattr(reader, "read", lambda path: Trace())
    for on_gpu, requests in ((True, 3), (False, 5)):
        times: list[float] = []
        model = SimpleNamespace(parameters=lambda on_gpu=on_gpu: iter([SimpleNamespace(is_cuda=on_gpu)]))
        sample(model, False, [Window(0, 5)], lambda _, times=times: lambda: times.append(1.0) or 1.0, tmp_path)
        assert len(times) == requests
