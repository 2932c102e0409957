"""The tables of tensors against the models that transformers really builds, on the meta device."""

from typing import Any

import pytest
import torch
import transformers

from kernels.model.loading import load
from kernels.model_files import ModelRefused, answer_of_config, inspect_config, longest_sequence
from kernels.model_files.architectures import check_architecture
from kernels.model_files.families import FAMILIES, estimated_parameters, head_shape, is_tied
from kernels.model_files.positions import AFTER_PADDING

CLASSES = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM", "mixtral": "MixtralForCausalLM",
    "olmoe": "OlmoeForCausalLM", "gpt_oss": "GptOssForCausalLM", "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM", "granite": "GraniteForCausalLM",
    "smollm3": "SmolLM3ForCausalLM", "phi3": "Phi3ForCausalLM", "gpt2": "GPT2LMHeadModel", "bert": "BertForMaskedLM",
}  # fmt: skip
SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 96, "pad_token_id": None,
}  # fmt: skip
GPT2_SIZES: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 96}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "llama": [{}, {"attention_bias": True, "mlp_bias": True}, {"tie_word_embeddings": True}, {"head_dim": 16}],
    "qwen3": [{"head_dim": 8}, {}, {"attention_bias": True}],
    "qwen3_moe": [{"head_dim": 8}, {"attention_bias": True, "num_experts": 6, "moe_intermediate_size": 24},
        {"num_local_experts": 6, "mlp_only_layers": [0]}, {"num_experts": 6, "decoder_sparse_step": 2}],
    "mixtral": [{}, {"num_local_experts": 3, "head_dim": 16}],
    "olmoe": [{}, {"num_experts": 5}],
    "gpt_oss": [{}, {"num_local_experts": 5, "head_dim": 16, "attention_bias": False}],
    "gemma": [{}, {"head_dim": 8}, {"tie_word_embeddings": False}],
    "gpt2": [{}, {"n_inner": 80}],
}  # fmt: skip


def built(config: dict[str, Any]) -> torch.nn.Module:
    model_type = config["model_type"]
    wanted = transformers.CONFIG_MAPPING[model_type].from_dict(dict(config))
    with torch.device("meta"):
        return getattr(transformers, CLASSES[model_type])(wanted)


def cases() -> list[tuple[str, dict[str, Any]]]:
    result = []
    for model_type in FAMILIES:
        sizes = GPT2_SIZES if model_type == "gpt2" else SIZES
        for change in VARIANTS.get(model_type, [{}]):
            result.append((model_type, sizes | change | {"model_type": model_type}))
    return result


@pytest.mark.parametrize(("model_type", "config"), cases())
def test_the_table_is_what_transformers_builds(model_type: str, config: dict[str, Any]) -> None:
    family = FAMILIES[model_type]
    model = built(config)
    real = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    table = {family.prefix + name: shape for name, shape in family.shapes(config)}
    if family.head and not is_tied(config):
        table[family.head] = head_shape(config)
    if model_type == "bert":
        real = {name: shape for name, shape in real.items() if name in table}
    assert table == real


@pytest.mark.parametrize("model_type", sorted(set(FAMILIES) - {"bert"}))
def test_the_estimate_counts_every_parameter(model_type: str) -> None:
    config = (GPT2_SIZES if model_type == "gpt2" else SIZES) | {"model_type": model_type}
    assert estimated_parameters(config) == sum(parameter.numel() for parameter in built(config).parameters())


@pytest.mark.parametrize("dense", [3, ["1"], {"0": 1}])
def test_the_dense_layers_of_a_mixture_are_a_list_of_numbers(dense: Any) -> None:
    config = SIZES | {"model_type": "qwen3_moe", "mlp_only_layers": dense}
    with pytest.raises(ModelRefused, match="mlp_only_layers: the field must be a list of numbers of layers"):
        inspect_config(config)


def test_a_foreign_family_is_estimated_within_a_third() -> None:
    config = {"model_type": "phimoe", "num_local_experts": 4} | SIZES | {"hidden_size": 256, "intermediate_size": 512}
    wanted = transformers.CONFIG_MAPPING["phimoe"].from_dict(dict(config))
    with torch.device("meta"):
        real = sum(parameter.numel() for parameter in transformers.PhimoeForCausalLM(wanted).parameters())
    assert estimated_parameters(config) == pytest.approx(real, rel=1 / 3)


