"""Models of every kind, tiny and generated, through the stages on the CPU: what is counted, judged, priced and said."""

import json
import os
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pytest

from kernels.plan import Plan
from tests.workers.conftest import manifest, stage_input
from workers.documents.stages import ComposeResult, Results
from workers.harness.context import Context, StageError
from workers.measuring import quality_by_kind
from workers.stages import admit, baseline, compose, price, report, verify

BERT = {
    "model_type": "bert",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 64,
    "dtype": "float32",
}
EMBEDDER = BERT | {"architectures": ["BertModel"]}
ANSWERS = BERT | {"architectures": ["BertForQuestionAnswering"]}
MASKED = BERT | {"architectures": ["BertForMaskedLM"]}
CLASSIFIER = {
    "model_type": "distilbert",
    "architectures": ["DistilBertForSequenceClassification"],
    "dim": 32,
    "hidden_dim": 64,
    "n_layers": 1,
    "n_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 64,
    "num_labels": 3,
    "dtype": "float32",
}
VIT = {
    "model_type": "vit",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 16,
    "num_channels": 3,
    "num_labels": 5,
    "dtype": "float32",
}
IMAGES = VIT | {"architectures": ["ViTForImageClassification"]}
T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "is_encoder_decoder": True,
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 1,
    "num_heads": 2,
    "vocab_size": 300,
    "n_positions": 64,
    "decoder_start_token_id": 0,
    "dtype": "float32",
}
WHISPER = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "is_encoder_decoder": True,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 300,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "max_target_positions": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
    "dtype": "float32",
}
CONFIGS = {"embedder": EMBEDDER, "masked": MASKED, "classifier": CLASSIFIER, "answers": ANSWERS}
CONFIGS |= {"images": IMAGES, "image embedder": VIT | {"architectures": ["ViTModel"]}, "T5": T5, "Whisper": WHISPER}
SLA = {"traffic": {"prompt_tokens": 16, "batch": 2}, "objectives": [{"metric": "batch_latency", "limit": 10_000}]}


class Run(NamedTuple):
    results: Results
    report: str


def documents(stage: str, config: dict, results: Results | None = None, **changes):
    return stage_input(stage, manifest(config), results, **(SLA | changes))


@cache
def run_of(name: str) -> Run:
    """Admit, baseline, verify of today's plan, price and report of one kind, as a run does them."""
    root, results, config = Path(mkdtemp(dir=os.environ["WORKBENCH_DATA"])), Results(), CONFIGS[name]
    (root / "config.json").write_text(json.dumps(config))
    context = Context(root, root, seconds=20)
    results.admit = admit.run(documents("admit", config), context)
    results.baseline = baseline.run(documents("baseline", config), context)
    results.compose = today(config, results)
    results.verify = verify.run(documents("verify", config, results), context)
    results.price = price.run(documents("price", config, results), context)
    report.run(documents("report", config, results), context)
    return Run(results, (root / "report.html").read_text())


def today(config: dict, results: Results) -> ComposeResult:
    """The plan that changes nothing."""
    plan = Plan(model_digest=manifest(config).digest, gpu="cpu", runner="eager", dtype="fp32")
    return ComposeResult(environment=results.baseline.environment, trials=[], plan=plan.model_dump())


KINDS = pytest.mark.parametrize(
    ("name", "counted", "a_request"),
    [
        ("embedder", "embeddings", 1),
        ("masked", "tokens", 16),
        ("classifier", "sequences", 1),
        ("images", "images", 1),
        ("image embedder", "images", 1),
        ("T5", "sequences", 1),
        ("Whisper", "recordings", 1),
    ],
)


@KINDS
def test_throughput_and_price_count_what_the_model_gives(name, counted, a_request):
    found = run_of(name).results
    assert found.verify.counted == found.price.counted == counted
    latency = next(each for each in found.baseline.distributions if each.metric == "batch_latency")
    rate = next(each for each in found.baseline.distributions if each.metric == "throughput")
    assert rate.unit == f"{counted}/s"
    # The fastest batch of each: another program may lengthen any one of them.
    fastest = 2 * a_request / min(latency.samples) * 1000
    assert max(rate.samples) == pytest.approx(fastest, rel=0.4)
    assert f"A million {counted} costs" in found.price.sentence


@KINDS
def test_a_report_names_no_tokens_where_there_are_none(name, counted, a_request):
    page = run_of(name).report
    assert "what runs today, as stated: transformers&#39; own forward pass, eager" in page
    assert "Batch latency p50 is " in run_of(name).results.verify.sentence
    assert f"Price of a million {counted}" in page
    if counted != "tokens":
        for said in ("tokens/s", "Tokens/s", "M tokens", "million tokens", "teacher-forced", "output tokens"):
            assert said not in page


@pytest.mark.parametrize(("name", "a_request"), [("T5", "texts of 16 tokens"), ("Whisper", "one recording a request")])
def test_an_encoder_decoder_says_that_its_decoder_makes_one_step(name, a_request):
    assert f"{a_request}, with one decoder step" in run_of(name).report
    assert "one decoder step, not for the text that the decoder writes after it" in run_of(name).results.price.sentence
    assert "decoder step" not in run_of("classifier").report


