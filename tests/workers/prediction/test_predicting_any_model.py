"""Predictions of mixtures of experts and of models that generate no text, and of every whole-model variant."""

import pytest

from benchmarks.documents import document
from kernels import registry
from kernels.measure.pass_time import KERNEL_US, ROUTED_US, SEQUENCE_US, UNPACKED
from tests.workers.prediction.test_feasibility import model
from tests.workers.prediction.test_predicting import CEILINGS, encoder, of, predicted, values
from workers.documents.workload import Objective
from workers.prediction.plans import VARIANTS
from workers.prediction.predict import primary_prediction


@pytest.mark.parametrize("batch", [1, 8])
def test_a_mixture_by_hand(batch):
    """Of 64 experts of OLMoE a token has 8, and eight tokens have 64 · (1 − (7/8)⁸) = 42 between them."""
    mixture = model("olmoe-1b-7b")
    result = predicted(mixture, ceilings=CEILINGS, traffic={"batch": batch})
    assert [plan.runner for plan in result.plans] == ["megakernel", "kernels", "compiled", "cuda_graphs"]
    expert, table, chosen = 16 * 3 * 1024 * 2048, 50_304 * 2048, 8
    shared = mixture.parameters - 64 * expert - table
    read = shared + 64 * (1 - (7 / 8) ** batch) * expert
    cache = batch * (128 + 32) * 2 * 16 * 16 * 128 * 2
    flops = batch * (2 * (shared + chosen * expert) + 4 * 2048 * 16 * 160)
    bare = (2 * read + cache) / 4e9 + flops / 500e9
    for runner, kernels in {"kernels": 16, "compiled": 26, "cuda_graphs": 94}.items():
        step = values(of(result, runner))[("tpot", None, None)]
        assert step - bare == pytest.approx(16 * kernels * KERNEL_US / 1e3)
    step = values(of(result, "megakernel"))[("tpot", None, None)]
    assert step - bare == pytest.approx(16 * (ROUTED_US + SEQUENCE_US * (batch - 1)) / 1e3)
    everything = 2 * (shared + 64 * expert) / 4e9
    rows = batch * 128
    taken = 2 * rows * (shared - table + chosen * expert) + 2 * batch * table + 4 * 2048 * 16 * rows * 128 / 2
    first = values(of(result, "kernels"))[("ttft", None, None)]
    assert first == pytest.approx(everything + taken / 500e9 + 16 * 16 * KERNEL_US / 1e3, rel=1e-3)
    text = " ".join(result.assumptions)
    assert "8 of 64 experts evenly" in text
    assert "a layer of the megakernel 8.6 µs" in text


@pytest.mark.parametrize("batch", [1, 8])
def test_experts_in_fewer_bits_by_hand(batch):
    """By the kernels int8 of all weights, and MXFP4 of the experts; by the megakernel the latter. Of 32 a token of
    gpt-oss has 4.
    """
    gpt_oss, lower = model("gpt-oss-20b"), ("int8", "mxfp4", "fp8")
    result = predicted(gpt_oss, ceilings=CEILINGS, lower=lower, traffic={"batch": batch})
    others = {plan.runner: plan.weights for plan in result.plans if plan.runner not in ("kernels", "megakernel")}
    assert set(others.values()) == {"bf16"}
    by_megakernel = {
        plan.weights: values(plan)["tpot", None, None] for plan in result.plans if plan.runner == "megakernel"
    }
    assert [*by_megakernel] == ["bf16", "mxfp4"]
    step = {plan.weights: values(plan)["tpot", None, None] for plan in result.plans if plan.runner == "kernels"}
    assert [*step] == ["bf16", "int8", "mxfp4"]
    experts = 32 * (1 - (7 / 8) ** batch) * (24 * 3 * 2880 * 2880)
    for value in (step, by_megakernel):
        assert value["bf16"] - value["mxfp4"] == pytest.approx(
            (2 / 4e9 - 1 / (UNPACKED["mxfp4"] * 1e9)) * experts, rel=1e-3
        )
    others = gpt_oss.parameters - 32 * 24 * 3 * 2880 * 2880 - 201_088 * 2880
    assert step["bf16"] - step["int8"] == pytest.approx((2 - 17 / 16) * (experts + others) / 4e9, rel=1e-2)
    dense = {plan.weights for plan in predicted(lower=lower).plans if plan.runner == "kernels"}
    assert dense == {"bf16", "int8", "fp8"}


