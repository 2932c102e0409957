"""Tiny models of every kind that generates no text, and documents of their stages."""

from tests.workers.conftest import manifest, stage_input
from workers.documents.stages import Results, StageInput

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
BERT = SIZES | {"model_type": "bert", "vocab_size": 300, "max_position_embeddings": 64, "dtype": "float32"}
EMBEDDER = BERT | {"architectures": ["BertModel"]}
MASKED = BERT | {"architectures": ["BertForMaskedLM"]}
VIT = SIZES | {"model_type": "vit", "image_size": 32, "patch_size": 16, "num_channels": 3, "num_labels": 5}
VIT |= {"dtype": "float32"}
IMAGES = VIT | {"architectures": ["ViTForImageClassification"]}
WHISPER = {
    "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "is_encoder_decoder": True,
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 300, "num_mel_bins": 8,
    "max_source_positions": 16, "max_target_positions": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 3, "dtype": "float32",
}  # fmt: skip
CLIP = {"model_type": "clip", "architectures": ["CLIPModel"], "projection_dim": 16, "dtype": "float32"}
CLIP |= {"text_config": SIZES, "vision_config": SIZES}
LLAVA = {
    "model_type": "llava",
    "architectures": ["LlavaForConditionalGeneration"],
    "text_config": {"model_type": "llama", "num_attention_heads": 2} | {k: BERT[k] for k in BERT if "size" in k},
    "vision_config": SIZES | {"model_type": "clip_vision_model", "image_size": 32, "patch_size": 16},
    "dtype": "float32",
}
CONFIGS = {"embedder": EMBEDDER, "masked": MASKED, "images": IMAGES, "Whisper": WHISPER}
SLA = {"traffic": {"prompt_tokens": 16, "batch": 2}, "objectives": [{"metric": "batch_latency", "limit": 10_000}]}


def documents(stage: str, config: dict, results: Results | None = None, **changes) -> StageInput:
    """The document of a stage; `changes` replace fields of a promise about batches of two."""
    return stage_input(stage, manifest(config), results, **(SLA | changes))