@pytest.mark.parametrize("name", ["embedder", "image embedder"])
def test_embeddings_are_judged_by_cosine_and_largest_error(name):
    judged = run_of(name).results.verify.quality
    assert judged.acceptable
    assert judged.tokens >= judged.needed
    assert [each.name for each in judged.measures] == [
        "Cosine distance of the pooled vector",
        "Cosine distance of a token's vector",
        "Largest error of a pooled value",
        "Largest error of a token's value",
    ]
    assert all(each.after == 0 for each in judged.measures)
    assert "cosine" in judged.sentence
    assert "likely token" not in judged.sentence


@pytest.mark.parametrize(
    ("name", "noun"),
    [
        ("classifier", "class"),
        ("answers", "start or end"),
        ("images", "class"),
        ("T5", "first token"),
        ("Whisper", "first token"),
    ],
)
def test_classes_are_judged_by_agreement_and_logits(name, noun):
    judged = run_of(name).results.verify.quality
    assert judged.acceptable
    assert judged.tokens >= judged.needed
    assert f"the most likely {noun} differs" in judged.sentence
    assert "largest error of a logit" in judged.sentence
    assert judged.perplexity_after is None


def test_a_masked_language_model_is_judged_by_tokens():
    judged = run_of("masked").results.verify.quality
    assert judged.tokens >= 4096
    assert "the most likely token differs" in judged.sentence
    assert judged.perplexity_after is None


@pytest.mark.parametrize("name", ["embedder", "classifier", "images", "T5", "Whisper"])
def test_every_kind_ends_in_a_verdict(name):
    assert run_of(name).results.verify.verdict == "met"
    assert "With what runs today the SLA is met" in run_of(name).results.verify.sentence
    assert run_of(name).results.verify.not_served == "The model generates no text token by token."


def test_a_crash_in_quality_keeps_what_was_measured(tmp_path, monkeypatch):
    def crash(*_):
        raise RuntimeError("index 20481 is out of bounds for dimension 1 with size 384")

    monkeypatch.setattr(quality_by_kind, "_judge", crash)
    results = Results(baseline=run_of("embedder").results.baseline)
    results.compose = today(EMBEDDER, results)
    found = verify.run(documents("verify", EMBEDDER, results), Context(tmp_path, tmp_path, seconds=20))
    assert found.quality is None
    assert found.verdict == "met"
    assert found.outcomes[0].samples >= 20
    assert "Quality could not be measured: index 20481 is out of bounds" in found.sentence


def test_a_comparison_is_told_now_and_then_and_at_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(quality_by_kind, "PROGRESS_SECONDS", float("inf"))
    results = Results(baseline=run_of("embedder").results.baseline)
    results.compose = today(EMBEDDER, results)
    said = []
    verify.run(documents("verify", EMBEDDER, results), Context(tmp_path, tmp_path, said.append, seconds=20))
    assert len([each.message for each in said if each.message.startswith("compared ")]) == 1


def test_what_cannot_be_fed_is_refused_at_admission(tmp_path):
    wav2vec2 = {"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], "dtype": "float32"}
    wav2vec2 |= {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 64}
    refused = [
        (wav2vec2, "takes input_values, which the workbench cannot make up"),
        (CLIP | {"architectures": []}, "alone"),
    ]
    for config, said in [*refused, *((each, "answers images and text together") for each in (CLIP, LLAVA))]:
        with pytest.raises(StageError, match=said) as caught:
            admit.run(documents("admit", config), Context(tmp_path, tmp_path, seconds=20))
        assert caught.value.failure.refused


CLIP = {
    "model_type": "clip",
    "architectures": ["CLIPModel"],
    "projection_dim": 16,
    "text_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2},
    "vision_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2},
    "dtype": "float32",
}


LLAVA = {
    "model_type": "llava",
    "architectures": ["LlavaForConditionalGeneration"],
    "text_config": {"model_type": "llama", "num_attention_heads": 2} | {k: BERT[k] for k in BERT if "size" in k},
    "vision_config": CLIP["vision_config"] | {"model_type": "clip_vision_model", "image_size": 32, "patch_size": 16},
    "dtype": "float32",
}


def test_a_request_longer_than_roberta_takes_is_refused_at_admission(tmp_path):
    roberta = BERT | {"model_type": "roberta", "architectures": ["RobertaModel"]}
    too_long = documents("admit", roberta, traffic={"prompt_tokens": 63, "batch": 2})
    with pytest.raises(StageError) as caught:
        admit.run(too_long, Context(tmp_path, tmp_path, seconds=20))
    assert caught.value.failure.refused
    assert caught.value.failure.sentence == (
        "A request has 63 tokens, more than the 62 tokens that the model's configuration allows: the first 2 of its 64 "
        "positions are kept for padding."
    )


def test_a_promise_in_another_unit_is_refused(tmp_path):
    promised = [{"metric": "throughput", "limit": 1, "unit": "tokens/s"}]
    with pytest.raises(ValueError, match="images/s, not tokens/s"):
        documents("admit", IMAGES, objectives=promised)


def test_a_plan_of_an_encoder_says_what_it_runs(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(EMBEDDER))
    sla = {"constraints": {"exclude": ["compiled"], "precisions": ["fp32"], "gpu_classes": ["cpu"]}}
    found = compose.run(documents("compose", EMBEDDER, **sla), Context(tmp_path, tmp_path, seconds=20))
    chosen = next(each for each in found.trials if each.chosen)
    assert chosen.summary == "Transformers' own forward pass, as customers run it."
    assert not any("own generate" in each.summary or "static cache" in each.summary for each in found.trials)