@pytest.mark.parametrize("runner", ["kernels", "megakernel"])
def test_the_lm_head_of_a_checkpoint_in_fp8_is_predicted_in_16_bits(runner):
    given = model("llama-3.1-8b")
    stored = {"dequantised_from": {"quant_method": "modelopt", "quant_algo": "FP8"}}
    own = given.model_copy(update={"config": given.config | stored})

    def step(each):
        plans = predicted(each, ceilings=CEILINGS, lower=("fp8",)).plans
        (plan,) = [plan for plan in plans if (plan.runner, plan.weights) == (runner, "fp8")]
        return values(plan)["tpot", None, None]

    unpacked_ms = 1 / 4.2e9 if runner == "megakernel" else 0
    head = 128_256 * 4096
    assert step(own) - step(given) == pytest.approx(head * (2 / 4e9 - max(1 / 4e9, unpacked_ms)))


@pytest.mark.parametrize(
    ("name", "batch", "within"),
    [("qwen3-30b-a3b", 1, 0.05), ("olmoe-1b-7b", 1, 0.05), ("qwen3-30b-a3b", 8, 0.1), ("olmoe-1b-7b", 8, 0.15)],
)
def test_a_token_of_a_mixture_in_the_megakernel(name, batch, within):
    result = values(of(predicted(model(name), traffic={"batch": batch}), "megakernel"))[("tpot", None, None)]
    rows = document("experts")["rows"]
    wanted = {"model": name, "batch": batch, "variant": "no prefetch"}
    (row,) = [row for row in rows if wanted.items() <= row.items()]
    assert abs(result / row["token_ms"] - 1) < within


def test_a_mixture_is_predicted_of_the_runners_that_run_it():
    """Of 61 GB of weights an H200 holds the experts twice, an H100 not."""
    result = {
        name: {plan.runner for plan in predicted(model("qwen3-30b-a3b"), name).plans} for name in ("h200", "h100")
    }
    assert "megakernel" in result["h200"]
    assert "megakernel" not in result["h100"]
    runners = {"compiled", "cuda_graphs"}
    for changed, gpu_class in ({}, "a100"), ({"clip_qkv": 8}, "h200"), ({"mlp_only_layers": [0]}, "h200"):
        result = predicted(model("olmoe-1b-7b", **changed), gpu_class, lower=["fp8"])
        assert {(plan.runner, plan.weights) for plan in result.plans} == {(runner, "bf16") for runner in runners}


def test_an_encoder_by_hand():
    sizes = {"hidden_size": 768, "num_hidden_layers": 12, "vocab_size": 30_522, "max_position_embeddings": 512}
    tables, parameters, rows = (30_522 + 512 + 2) * 768, 110_000_000, 8 * 128
    config = sizes | {"type_vocab_size": 2}
    bert = encoder("bert", parameters, architectures=["BertForSequenceClassification"], **config)
    promise = {"objectives": [{"metric": "batch_latency", "limit": 100}], "traffic": {"batch": 8}}
    result = predicted(bert, ceilings=CEILINGS, **promise)
    bare = 2 * (parameters - tables) / 4e9 + (2 * rows * (parameters - tables) + 4 * 768 * 12 * rows * 128) / 500e9
    for runner, kernels in {"compiled": 10, "cuda_graphs": 12}.items():
        figures, ms = values(of(result, runner)), bare + 12 * kernels * KERNEL_US / 1e3
        assert figures[("batch_latency", None, None)] == figures[("e2e", None, None)] == pytest.approx(ms)
        assert figures[("throughput", None, None)] == pytest.approx(8e3 / ms)
    head = 30_522 * 768
    masked = encoder("bert", parameters, counted="tokens", architectures=["BertForMaskedLM"], **config)
    figures = values(of(predicted(masked, ceilings=CEILINGS, **promise), "cuda_graphs"))
    ms = bare + 12 * 12 * KERNEL_US / 1e3 + 2 * head / 4e9 + 2 * rows * head / 500e9
    assert figures[("batch_latency", None, None)] == pytest.approx(ms)
    assert figures[("throughput", None, None)] == pytest.approx(rows * 1e3 / ms)


