"""A model as a directory that other servers read: its weights, and a tokenizer of one word for each id."""

import json
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from kernels.model import loading, weights

TOKENIZER_FOLDER = "tokenizer"
"""The tokenizer once more, for AutoTokenizer: beside the configuration of some models (Qwen2 among them) it takes the
class that is registered for the model, whatever the files say, and that class knows no whole words."""
NEUTRAL_TYPE = "llama"
"""A type of model for which AutoTokenizer reads tokenizer.json as it is."""


def write(model: Any, folder: Path, words: Sequence[str] = ()) -> None:
    """Makes `folder`, with safetensors in the model's precision. The first ids are `words`, as far as they reach."""
    folder.mkdir()
    model.save_pretrained(folder, safe_serialization=True)
    _write_tokenizer(folder, _names(model.config.vocab_size, words))


def write_generated(config: dict[str, Any], folder: Path, devices: Sequence[str], dtype: str, seed: int = 0) -> None:
    """Makes `folder` of the decoder that `kernels.runners.load` generates of this configuration, which need fit on no
    device: a process for each of `devices` makes one layer after the other and writes it to a file of its own.
    """
    folder.mkdir()
    model: Any = loading.skeleton(config, dtype)
    model.config.save_pretrained(folder)
    rest = ["model.embed_tokens", "model.norm", *(["lm_head"] if not model.config.tie_word_embeddings else [])]
    modules = [*rest, *(f"model.layers.{index}" for index in range(len(model.model.layers)))]
    modules_of_devices = [modules[begin :: len(devices)] for begin in range(len(devices))]
    write_share = partial(_write_modules, config, folder, dtype, seed)
    with ProcessPoolExecutor(len(devices), multiprocessing.get_context("spawn")) as pool:
        written = [name for names in pool.map(write_share, modules_of_devices, devices) for name in names.items()]
    index = {"metadata": {}, "weight_map": dict(written)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    _write_tokenizer(folder, _names(model.config.vocab_size, ()))


def _write_modules(
    config: dict[str, Any], folder: Path, dtype: str, seed: int, modules: Sequence[str], device: str
) -> Mapping[str, str]:
    """Generates modules of a model on a device and writes each; returns the file of each tensor."""
    model: Any = loading.skeleton(config, dtype)
    files: dict[str, str] = {}
    for module in modules:
        part = loading.skeleton(config, dtype).get_submodule(module).to_empty(device=device)
        weights.generate_shard(part, model, seed, {}, f"{module}.")
        tensors = {f"{module}.{name}": tensor.cpu() for name, tensor in part.named_parameters()}
        file = f"{module}.safetensors"
        save_file(tensors, folder / file, metadata={"format": "pt"})
        files |= dict.fromkeys(tensors, file)
    return files


def _write_tokenizer(folder: Path, names: Sequence[str]) -> None:
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": names[0], "model_max_length": 1 << 30}
    alone = folder / TOKENIZER_FOLDER
    alone.mkdir()
    (alone / "config.json").write_text(json.dumps({"model_type": NEUTRAL_TYPE}))
    for directory in (folder, alone):
        (directory / "tokenizer.json").write_text(json.dumps(_tokenizer(names)))
        (directory / "tokenizer_config.json").write_text(json.dumps(kind))


def _names(vocabulary: int, words: Sequence[str]) -> list[str]:
    """The word of each id: those that are given, then `t` with the id."""
    return [*words, *(f"t{number}" for number in range(len(words), vocabulary))][:vocabulary]


def _tokenizer(names: Sequence[str]) -> dict[str, Any]:
    """tokenizer.json of whole words; another word is the first one's id."""
    vocabulary = {word: number for number, word in enumerate(names)}
    words = {"type": "WordLevel", "vocab": vocabulary, "unk_token": names[0]}
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    split = {"pre_tokenizer": {"type": "WhitespaceSplit"}}
    return {"version": "1.0", "added_tokens": [], **empty, **split, "model": words}
