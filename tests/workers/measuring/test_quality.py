"""Quality is measured against float32, and a wrong model is found out."""

import json
import re
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from kernels.measure.latency import ServedBatch
from kernels.model_files import AnswerKind
from kernels.runners import load, runner
from kernels.runners.eager import Float32Runner
from tests.sample_results import of_baseline
from tests.workers.conftest import TINY, manifest, plan_of, stage_input
from workers.documents.measurement import Interval
from workers.documents.workload import Constraints, Objective
from workers.harness.context import Context, StageError
from workers.measuring import quality, quality_by_kind, texts
from workers.measuring.allowed_rises import OF_ANSWERS, OF_GENERATED, OF_TRAINED, Tolerances, allowed_rises
from workers.measuring.alternation import Alternation
from workers.measuring.outcomes import outcomes
from workers.planning.verdict_words import overall_verdict
from workers.planning.verification import unverified

MEASURED = Path(__file__).parents[3] / "benchmarks" / "results" / "cpu" / "bf16-itself.json"
WORDS = ["the", "kernel", "reads", "its", "weights", "once", "per", "token"]


def model(dtype: str = "fp32"):
    return load(None, TINY | {"num_hidden_layers": 2}, generated=True, dtype=dtype, device="cpu")


POINT = Tolerances.stated(0.01)


TOKENS = texts.random(256, 64, 4096)


def compared(after, tokens):
    sides = [runner("eager", value) for value in (model(), model("bf16"), after)]
    return quality.compare(*sides, tokens, 8, lambda done: done < 4096)


@cache
def with_damage(factor: float):
    after = model("bf16")
    with torch.no_grad():
        after.model.layers[1].mlp.down_proj.weight.mul_(factor)
    return compared(after, TOKENS)


def judged(after, tokens=TOKENS, allowed=POINT):
    """`after`: a model, or what its second MLP is damaged by."""
    comparison = with_damage(after) if isinstance(after, float) else compared(after, tokens)
    return quality.judge(*comparison, tokens, True, allowed)


def test_the_same_precision_loses_nothing_and_a_fall_is_not_called_a_rise():
    judgement = judged(1.0)
    assert judgement.tokens == 4096
    assert judgement.change.value == 0.0
    assert judgement.kl_before == judgement.kl_after > 0
    assert judgement.acceptable
    assert "differing tokens does not rise and the divergence does not rise; " in judgement.sentence
    assert "1 point and 0.001 nats are allowed" in judgement.sentence
    judgement = judged(model())
    assert judgement.change.high < 0
    assert re.search(r"falls by at least \d\.\d\d points and the divergence falls by at least \d", judgement.sentence)


def test_damaged_weights_are_acceptable_only_where_so_much_loss_or_unverified_quality_is_allowed():
    judgement = judged(3.0)
    assert judgement.top1_after > judgement.top1_before + 0.05
    assert judgement.change.low > 0.01
    assert f"rises by at most {100 * judgement.change.high:.2f} points" in judgement.sentence
    assert not judgement.acceptable
    assert "not acceptable" in judgement.sentence
    judgement = judged(3.0, allowed=None)
    assert judgement.acceptable
    assert "unverified" in judgement.sentence
    assert judged(1.2, allowed=Tolerances.stated(0.5)).acceptable
    assert not judged(1.2, allowed=Tolerances.stated(0.0)).acceptable


@pytest.mark.parametrize(
    ("rate", "nats", "acceptable"), [(0.009, 0.0009, True), (0.011, 0.0009, False), (0.009, 0.0011, False)]
)
def test_the_upper_ends_of_both_rises_count(rate, nats, acceptable):
    change, kl = Interval(value=0.0, low=0.0, high=rate), Interval(value=0.0, low=0.0, high=nats)
    assert quality.is_acceptable(change, kl, POINT) == acceptable
    assert quality.is_acceptable(change, kl, None)
    logits = torch.randn(4, 64, 16, generator=torch.Generator().manual_seed(0))
    change, kl = quality.rises(*quality.sides(logits, logits, 2 * logits))
    assert change.high == 0.0, "the most likely token is kept"
    assert not quality.is_acceptable(change, kl, POINT)