def test_images_and_recordings_have_the_length_that_their_configuration_says():
    sides = {"hidden_size": 768, "num_hidden_layers": 12, "patch_size": 16}
    small, large = (
        values(of(predicted(encoder("vit", counted="images", image_size=side, **sides)), "cuda_graphs"))
        for side in (224, 448)
    )
    assert large[("e2e", None, None)] > small[("e2e", None, None)]
    plan = of(predicted(encoder("vit", counted="images", image_size=224, **sides)), "cuda_graphs")
    assert {figure.unit for figure in plan.figures} == {"ms", "images/s"}
    sizes = {"d_model": 1280, "encoder_layers": 32, "decoder_layers": 4, "encoder_ffn_dim": 5120, "vocab_size": 51_866}
    sizes |= {"decoder_ffn_dim": 5120, "max_source_positions": 1500, "num_mel_bins": 128}
    whisper = values(of(predicted(encoder("whisper", 809_000_000, "other", "recordings", **sizes)), "cuda_graphs"))
    body = 32 * (4 * 1280**2 + 2 * 1280 * 5120) + 3 * 1280 * (256 + 1280) + 4 * 2 * 1280**2
    assert whisper[("e2e", None, None)] > 2 * 1500 * body / (0.8 * 989e9)
    without = {name: each for name, each in sizes.items() if name != "max_source_positions"}
    text = predicted(encoder("whisper", 809_000_000, "other", "recordings", **without)).missing
    assert "does not say how long the sequence is" in text[0]


@pytest.mark.parametrize(
    ("family", "config"),
    [
        ("bert", {"hidden_size": 768}),
        ("distilbert", {"dim": 768, "n_layers": "six"}),
        ("vit", {"hidden_size": 768, "num_hidden_layers": 12, "image_size": [224, "x"], "patch_size": 16}),
        ("yolos", {"hidden_size": 768, "num_hidden_layers": 12, "image_size": 224, "patch_size": 16}),
        ("dinov2_with_registers", {"hidden_size": 9, "num_hidden_layers": 1, "image_size": 9, "patch_size": [3]}),
        ("whisper", {"d_model": [1], "encoder_layers": -1}),
    ],
)
def test_a_configuration_without_sizes_has_one_sentence(family, config):
    (sentence,) = predicted(encoder(family, **config)).missing
    assert sentence.startswith("Nothing is predicted of a ")
    assert "does not say" in sentence


def test_every_variant_of_a_whole_model_has_the_prediction_of_its_runner():
    planned = [item for item in registry.variants("model") if item.in_plans]
    assert {item.name for item in planned if item.name != "eager"} == set(VARIANTS)
    for item in planned:
        if item.name != "eager":
            lower = item.options.get("weights")
            runner = "cuda_graphs" if item.options.get("compile") is False else item.runner_name
            assert VARIANTS[item.name] == (runner, lower)
    lossy = {"lower": ["int8", "int4", "fp8", "nvfp4"], "gpu_class": "h200x4"}
    metrics = ("ttft", "ttf_n", "tpot", "itl", "e2e", "batch_latency", "throughput", "cost_per_mtok")
    wanted = [{"metric": metric, "limit": 9} | ({"n": 64} if metric == "ttf_n" else {}) for metric in metrics]
    result = predicted(model("llama-3.1-8b"), objectives=wanted, **lossy)
    objectives = [Objective.model_validate(item) for item in wanted]

    def primary(objective, variant, gpus=1):
        return primary_prediction(objective, result, variant, "bf16", gpus, usd_per_hour=3.6 * gpus)

    for objective in objectives:
        each = {name: primary(objective, name) for name in VARIANTS if "mxfp4" not in name}  # of experts alone
        assert all(each.values()), objective.metric
        assert each["compiled"] == each["compiled_tuned"] == each["compiled_max_autotune"]
        better = [each["megakernel_fp8"], each["megakernel"], each["kernels"], each["compiled"], each["cuda_graphs"]]
        if objective.metric != "ttft":
            assert sorted(better, reverse=objective.direction == "at_least") == better
        assert primary(objective, "megakernel", 4) is not None
        assert primary(objective, "kernels", 2) is None
        assert primary(objective, "eager") is None
    rate, cost = (primary(objectives[metrics.index(value)], "kernels") for value in ("throughput", "cost_per_mtok"))
    assert cost == pytest.approx(1e6 * 3.6 / 3600 / rate)
    assert primary_prediction(objectives[-1], result, "kernels", "bf16") is None
