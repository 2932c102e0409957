"""Whole layers of a model on one device after the other, as transformers' `device_map` places them, and accelerate
moves what passes between: a pipeline without micro-batches.
"""

from collections.abc import Sequence
from typing import Any

import torch
from accelerate import dispatch_model


def layers_in_turn(model: Any, devices: Sequence[torch.device]) -> dict[str, str]:
    """The `device_map` of a decoder: equally many layers on each device, the embedding on the first, and the norm and
    the LM head on the last; a head that is the embedding's on the first. `model` may be on the meta device.
    """
    count, names = len(model.model.layers), [str(device) for device in devices]
    device_of = {f"model.layers.{index}": names[index * len(names) // count] for index in range(count)}
    head = names[0] if model.config.tie_word_embeddings else names[-1]
    ends = {"model.embed_tokens": names[0], "model.rotary_emb": names[0], "model.norm": names[-1], "lm_head": head}
    return ends | device_of


def place_empty(model: Any, device_map: dict[str, str]) -> None:
    """Gives the modules of a model on the meta device memory on theirs, which nothing has filled."""
    for name, device in device_map.items():
        model.get_submodule(name).to_empty(device=device)
    rotary = model.model.rotary_emb
    with torch.device(device_map["model.rotary_emb"]):
        model.model.rotary_emb = type(rotary)(config=model.config)


def dispatch(model: Any, device_map: dict[str, str]) -> None:
    """Gives the model accelerate's hooks, which move the input of each module to its device; a layer's keys and values
    stay where they are. `from_pretrained` does the same.
    """
    dispatch_model(model, device_map, skip_keys=model._skip_keys_device_placement, force_hooks=True)
