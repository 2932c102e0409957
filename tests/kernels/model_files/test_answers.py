"""What a model answers with, by the class that its configuration names."""

import pytest

from kernels.model_files import answer_of_config
from kernels.model_files.architectures import check_architecture
from kernels.model_files.errors import ModelRefused


@pytest.mark.parametrize(
    ("model_type", "name", "unit", "form"),
    [
        ("llama", "LlamaForCausalLM", "tokens", "tokens"),
        ("bert", "BertForMaskedLM", "tokens", "tokens"),
        ("bert", "BertModel", "embeddings", "vectors"),
        ("distilbert", "DistilBertForSequenceClassification", "sequences", "classes"),
        ("vit", "ViTForImageClassification", "images", "classes"),
        ("dpt", "DPTForSemanticSegmentation", "images", "classes"),
        ("vit", "ViTModel", "images", "vectors"),
        ("vit", "", "images", "vectors"),
        ("clip_vision_model", "CLIPVisionModel", "images", "vectors"),
        ("t5", "T5ForConditionalGeneration", "sequences", "classes"),
        ("t5", "T5EncoderModel", "embeddings", "vectors"),
        ("whisper", "WhisperForConditionalGeneration", "recordings", "classes"),
        ("whisper", "WhisperModel", "recordings", "vectors"),
    ],
)
def test_an_answer_by_its_class(model_type, name, unit, form):
    config = {"model_type": model_type, "is_encoder_decoder": model_type in ("t5", "bart", "whisper")}
    found = answer_of_config(config | ({"architectures": [name]} if name else {}))
    assert (found.unit, found.form) == (unit, form)


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


@pytest.mark.parametrize(
    ("model_type", "name"),
    [("detr", "DetrForSegmentation"), ("maskformer", "MaskFormerForInstanceSegmentation"), ("sam", "SamModel")],
)
def test_a_model_that_answers_with_masks_is_refused(model_type, name):
    with pytest.raises(ModelRefused, match=f"{name} answers with masks of objects, which the workbench does not judge"):
        check_architecture(model_type, [name])
    check_architecture("detr", ["DetrForObjectDetection"])