@pytest.mark.parametrize(
    ("stated", "generated", "form", "allowed"),
    [
        (None, False, "tokens", OF_TRAINED),
        (None, True, "tokens", OF_GENERATED),
        (None, False, "classes", OF_ANSWERS),
        (None, True, "vectors", OF_ANSWERS),
        (0.01, False, "tokens", Tolerances(0.01, 0.001)),
        (0.01, True, "classes", Tolerances(0.01, 0.001)),
        (0, False, "tokens", Tolerances(0, 0)),
    ],
)
def test_what_is_stated_holds_else_the_default_of_the_weights_and_answers(stated, generated, form, allowed):
    known = manifest(TINY).model_copy(update={"generated": generated})
    constraints = Constraints() if stated is None else Constraints(max_quality_loss=stated)
    result = allowed_rises(constraints, known, AnswerKind("sequences", form))
    assert (result.rate, result.nats) == pytest.approx((allowed.rate, allowed.nats))


def test_a_default_allows_what_bf16_loses_and_less_than_as_much_again():
    """By the committed measurement: other bf16 runners beside eager, their rises' upper ends."""
    rows = json.loads(MEASURED.read_text())["rows"]
    assert {row["weights"] for row in rows} == {"trained", "generated"}
    for row in rows:
        default = OF_TRAINED if row["weights"] == "trained" else OF_GENERATED
        if row["rise"] is None:
            assert default.rate < row["disagreement"]
            assert default.nats <= row["kl"]
        else:
            assert row["rise"]["high"] <= default.rate
            assert row["kl_rise"]["high"] <= default.nats


def test_the_default_is_at_least_half_of_what_today_loses_itself():
    judgement = judged(1.0, allowed=Tolerances(0.0, 0.0, share=0.5))
    allowed = Tolerances(judgement.top1_before / 2, judgement.kl_before / 2)
    assert judgement.acceptable
    assert f"{100 * allowed.rate:.3g} points and {allowed.nats_words} are allowed, 50 %" in judgement.sentence
    assert not judged(1.2, allowed=Tolerances(0.0, 0.0, share=0.5)).acceptable


@pytest.mark.parametrize(
    ("options", "allowed", "expected"),
    [({"weights": "fp8"}, True, True), ({"weights": "fp8"}, False, False), ({}, True, False)],
)
def test_quality_may_stay_unverified_only_for_lower_precision(options, allowed, expected):
    document = stage_input("verify", constraints={"precisions": ["fp32"], "allow_unverified_quality": allowed})
    assert unverified(document, plan_of(document, options=options)) == expected


@pytest.mark.parametrize("allowed", [POINT, None])
def test_nan_logits_never_pass(allowed):
    judgement = judged(float("nan"), allowed=allowed)
    assert not judgement.acceptable
    assert "4,096 tokens the logits after are no numbers" in judgement.sentence


