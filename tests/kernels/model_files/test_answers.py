"""What a model answers with, by the class that its configuration names."""

import pytest

from kernels.model_files import answer_of_config


@pytest.mark.parametrize(
    ("model_type", "name", "unit", "form"),
    [
        ("llama", "LlamaForCausalLM", "tokens", "tokens"),
        ("bert", "BertForMaskedLM", "tokens", "tokens"),
        ("bert", "", "tokens", "tokens"),
        ("bert", "BertModel", "embeddings", "vectors"),
        ("distilbert", "DistilBertForSequenceClassification", "sequences", "classes"),
        ("bert", "BertForTokenClassification", "sequences", "classes"),
        ("vit", "ViTForImageClassification", "images", "classes"),
        ("vit", "ViTModel", "images", "vectors"),
        ("vit", "", "images", "vectors"),
        ("t5", "T5ForConditionalGeneration", "sequences", "classes"),
        ("t5", "T5EncoderModel", "embeddings", "vectors"),
        ("whisper", "WhisperForConditionalGeneration", "recordings", "classes"),
        ("whisper", "WhisperModel", "recordings", "vectors"),
    ],
)
def test_an_answer_by_its_class(model_type, name, unit, form):
    config = {"model_type": model_type, "is_encoder_decoder": model_type in ("t5", "whisper")}
    found = answer_of_config(config | ({"architectures": [name]} if name else {}))
    assert (found.unit, found.form) == (unit, form)
