"""The input of one pass, and the tensor that is compared, of any model. The *main input* is ids [batch, length], pixels
[batch, channels, height, width] or a spectrogram [batch, bins, frames].
"""

import inspect
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.modeling_outputs import SemanticSegmenterOutput

from kernels.model.loading import skeleton

CHECKED_LENGTH = 8
FRAMES_PER_POSITION = 2
"""Whisper's second convolution takes every other frame."""


def zeros(model: PreTrainedModel, batch: int, length: int) -> torch.Tensor:
    """A main input of `batch` requests, texts of `length` ids. Raises ValueError where the config has none."""
    shape = _shape(model, batch, length)
    dtype = torch.int64 if model.main_input_name == "input_ids" else model.dtype
    return torch.zeros(shape, dtype=dtype, device=model.device)


def random_input(model: PreTrainedModel, batch: int, length: int, generator: torch.Generator) -> torch.Tensor:
    """A random main input on the model's device: ids of its vocabulary, or normal values in its precision."""
    shape = _shape(model, batch, length)
    if model.main_input_name == "input_ids":
        vocabulary = getattr(model.config.get_text_config(), "vocab_size", 0) or 1000
        return torch.randint(vocabulary, shape, generator=generator).to(model.device)
    return torch.randn(shape, generator=generator).to(model.device, model.dtype)


def _shape(model: PreTrainedModel, batch: int, length: int) -> tuple[int, ...]:
    if model.main_input_name == "input_ids":
        return (batch, length)
    config: Any = model.config
    if model.main_input_name == "pixel_values":
        size, channels = (getattr(config, name, None) for name in ("image_size", "num_channels"))
        if not size or not channels:
            raise ValueError(f"{type(model).__name__} takes images, but config.json does not say how large they are")
        height, width = (size, size) if isinstance(size, int) else size
        return (batch, channels, height, width)
    bins, positions = (getattr(config, name, None) for name in ("num_mel_bins", "max_source_positions"))
    if model.main_input_name == "input_features" and bins and positions:
        return (batch, bins, FRAMES_PER_POSITION * positions)
    raise ValueError(f"{type(model).__name__} takes {model.main_input_name}, which the workbench cannot make up")


def place_input(model: PreTrainedModel, main: torch.Tensor) -> torch.Tensor:
    """The main input on the model's device and, unless it is ids, in the model's precision."""
    return main.to(model.device, model.dtype if main.is_floating_point() else main.dtype)


def forward_inputs(model: PreTrainedModel, main: torch.Tensor) -> dict[str, torch.Tensor]:
    """Arguments of the model's forward for its main input, any device. Encoder-decoders decode their start token."""
    inputs = {model.main_input_name: place_input(model, main)}
    if "decoder_input_ids" in inspect.signature(model.forward).parameters:
        start = getattr(model.config, "decoder_start_token_id", None) or 0
        inputs["decoder_input_ids"] = torch.full((len(main), 1), start, device=model.device)
    return inputs


def check(config: dict[str, Any]) -> None:
    """Raises ValueError with a sentence unless the model of `config` can run on its main input alone.

    It makes one pass on the meta device. An op that only the meta device lacks is no reason to refuse.
    """
    model = skeleton(config, "fp32")
    inputs = forward_inputs(model, zeros(model, 1, CHECKED_LENGTH))
    try:
        with torch.no_grad():
            model(**inputs)
    except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
        reason = f": {' '.join(str(error).split())[:200]}" if isinstance(error, ValueError) else ""
        alone = (
            f"{type(model).__name__} cannot run on {model.main_input_name} alone, which is all the workbench makes up"
        )
        raise ValueError(f"{alone}{reason}") from error
    except (RuntimeError, NotImplementedError):
        return


def output_tensor(outputs: Any) -> torch.Tensor:
    """Logits, or the last hidden state; a detector's with boxes behind; of answers to questions [batch, 2, length],
    start and end; of labels [batch, height, width, labels].
    """
    if isinstance(outputs, SemanticSegmenterOutput) and outputs.logits is not None:
        return outputs.logits.movedim(1, -1)
    if getattr(outputs, "start_logits", None) is not None:
        return torch.stack((outputs.start_logits, outputs.end_logits), 1)
    if getattr(outputs, "pred_boxes", None) is not None:
        return torch.cat((outputs.logits, outputs.pred_boxes), -1)
    for name in ("logits", "last_hidden_state"):
        tensor = getattr(outputs, name, None)
        if tensor is not None:
            return tensor
    return outputs[0]
