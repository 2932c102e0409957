"""The passes of a model that generates no text, by its configuration alone. Imports without torch.

A request is one pass of an encoder over text, an image or a recording, of Whisper with one step of its decoder behind
it. `docs/method.md`, *prediction*, has the formula; `kernels/measure/pass_time.py` the time of a pass.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

from kernels.measure.pass_time import ModelSizes, PassWork
from kernels.model_files.config import value

KERNELS = {"compiled": 10, "cuda_graphs": 12}
"""Kernels of an encoder's layer: six products, attention, two norms and a gate, and torch's own two sums beside them.
`cuda_graphs` as torch's dispatcher counts the calls of BERT and ViT; `compiled` assumes that Inductor fuses sums with
norms, which no run has counted on a GPU."""
WHISPER_KERNELS = {"compiled": 10, "cuda_graphs": 17}, {"compiled": 16, "cuda_graphs": 27}
"""The same of Whisper's encoder, and of its decoder, whose layers have attention twice."""
TEXT = {name: KERNELS for name in ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra")} | {
    "modernbert": {"compiled": 10, "cuda_graphs": 27}
}
"""Encoders of text by their model_type; torch rotates q and k of ModernBERT by many small kernels."""
IMAGES: dict[str, tuple[int, str]] = {
    "vit": (1, ""), "vit_msn": (1, ""), "deit": (2, ""), "beit": (1, ""), "dinov2": (1, ""),
    "dinov2_with_registers": (1, "num_register_tokens"), "yolos": (1, "num_detection_tokens"),
    "clip_vision_model": (1, ""), "siglip_vision_model": (0, ""),
}  # fmt: skip
"""Encoders of images by their model_type: tokens beside the patches, and the field that has the number of more."""
RECORDINGS = ("whisper",)


@dataclass(frozen=True)
class ForwardPart:
    """A stack of layers that a request runs once, and the kernels of a layer by runner."""

    sizes: ModelSizes
    work: PassWork
    kernels: dict[str, int]


class Unpredicted(ValueError):
    """A model whose passes are not known; the message is the words behind "of"."""


def forward_pass(config: dict[str, Any], parameters: int, batch: int, tokens: int) -> list[ForwardPart]:
    """The parts of a request of `batch` inputs, of texts with `tokens` each. Raises Unpredicted."""
    family = config.get("model_type", "")
    if family in TEXT:
        return [_text(config, parameters, batch, tokens)]
    if family in IMAGES:
        return [_image(config, parameters, batch)]
    if family in RECORDINGS:
        return _recording(config, batch)
    raise Unpredicted(f"the family {family or 'without a name'}, whose passes are not known layer by layer")


def _text(config: dict[str, Any], parameters: int, batch: int, tokens: int) -> ForwardPart:
    """All parameters but the tables of embeddings multiply each token, and those of a masked language model's head."""
    hidden, layers = _sizes(config)
    width = _count(config, "embedding_size") or hidden
    vocabulary = (value(config, "vocab_size") or 0) * width
    positions = 0 if config["model_type"] == "modernbert" else value(config, "positions") or 0
    tables = vocabulary + (positions + (value(config, "types") or 0)) * width
    masked = any(name.endswith("ForMaskedLM") for name in config.get("architectures") or [])
    head = vocabulary if masked else 0
    own_head = head if config.get("tie_word_embeddings") is False else 0
    sizes = ModelSizes(layers, max(0, parameters - tables - own_head), head, 0, hidden)
    rows = batch * tokens
    return ForwardPart(sizes, PassWork(rows, rows if masked else 0, 0, rows * tokens), TEXT[config["model_type"]])


def _image(config: dict[str, Any], parameters: int, batch: int) -> ForwardPart:
    """All parameters but the table of positions multiply each patch and each token beside the patches."""
    hidden, layers = _sizes(config)
    image, patch = (_sides(config.get(name)) for name in ("image_size", "patch_size"))
    beside, field = IMAGES[config["model_type"]]
    more = _count(config, field) if field else 0
    if image is None or patch is None or more is None:
        fields = ", ".join(filter(None, ("image_size", "patch_size", field)))
        raise Unpredicted(f"a model of images whose config.json does not say how long the sequence is ({fields})")
    tokens = prod(side // of for side, of in zip(image, patch, strict=True)) + beside + more
    sizes = ModelSizes(layers, max(0, parameters - tokens * hidden), 0, 0, hidden)
    return ForwardPart(sizes, PassWork(batch * tokens, 0, 0, batch * tokens**2), KERNELS)


def _recording(config: dict[str, Any], batch: int) -> list[ForwardPart]:
    """Whisper: two convolutions, the encoder, and a decoder of one token; its keys are counted with the encoder."""
    fields = ("d_model", "encoder_layers", "encoder_ffn_dim", "max_source_positions", "num_mel_bins")
    counts = [_count(config, name) for name in fields]
    width, layers, inner, positions, bins = (count or 0 for count in counts)
    if not all(counts):
        names = ", ".join(fields)
        raise Unpredicted(f"a model of recordings whose config.json does not say how long the sequence is ({names})")
    encoder = layers * (4 * width**2 + 2 * width * inner) + 3 * width * (2 * bins + width)
    rows = batch * positions
    work = PassWork(rows, 0, 0, rows * positions)
    encoding, decoding = WHISPER_KERNELS
    deep, wide = (_count(config, name) or 0 for name in ("decoder_layers", "decoder_ffn_dim"))
    if any(name.endswith("ForAudioClassification") for name in config.get("architectures") or []):
        return [ForwardPart(ModelSizes(layers, encoder, 0, 0, width), work, encoding)]
    cross_attention, self_attention = deep * 2 * width**2, deep * (6 * width**2 + 2 * width * wide)
    head = (value(config, "vocab_size") or 0) * width
    return [
        ForwardPart(ModelSizes(layers, encoder + cross_attention, 0, 0, width), work, encoding),
        ForwardPart(
            ModelSizes(max(1, deep), self_attention, head, 0, width), PassWork(batch, batch, 0, rows), decoding
        ),
    ]


def _sizes(config: dict[str, Any]) -> tuple[int, int]:
    """Width and layers."""
    hidden, layers = value(config, "hidden_size"), value(config, "layers")
    if hidden is None or layers is None:
        raise Unpredicted(f"a {config['model_type']} whose config.json does not say its width and its layers")
    return hidden, layers


def _count(config: dict[str, Any], name: str) -> int | None:
    """A number of one or more; None where the configuration has none."""
    number = config.get(name)
    return number if type(number) is int and number > 0 else None


def _sides(size: Any) -> tuple[int, int] | None:
    """Height and width of a size that is stated as one number or as two; None for anything else."""
    sides = (size, size) if type(size) is int else tuple(size) if isinstance(size, list) else ()
    return sides if len(sides) == 2 and all(type(side) is int and side > 0 for side in sides) else None
