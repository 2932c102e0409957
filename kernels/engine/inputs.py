"""Inputs of one forward pass, and the tensor that counts among its outputs, for any transformers model."""

from typing import Any

import torch
from transformers import PreTrainedModel


def forward_inputs(model: PreTrainedModel, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Arguments of the model's forward for `ids` [batch, length] int64.

    Encoder-decoders decode one start token; models of images or sound get one fixed random input per row.
    Raises ValueError when the model's main input is none of these.
    """
    if model.main_input_name == "input_ids":
        inputs = {"input_ids": ids}
        if model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = ids[:, :1]
        return inputs
    if model.main_input_name == "pixel_values":
        config: Any = model.config
        size = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
        shape = (ids.shape[0], config.num_channels, size, size)
        generator = torch.Generator().manual_seed(0)
        return {"pixel_values": torch.randn(shape, generator=generator).to(ids.device, model.dtype)}
    raise ValueError(f"{type(model).__name__} takes {model.main_input_name}, which the workbench cannot make up")


def output_tensor(outputs: Any) -> torch.Tensor:
    """Logits, or the last hidden state of a model without a head."""
    for name in ("logits", "last_hidden_state"):
        found = getattr(outputs, name, None)
        if found is not None:
            return found
    return outputs[0]
