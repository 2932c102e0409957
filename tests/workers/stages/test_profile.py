"""The profile of a tiny model: everything has a name, and a planted slow operation is the first bottleneck."""

import gzip
import json

import pytest
import torch

from tests.workers import conftest
from tests.workers.conftest import ENVIRONMENT, TINY, context_of, manifest
from tests.workers.stages.kinds import IMAGES, SLA, documents
from workers.documents.measurement import Distribution
from workers.documents.stages import BaselineResult
from workers.stages import profile

pytestmark = pytest.mark.usefixtures("known_ceilings")
CONFIG = TINY | {"num_hidden_layers": 2}


def stage_input(stage, model=None, *args, **kwargs):
    return conftest.stage_input(stage, model or manifest(CONFIG), *args, **kwargs)


@pytest.fixture
def context(context):
    (context.model_dir / "config.json").write_text(json.dumps(CONFIG))
    return context


class SlowMLP(torch.nn.Module):
    """An MLP that somebody left a needless sort in."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.noise = torch.nn.Parameter(torch.rand(400_000), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 0 * self.noise.cumsum(0).sort().values[0]


@pytest.fixture
def slow_model(monkeypatch):
    """Every model that the profile stage loads has the slow MLP in its second layer."""
    load = profile.load_once

    def load_slow(document, context):
        model = load(document, context)
        model.model.layers[1].mlp = SlowMLP(model.model.layers[1].mlp)
        return model

    monkeypatch.setattr(profile, "load_once", load_slow)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory, known_ceilings):
    """The tiny model's profile, and the context that kept its trace."""
    context = context_of(CONFIG, tmp_path_factory.mktemp("profile"))
    return profile.run(stage_input("profile"), context), context


def test_every_operation_has_a_name_a_time_and_a_floor(profiled):
    result, _ = profiled
    rows = {(row.op, row.phase): row for row in result.rows}
    assert result.attributed_share >= 0.95
    assert sum(row.share for row in result.rows) == pytest.approx(1)
    assert rows["linear down_proj", "prefill"].shapes == "16×64×128"
    assert rows["linear down_proj", "prefill"].flops == 2 * 2 * 16 * 64 * 128
    assert rows["linear down_proj", "decode"].calls == 2 * 7
    step = rows["linear down_proj", "decode"]
    assert step.least_bytes > 4 * 64 * 128 * step.calls
    assert step.floor_ms == pytest.approx(step.least_bytes / 10e9)
    for name in ("attention", "norm input_layernorm", "rope", "kv cache update", "lm_head", "gated activation"):
        assert (name, "decode") in rows
    idle = [row for row in result.rows if row.bound == "idle"]
    assert sum(row.ms for row in idle) + result.device_ms == pytest.approx(max(result.request_ms, result.device_ms))


def test_requests_that_baseline_served_are_not_made_again():
    measured = [("ttft", [10.0, 14.0, 12.0]), ("e2e", [70.0, 90.0, 80.0])]
    distributions = [Distribution(metric=name, unit="ms", samples=each, percentiles={}) for name, each in measured]
    facts = {"runner": "eager", "dtype": "fp32", "requests": 3, "tokens_per_second": 1.0}
    served = BaselineResult(environment=ENVIRONMENT, distributions=distributions, **facts)
    document = stage_input("profile")
    document.results.baseline = served
    assert profile._of_baseline(document) == (80.0, {"prefill": 12.0, "decode": 68.0})
    served.distributions = [Distribution(metric="batch_latency", unit="ms", samples=[5.0, 4.0, 9.0], percentiles={})]
    assert profile._of_baseline(document) == (5.0, {"forward": 5.0})
    served.runner = "compiled"
    assert profile._of_baseline(document) is None


def test_the_cases_for_explore_count_one_request(profiled):
    result, _ = profiled
    cases = {(case["op"], case["phase"], case["label"]): case for case in result.cases}
    down = cases["linear", "decode", "linear down_proj"]
    assert (down["case"]["m"], down["case"]["n"], down["case"]["k"]) == (1, 64, 128)
    assert down["per_request"] == 2 * 7
    row = next(row for row in result.rows if (row.op, row.phase) == ("linear down_proj", "decode"))
    assert down["ms"] == pytest.approx(row.ms)
    decode = cases["attention", "decode", "attention"]
    assert decode["case"]["kv_len"] == 16 + 4
    assert decode["case"]["kv_heads"] == 2
    assert decode["per_request"] == 2 * 7
    assert cases["attention", "prefill", "attention"]["case"]["causal"]


def test_the_trace_is_kept_as_an_artifact(profiled):
    result, context = profiled
    with gzip.open(context.saved_dir / result.trace.sha256) as stream:
        assert json.load(stream)["traceEvents"]
    assert result.trace.media_type == "application/gzip"
    with gzip.open(context.saved_dir / result.timeline.file.sha256) as stream:
        drawn = json.load(stream)
    assert {"prefill", "decode", "linear down_proj"} <= set(drawn["names"])
    assert [lane.name for lane in result.timeline.lanes] == [lane["name"] for lane in drawn["lanes"]]
    assert drawn["duration_ns"] / 1e6 == pytest.approx(result.timeline.duration_ms)


def test_a_planted_slow_operation_is_the_first_bottleneck(context, slow_model):
    result = profile.run(stage_input("profile"), context)
    idle = sum(
        bottleneck.share for bottleneck in result.bottlenecks if bottleneck.bound == "idle"
    )  # much, where the machine is busy
    first = next(bottleneck for bottleneck in result.bottlenecks if bottleneck.bound != "idle")
    assert "SlowMLP" in first.op
    assert "sort" in first.op
    assert first.share > 0.3 * (1 - idle)
    assert "aten::sort" in first.sentence


def test_patches_of_images_are_a_convolution_with_a_floor(tmp_path):
    result = profile.run(documents("profile", IMAGES), context_of(IMAGES, tmp_path))
    patches, width = (IMAGES["image_size"] // IMAGES["patch_size"]) ** 2, 3 * IMAGES["patch_size"] ** 2
    (row,) = (item for item in result.rows if item.op == "convolution projection")
    assert row.flops == 2 * SLA["traffic"]["batch"] * patches * IMAGES["hidden_size"] * width
    assert row.floor_ms
    assert not [item.op for item in result.rows if "Conv2d" in item.op]
