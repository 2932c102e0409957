"""Models of every kind, tiny and generated, through the stages on the CPU: what is counted, judged, priced and said."""

import os
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from kernels.runners import by_name, served_answers
from kernels.runners.eager import EagerRunner
from tests.workers.conftest import context_of, fixed_ceilings, leaping_clock
from tests.workers.stages.kinds import CONFIGS, EMBEDDER, documents
from workers.documents.stages import Results
from workers.harness.context import Context
from workers.measuring import quality_by_kind
from workers.stages import admit, baseline, compose, explore, price, profile, report, verify

STAGES: dict[ModuleType, float] = {admit: 5, baseline: 5, profile: 5, explore: 1.5, compose: 3, verify: 20, price: 5}
"""The stages before the report, in the order of a run, with the seconds that each has. They end sooner where they can;
explore and compose try as much as fits."""
EXCLUDED = ("compiled", "torch_linear_separate", "sdpa_flash")
"""Variants that take long to build, or that a busy machine may take for faster: without them today's plan stands."""
PAUSE = 0.6
"""Seconds that today's runner takes longer where a plan is to be faster: long beside what a busy machine takes."""


class Run(NamedTuple):
    results: Results
    report: str


def through_all_stages(config: dict, **sla) -> Run:
    """What the eight stages of a run find, one after the other in one process, and the report of the last one."""
    root, results, shared = Path(mkdtemp(dir=os.environ["WORKBENCH_DATA"])), Results(), dict[str, Any]()
    for stage, seconds in STAGES.items():
        name = stage.__name__.rpartition(".")[2]
        context = context_of(config, root, seconds, shared=shared)
        setattr(results, name, stage.run(documents(name, config, results, **sla), context))
    report.run(documents("report", config, results, **sla), Context(root, root))
    return Run(results, (root / "report.html").read_text())


def on_a_busy_machine(patch: pytest.MonkeyPatch) -> None:
    """Ceilings are not measured, and whether stated times are true is not judged to the millisecond."""
    fixed_ceilings(patch)
    patch.setattr(served_answers, "MAX_LATE_S", 0.5)


@cache
def run_of(name: str) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        on_a_busy_machine(patch)
        return through_all_stages(CONFIGS[name], constraints={"gpu_classes": ["cpu"], "exclude": list(EXCLUDED)})


class PausingRunner(EagerRunner):
    """The eager runner after a pause, which the clock leaps over."""

    leap = staticmethod(lambda seconds: None)

    def __init__(self, model, options=None, ops=None) -> None:
        super().__init__(model, options)

    def encode(self, ids):
        start_ns = time.monotonic_ns()
        self.leap(PAUSE)
        return replace(super().encode(ids), start_ns=start_ns)


def changed(name: str) -> Run:
    """The run of one kind in which today's runner, stated as compiled, pauses, so that the eager plan is faster."""
    with pytest.MonkeyPatch.context() as patch:
        on_a_busy_machine(patch)
        patch.setattr(PausingRunner, "leap", staticmethod(leaping_clock(patch)))
        patch.setitem(by_name.RUNNERS, "compiled", f"{__name__}.PausingRunner")
        patch.setitem(STAGES, compose, 60)
        patch.setitem(STAGES, verify, 1000)
        allowed = {"gpu_classes": ["cpu"], "exclude": list(EXCLUDED[1:])}
        return through_all_stages(CONFIGS[name], constraints=allowed, baseline_runner="compiled")


KINDS = {"embedder": ("embeddings", 1), "masked": ("tokens", 16), "images": ("images", 1), "Whisper": ("recordings", 1)}
"""What is counted of a kind, and how much of it a request has."""
OPERATIONS = {
    "embedder": "linear intermediate.dense",
    "images": "convolution projection",
    "Whisper": "convolution conv1",
}
"""One that the models of a kind have."""


