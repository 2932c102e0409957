"""What is refused before anything runs, and the sentence that says why."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from kernels import runners
from kernels.model_files import catalogue
from kernels.runners import load
from tests.workers.conftest import TINY, context_of, manifest, stage_input
from tests.workers.stages.kinds import BERT, CLIP, IMAGES, LLAVA, documents
from workers.documents.measurement import Ceilings
from workers.documents.model import ModelFile
from workers.documents.prices import PriceBook, default_price_book
from workers.documents.workload import Objective
from workers.harness.context import Context, StageError
from workers.prediction.memory import needed_gib
from workers.prediction.precisions import own_precision, serving_dtype
from workers.stages import admit
from workers.wording.load_search import NO_VLLM


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("saved")
    load(None, TINY, generated=True, dtype="fp32", device="cpu").save_pretrained(directory)
    return directory


def uploaded(saved: Path, tmp_path: Path, config: dict | None = None, change=None):
    """A copy of the saved model with the tensors changed by `change`, and its StageInput and Context."""
    model_dir = tmp_path / "model"
    model_dir.mkdir(exist_ok=True)
    tensors = load_file(saved / "model.safetensors")
    if change:
        change(tensors)
    save_file(tensors, model_dir / "model.safetensors", metadata={"format": "pt"})
    result = config or json.loads((saved / "config.json").read_text())
    (model_dir / "config.json").write_text(json.dumps(result))
    files = tuple(
        ModelFile(path=path.name, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), size=path.stat().st_size)
        for path in sorted(model_dir.iterdir())
    )
    document = stage_input("admit", manifest(result, generated=False, files=files))
    return document, Context(model_dir, tmp_path, seconds=30)


def refusal(document, context) -> StageError:
    with pytest.raises(StageError) as caught:
        admit.run(document, context)
    assert caught.value.failure.refused
    return caught.value


def test_a_whole_model_is_admitted_without_a_note_but_that_of_a_worker_without_vllm(saved, tmp_path, monkeypatch):
    document, context = uploaded(saved, tmp_path)
    result = admit.run(document, context)
    assert result.notes == []
    assert result.parameters > 0
    named = document.workload.model_copy(update={"baseline_runner": "vllm"})
    document = document.model_copy(update={"workload": named})
    monkeypatch.delenv("KERNELS_VLLM_PYTHON", raising=False)
    assert admit.run(document, context).notes == [NO_VLLM]
    monkeypatch.setenv("KERNELS_VLLM_PYTHON", "/srv/vllm/bin/python")
    assert admit.run(document, context).notes == []


def test_a_missing_or_misshapen_tensor_is_named_and_a_surplus_one_is_noted(saved, tmp_path):
    name = "model.layers.0.self_attn.q_proj.weight"
    failure = refusal(*uploaded(saved, tmp_path, change=lambda tensors: tensors.pop(name))).failure
    assert failure.field == name
    assert name in failure.sentence
    cut = {name: load_file(saved / "model.safetensors")[name][:32]}
    failure = refusal(*uploaded(saved, tmp_path, change=lambda tensors: tensors.update(cut))).failure
    assert (failure.file, failure.field) == ("model.safetensors", name)
    assert "[32, 64]" in failure.sentence
    assert "[64, 64]" in failure.sentence
    surplus = {"stranger.weight": torch.zeros(64)}
    result = admit.run(*uploaded(saved, tmp_path, change=lambda tensors: tensors.update(surplus)))
    assert "stranger.weight" in result.notes[0]


def test_families_without_their_own_file_checks_are_compared_too(tmp_path):
    config = {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_size": 64, "vocab_size": 128}
    config |= {"intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4}
    whole = tmp_path / "whole"
    load(None, config, generated=True, dtype="fp32", device="cpu").save_pretrained(whole)
    admit.run(*uploaded(whole, tmp_path))
    name = "gpt_neox.layers.0.mlp.dense_h_to_4h.bias"
    cut = {name: load_file(whole / "model.safetensors")[name][:-1]}
    failure = refusal(*uploaded(whole, tmp_path, change=lambda tensors: tensors.update(cut))).failure
    assert (failure.file, failure.field) == ("model.safetensors", name)


def test_a_model_too_large_says_how_much_it_needs(context):
    huge = TINY | {"hidden_size": 32768, "intermediate_size": 131072, "num_hidden_layers": 100, "head_dim": 8192}
    failure = refusal(stage_input("admit", manifest(huge)), context).failure
    assert failure.field == "constraints.gpu_classes"
    needs = needed_gib(stage_input("admit").workload, manifest(huge), "fp32")
    assert f"needs {needs:.1f} GiB" in failure.sentence
    assert "No allowed GPU class" in failure.sentence


@pytest.mark.parametrize(
    ("gpu_class", "changes", "size", "words"),
    [
        ("h200", {}, None, "needs 132.4 GiB in bf16 (131.4 GiB of them weights), but NVIDIA H200 has 131.3 GiB"),
        ("h200x2", {}, 2, ""),
        ("h200x4", {}, 4, ""),  # two do not hold a plan's copy of the layers as well, by the datasheet
        ("h100x4", {"num_hidden_layers": 20}, 1, ""),
        ("h100x4", {"num_hidden_layers": 60}, 4, ""),
        ("h100x2", {"num_hidden_layers": 130}, None, "GiB on each of 2 GPUs, but NVIDIA H100 has 74.5 GiB"),
        ("h200x4", {"num_key_value_heads": 2, "num_hidden_layers": 84}, 2, ""),
        ("h200x2", {"num_key_value_heads": 1, "num_hidden_layers": 84}, None, "2 GPUs cannot divide it."),
    ],
)
def test_the_fewest_gpus_that_hold_the_model(gpu_class, changes, size, words):
    of = manifest(catalogue.entry("llama-3.1-70b")[0] | changes)
    result = admit.feasibility(gpu_class, stage_input("admit").workload, of, "bf16")
    assert (result.tensor_parallel_size, result.feasible) == (size or 1, size is not None)
    assert words in result.reason
    assert bool(result.reason) == (size is None)


def test_what_runs_today_is_sharded_over_the_gpus_that_hold_it_unless_torch_compile_runs_it(context):
    config = manifest(catalogue.entry("llama-3.1-70b")[0])
    admitted = admit.run(stage_input("admit", config, gpu_class="h200x4"), context)
    assert admitted.tensor_parallel_size == 4
    assert admitted.notes[-1].endswith("it takes 4.")
    failure = refusal(stage_input("admit", config, gpu_class="h200x2", baseline_runner="compiled"), context).failure
    assert failure.field == "baseline_runner"
    assert "take eager or vllm" in failure.sentence


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("model_type", "llamalike", "llamalike"), ("hidden_act", "unheard-of", "hidden_act: 'unheard-of' is not known")],
)
def test_an_unknown_architecture_or_activation_is_refused(saved, tmp_path, field, value, said):
    document, surroundings = uploaded(saved, tmp_path)
    document.model.config[field] = value
    failure = refusal(document, surroundings).failure
    assert (failure.file, said in failure.sentence) == ("config.json", True)


WORDS = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
PANICS = {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "model": WORDS}


@pytest.mark.parametrize("generated", [True, False])
@pytest.mark.parametrize(
    ("tokenizer", "sentence"),
    [
        ({"a": 1}, ""),
        (PANICS, "the tokenizers library panics on it"),
        ({"model": WORDS | {"unk_token": "nonesuch"}}, "it cannot be read as a tokenizer: WordLevel error"),
    ],
    ids=["is none", "panics when it is read", "does not know the text's words"],
)
def test_a_tokenizer_that_breaks_its_library_is_refused(saved, tmp_path, tokenizer, sentence, generated):
    document, surroundings = uploaded(saved, tmp_path)
    document.model.generated = generated
    (surroundings.model_dir / "quality.txt").write_text("words of the customer")
    text = json.dumps(tokenizer | {"version": "1.0", "added_tokens": []})
    (surroundings.model_dir / "tokenizer.json").write_text(text)
    failure = refusal(document, surroundings).failure
    assert failure.file == "tokenizer.json"
    assert failure.sentence.startswith(f"tokenizer.json: {sentence}")


@pytest.mark.parametrize(
    ("sla", "words"),
    [
        ({"traffic": {"prompt_tokens": 600, "output_tokens": 8}}, "A request has 600 prompt and 8 output tokens"),
        ({"objectives": [{"metric": "cost_per_mtok", "limit": 1}]}, "price book"),
    ],
)
def test_a_workload_the_model_cannot_serve_is_refused(context, sla, words):
    assert words in refusal(stage_input("admit", **sla), context).failure.sentence


def test_promises_in_what_the_model_does_not_give_are_refused():
    workload = stage_input("admit").workload
    empty = PriceBook(name="none", date="2026-11-20", source="a test", prices=[])
    with pytest.raises(StageError, match="generates none"):
        admit.check_workload(workload, "encoder", {}, "cpu", empty)
    stored = workload.model_copy(update={"objectives": [Objective(metric="throughput", limit=1, unit="tokens/s")]})
    with pytest.raises(StageError, match=r"throughput p50: .* measured in images/s, not tokens/s"):
        admit.check_workload(stored, "other", {}, "cpu", default_price_book(), "images")
    with pytest.raises(ValueError, match="images/s, not tokens/s"):
        documents("admit", IMAGES, objectives=[{"metric": "throughput", "limit": 1, "unit": "tokens/s"}])


WAV2VEC2 = {"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], "hidden_size": 32, "num_hidden_layers": 1}
WAV2VEC2 |= {"num_attention_heads": 2, "intermediate_size": 64, "dtype": "float32"}
ROBERTA = BERT | {"model_type": "roberta", "architectures": ["RobertaModel"]}


@pytest.mark.parametrize(
    ("config", "changes", "said", "field"),
    [
        (WAV2VEC2, {}, "takes input_values, which the workbench cannot make up", None),
        (CLIP | {"architectures": []}, {}, "alone", None),
        (CLIP, {}, "answers images and text together", None),
        (LLAVA, {}, "answers images and text together", None),
        (ROBERTA, {"traffic": {"prompt_tokens": 63, "batch": 2}}, "63 tokens, more than the 62 ", None),
        (IMAGES, {"baseline_runner": "vllm", "load": {"most_users": 4}}, "no text; vllm", "baseline_runner"),
    ],
    ids=["sound", "CLIP of no kind", "CLIP", "LLaVA", "longer than RoBERTa takes", "images in vLLM"],
)
def test_models_of_other_kinds_are_refused_for_what_cannot_be_fed(tmp_path, config, changes, said, field):
    failure = refusal(documents("admit", config, **changes), Context(tmp_path, tmp_path, seconds=20)).failure
    assert said in failure.sentence
    assert field in (None, failure.field)


def test_after_is_vllm_only_where_the_plug_in_runs_the_model():
    named = {"baseline_runner": "vllm", "after_runner": "vllm", "load": {"most_users": 4}}
    workload, book = stage_input("admit", **named).workload, stage_input("admit").prices
    llama = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096}
    admit.check_workload(workload, "decoder", llama, "h200", book)
    for config, gpu_class, why in (
        (llama, "h200x2", "the plug-in runs on h100 and h200, and not h200x2"),
        (llama | {"architectures": ["Gemma2ForCausalLM"]}, "h200", "within vLLM, and not Gemma2ForCausalLM"),
    ):
        with pytest.raises(StageError, match=why) as caught:
            admit.check_workload(workload, "decoder", config, gpu_class, book)
        assert caught.value.failure.field == "after_runner"


@pytest.mark.parametrize(
    ("own", "allowed", "gpu_class", "expected"),
    [
        ("bf16", ["bf16", "fp32"], "h200", "bf16"),
        ("bf16", ["bf16", "fp32"], "cpu", "fp32"),
        ("bf16", ["bf16"], "cpu", "bf16"),
        ("fp32", ["bf16", "int8"], "h200", "bf16"),
        ("bf16", ["int8"], "h200", "bf16"),
        ("float64", ["fp8"], "h200", "fp32"),
        ("torch.float64", ["fp8"], "h200", "fp32"),
    ],
)
def test_the_serving_precision_is_one_that_is_allowed(own, allowed, gpu_class, expected):
    assert serving_dtype(own, allowed, gpu_class) == expected


@pytest.mark.parametrize("name", {catalogue.entry(name)[0]["model_type"]: name for name in catalogue.names()}.values())
def test_the_precision_of_a_configuration_is_that_in_which_transformers_makes_the_model(name):
    config = catalogue.entry(name)[0]
    for changes in ({}, {"torch_dtype": None, "dtype": None}, {"torch_dtype": "float16", "dtype": "float16"}):
        assert own_precision(config | changes) == runners.describe(config | changes).dtype


def test_it_predicts_the_plan_in_every_precision_that_may_be_used(tmp_path):
    config = TINY | {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 4, "head_dim": 512}
    ceilings = Ceilings(read_tbps=0.02, copy_tbps=0.02, matrix_tflops={"fp32": 0.5}, launch_us=1)
    allowed = {"gpu_classes": ["cpu"], "precisions": ["fp32", "fp8"]}
    for generated, weights in (({}, ["fp32"]), ({"allow_unverified_quality": True}, ["fp32", "fp8"])):
        document = stage_input("admit", manifest(config), constraints=allowed | generated)
        document = document.model_copy(update={"ceilings": {"cpu": ceilings}})
        result = admit.run(document, context_of(config, tmp_path))
        assert [plan.weights for plan in result.predicted.plans] == weights
        assert result.predicted.basis == "modelled"