@pytest.fixture
def model_dir(tmp_path):
    vocabulary = {word: index for index, word in enumerate(["?", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    return tmp_path


def test_perplexity_is_that_of_real_text_only_and_too_few_tokens_are_admitted(model_dir):
    (model_dir / "quality.txt").write_text(" ".join(WORDS * 100))
    assert judged(model("bf16"), texts.from_text(model_dir, "", 64, 4096, 256)).perplexity_after > 1
    judgement = judged(model("bf16"), texts.random(256, 64, 512))
    assert (judgement.perplexity_after, judgement.tokens) == (None, 512)
    assert "Fewer than the 4,096 tokens" in judgement.sentence


def test_as_many_sequences_of_a_text_are_recorded_as_are_compared_beside_the_model(model_dir):
    (model_dir / "quality.txt").write_text(" ".join(WORDS * 1500))
    document = stage_input("verify", manifest(TINY), traffic={"prompt_tokens": 300, "output_tokens": 20, "batch": 1})
    context = Context(model_dir, model_dir, seconds=60)
    before, after = (runner("eager", model()) for _ in range(2))
    beside, _ = quality_by_kind.measure(document, context, before, after, unverified=False)
    assert quality_by_kind.record(document, context, before, model_dir / "answers") == ""
    recorded, _ = quality_by_kind.measure_recorded(document, context, model_dir / "answers", after, unverified=False)
    assert recorded.text.sequences == beside.text.sequences == quality_by_kind.MIN_SEQUENCES


def test_a_short_text_is_filled_up_with_what_the_model_writes_if_it_writes(tmp_path, model_dir):
    assert texts.from_text(model_dir, "", 32, 128, 256) is None
    (model_dir / "quality.txt").write_text("the kernel")
    assert texts.from_text(model_dir, "", 32, 128, 256) is None, "too short"
    (model_dir / "quality.txt").write_text(" ".join(WORDS * 20))
    sizes = {"vocabulary": 256, "length": 32, "most": 256}
    tokens = texts.for_quality(model(), model_dir, "", writes=True, **sizes)
    assert (tokens.ids.shape, tokens.written) == ((8, 32), 5)
    assert tokens.source == "the model's quality.txt and tokens sampled from the model itself"
    assert texts.for_quality(model(), model_dir, "", writes=False, **sizes).ids.shape == (5, 32)


@pytest.mark.parametrize(
    ("tokens", "changed", "expected"),
    [(4096, True, "met"), (160, True, "not_enough_samples"), (None, True, "not_enough_samples"), (160, False, "met")],
)
def test_without_its_quality_proven_a_changed_model_meets_nothing(tokens, changed, expected):
    measured = [5.0] * 20
    past = [ServedBatch(0, 0, (int(item * 1e6),), 1, 1) for item in measured]
    result = outcomes([Objective(metric="ttft", limit=10)], [Alternation(past, past)], None)
    known = None if tokens is None else judged(1.0).model_copy(update={"tokens": tokens})
    assert overall_verdict(result, known, changed) == expected


def test_a_model_without_room_for_a_float32_copy_is_compared_in_float32_arithmetic(context, monkeypatch):
    def no_room(*_, **__):
        raise StageError("The model does not fit.")

    monkeypatch.setattr(quality_by_kind, "load", no_room)
    document = stage_input("verify", manifest(TINY), constraints={"precisions": ["bf16"]})
    before, after = runner("eager", model("bf16")), runner("eager", model("bf16"))
    result, why_not = quality_by_kind.measure(document, context, before, after, unverified=False)
    assert why_not == ""
    assert result.acceptable
    assert result.tokens >= 4096
    assert result.kl_before == result.kl_after > 0, "bf16 arithmetic differs from float32 with the same weights"
    needed = 4 * sum(weights.numel() for weights in before.model.parameters())
    assert quality_by_kind.float32_bytes(document, before.model) == needed
    monkeypatch.setattr(quality_by_kind, "load", lambda *_: pytest.fail("it was loaded where it does not fit"))
    monkeypatch.setattr(quality_by_kind, "free_bytes", lambda device: needed - 1)
    assert isinstance(quality_by_kind._float32(document, context, before), Float32Runner)
    document.model.generated = False
    document.model.config["dtype"] = "bfloat16"
    assert quality_by_kind.float32_bytes(document, before.model) == 0, "the weights are those of the files"


def test_a_model_that_is_served_in_float32_is_its_own_reference(context, monkeypatch):
    monkeypatch.setattr(quality_by_kind, "load", lambda *_: pytest.fail("a copy was loaded"))
    before, passes = runner("eager", model()), []
    logits = before.logits
    monkeypatch.setattr(before, "logits", lambda ids: passes.append(ids.numel()) or logits(ids))
    document = stage_input("verify", manifest(TINY))
    result, why_not = quality_by_kind.measure(
        document, context, before, runner("eager", before.model), unverified=False
    )
    assert why_not == ""
    assert result.kl_before == result.kl_after == 0.0
    assert sum(passes) == result.tokens


@pytest.mark.parametrize(
    ("gpu_class", "strict", "late", "proven"),
    [("cpu", False, 0, True), ("cpu", True, 0, False), ("h200", False, 0, False), ("cpu", False, 180, False)],
)
def test_slow_requests_on_a_cpu_give_quality_the_time_that_it_needs_until_the_stage_may_be_stopped(
    context, monkeypatch, gpu_class, strict, late, proven
):
    monkeypatch.setattr(quality_by_kind, "QUALITY_SECONDS", 0.0)
    context._deadline = time.monotonic() - late
    sla = {"traffic": {"prompt_tokens": 64, "output_tokens": 64}, "constraints": {"strict_minutes": strict}}
    document = stage_input("verify", manifest(TINY), results=of_baseline(20, gpu_class), **sla)
    document.seconds_left = 0.0
    before = runner("eager", model())
    result, _ = quality_by_kind.measure(document, context, before, before, unverified=False)
    assert (result.tokens >= result.needed) == proven
    assert ("undecided" in result.summary) == (not proven)


def test_a_model_of_images_is_compared_with_a_float32_copy(context, monkeypatch):
    """Float32 arithmetic casts a module's weights, and not the image that it is given."""
    copies = []
    monkeypatch.setattr(quality_by_kind, "load", lambda *args: copies.append(args[2]) or model())
    before = SimpleNamespace(model=SimpleNamespace(main_input_name="pixel_values"))
    document = stage_input("verify", manifest(TINY | {"dtype": "bfloat16"}), constraints={"precisions": ["bf16"]})
    document.model.generated = False
    quality_by_kind._float32(document, context, before)
    assert copies == ["fp32"]