@pytest.mark.parametrize(
    ("model_type", "name", "unit", "form"),
    [
        ("llama", "LlamaForCausalLM", "tokens", "tokens"), ("bert", "BertForMaskedLM", "tokens", "tokens"),
        ("bert", "BertModel", "embeddings", "vectors"),
        ("distilbert", "DistilBertForSequenceClassification", "sequences", "classes"),
        ("vit", "ViTForImageClassification", "images", "classes"),
        ("dpt", "DPTForSemanticSegmentation", "images", "classes"), ("vit", "ViTModel", "images", "vectors"),
        ("vit", "", "images", "vectors"), ("clip_vision_model", "CLIPVisionModel", "images", "vectors"),
        ("t5", "T5ForConditionalGeneration", "sequences", "classes"), ("t5", "T5EncoderModel", "embeddings", "vectors"),
        ("whisper", "WhisperForConditionalGeneration", "recordings", "classes"),
        ("whisper", "WhisperModel", "recordings", "vectors"),
    ],
)  # fmt: skip
def test_an_answer_by_its_class(model_type, name, unit, form):
    config = {"model_type": model_type, "is_encoder_decoder": model_type in ("t5", "bart", "whisper")}
    answer = answer_of_config(config | ({"architectures": [name]} if name else {}))
    assert (answer.unit, answer.form) == (unit, form)


@pytest.mark.parametrize(
    ("model_type", "name"),
    [("llava", "LlavaForConditionalGeneration"), ("clip", "CLIPModel"), ("vilt", "ViltForQuestionAnswering")],
)
def test_a_model_of_images_and_text_is_refused(model_type, name):
    with pytest.raises(ModelRefused, match=f"{name} answers images and text together"):
        check_architecture(model_type, [name])
    check_architecture("t5", ["T5ForConditionalGeneration"])
    check_architecture("gemma3", ["Gemma3ForCausalLM"])


@pytest.mark.parametrize(
    ("model_type", "name", "taken"),
    [
        ("wav2vec2", "Wav2Vec2ForCTC", "input_values"),
        ("audio-spectrogram-transformer", "ASTForAudioClassification", "input_values"),
        ("vjepa2", "VJEPA2Model", "pixel_values_videos"),
        ("patchtst", "PatchTSTForPrediction", "past_values"),
    ],
)
def test_what_cannot_be_fed_is_refused_at_upload(model_type, name, taken):
    with pytest.raises(ModelRefused, match=f"{name} takes {taken}, which the workbench cannot make up"):
        check_architecture(model_type, [name])
    check_architecture("whisper", ["WhisperForConditionalGeneration"])
    check_architecture("clip", ["CLIPVisionModelWithProjection"])
    check_architecture("clip", ["CLIPTextModel"])
    check_architecture("clip_vision_model", ["CLIPVisionModelWithProjection"])
    check_architecture("llama", ["LlamaModel"])


@pytest.mark.parametrize(
    ("model_type", "name"),
    [("detr", "DetrForSegmentation"), ("maskformer", "MaskFormerForInstanceSegmentation"), ("sam", "SamModel")],
)
def test_a_model_that_answers_with_masks_is_refused(model_type, name):
    with pytest.raises(ModelRefused, match=f"{name} answers with masks of objects, which the workbench does not judge"):
        check_architecture(model_type, [name])
    check_architecture("detr", ["DetrForObjectDetection"])


TINY = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 300,
    "max_position_embeddings": 64, "attention_window": 8,
}  # fmt: skip


def longest_tokens(config: dict[str, Any]) -> int:
    longest = longest_sequence(config)
    return longest.tokens


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert"},
        *({"model_type": item, "pad_token_id": 1} for item in sorted(AFTER_PADDING)),
        {"model_type": "roberta"},
        {"model_type": "roberta", "pad_token_id": 4},
        {"model_type": "mpnet", "pad_token_id": 4},
    ],
    ids=str,
)
@torch.no_grad()
def test_the_model_takes_the_longest_sequence_and_no_longer_one(config):
    longest = longest_tokens(TINY | config)
    model = load(None, TINY | config, generated=True, dtype="fp32", device="cpu")
    model(input_ids=torch.full((1, longest), 7))
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)|must match"):
        model(input_ids=torch.full((1, longest + 1), 7))


def test_rotary_positions_have_none_for_padding():
    esm = TINY | {"model_type": "esm", "pad_token_id": 1}
    assert longest_tokens(esm) == 62
    assert longest_tokens(esm | {"position_embedding_type": "rotary"}) == 64
    assert longest_sequence({"model_type": "mamba"}) is None