@pytest.mark.parametrize("name", KINDS)
def test_throughput_price_and_report_count_what_the_model_gives(name):
    (result, page), (counted, a_request) = run_of(name), KINDS[name]
    assert result.verify.counted == result.price.counted == counted
    latency = next(
        distribution for distribution in result.baseline.distributions if distribution.metric == "batch_latency"
    )
    rate = next(distribution for distribution in result.baseline.distributions if distribution.metric == "throughput")
    assert rate.unit == f"{counted}/s"
    # The fastest batch of each: another program may lengthen any one of them.
    fastest = 2 * a_request / min(latency.samples) * 1000
    assert max(rate.samples) == pytest.approx(fastest, rel=0.4)
    assert f"a million {counted} costs" in result.price.sentence.lower()
    assert "Batch latency p50 is " in result.verify.sentence
    assert f"Price of a million {counted}" in page
    of_tokens = ("own generate", "bookkeeping", "next token", "egakernel", "one token", "prefill", "put under load")
    if counted != "tokens":
        of_tokens += ("tokens/s", "Tokens/s", "M tokens", "million tokens", "teacher-forced", "output tokens")
    assert [token for token in of_tokens if token in page] == []


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_run_is_of_one_forward_pass_without_what_makes_tokens_and_ends_in_a_verdict(name):
    result = run_of(name).results
    assert {row.phase for row in result.profile.rows if row.bound != "idle"} == {"forward"}
    operations = {row.op for row in result.profile.rows}
    assert {OPERATIONS[name], "attention", "residual add", "input and output"} <= operations
    assert not {"token bookkeeping", "sampling"} & operations
    assert all(row.op.split(" (")[0] for row in result.profile.rows)
    assert result.profile.attributed_share >= 0.95
    assert {candidate.op for candidate in result.explore.candidates} == {"linear", "attention"}
    labels = {trial.label for trial in result.compose.trials}
    assert labels == {"eager", "cuda_graphs", "compiled", "compiled_tuned", "compiled_max_autotune"}
    assert not any("static cache" in trial.summary for trial in result.compose.trials)
    assert result.compose.plan["runner"] == result.verify.plan["runner"] == "eager"
    assert result.verify.verdict == "met"
    assert "With what runs today the SLA is met" in result.verify.sentence
    assert result.verify.not_served.startswith("The model generates no text")


def test_a_changed_plan_goes_through_all_stages():
    result, page = changed("images")
    counted = result.verify.counted
    assert result.verify.recommended
    assert [(check.label, check.confirmed) for check in result.verify.checks] == [("eager", True)]
    assert (result.compose.plan["runner"], result.verify.plan["runner"]) == ("eager", "eager")
    assert result.verify.speedup.ratio.low > 1
    assert result.verify.quality.acceptable
    assert {row.phase for row in result.verify.profile.rows if row.bound != "idle"} == {"forward"}
    before, after = (line.usd_per_mtok for line in result.price.lines[:2])
    assert before > after
    assert f"a million {counted} costs" in result.price.sentence.lower()
    assert f"x the {counted} at " in result.price.sentence
    assert result.price.before_after_ratio == pytest.approx(before / after)
    assert "transformers&#39; own forward pass, compiled" in page
    assert "Batch latency p50 is" in page
    assert "own generate" not in page
    assert "with one decoder step" in run_of("Whisper").report
    assert "one decoder step, not for the text" in run_of("Whisper").results.price.sentence
    assert "decoder step" not in run_of("images").report


def test_embeddings_are_judged_by_cosine_and_largest_error():
    judged = run_of("embedder").results.verify.quality
    assert judged.acceptable
    assert judged.tokens >= judged.needed
    assert [measure.name for measure in judged.measures] == [
        "Cosine distance of the pooled vector",
        "Cosine distance of a token's vector",
        "Largest error of a pooled value",
        "Largest error of a token's value",
    ]
    assert all(measure.after == 0 for measure in judged.measures)
    assert "cosine" in judged.sentence
    assert "likely token" not in judged.sentence


@pytest.mark.parametrize(("name", "noun"), [("images", "class"), ("Whisper", "first token"), ("masked", "token")])
def test_classes_and_masked_tokens_are_judged_by_agreement_and_logits(name, noun):
    judged = run_of(name).results.verify.quality
    assert judged.acceptable or name == "masked"
    assert judged.tokens >= (4096 if name == "masked" else judged.needed)
    assert f"the most likely {noun} differs" in judged.sentence
    assert ("largest error of a logit" in judged.sentence) == (name != "masked")
    assert judged.perplexity_after is None


def test_a_crash_in_quality_keeps_what_was_measured(tmp_path, monkeypatch):
    def crash(*_):
        raise RuntimeError("index 20481 is out of bounds for dimension 1 with size 384")

    monkeypatch.setattr(quality_by_kind, "_judge", crash)
    known = run_of("embedder").results
    results = Results(baseline=known.baseline, compose=known.compose)
    result = verify.run(documents("verify", EMBEDDER, results), Context(tmp_path, tmp_path, seconds=20))
    assert result.quality is None
    assert result.verdict == "met"
    assert result.outcomes[0].samples >= 20
    assert "index 20481 is out of bounds" in result.sentence
