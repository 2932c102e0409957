"""A loaded model as a directory that other servers read: its weights, and a tokenizer of one word for each id."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TOKENIZER_FOLDER = "tokenizer"
"""The tokenizer once more, for AutoTokenizer: beside the configuration of some models (Qwen2 among them) it takes the
class that is registered for the model, whatever the files say, and that class knows no whole words."""
NEUTRAL_TYPE = "llama"
"""A type of model for which AutoTokenizer reads tokenizer.json as it is."""


def write(model: Any, folder: Path, words: Sequence[str] = ()) -> None:
    """Makes `folder`, with safetensors in the model's precision. The first ids are `words`, as far as they reach."""
    folder.mkdir()
    model.save_pretrained(folder, safe_serialization=True)
    names = _names(model.config.vocab_size, words)
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
