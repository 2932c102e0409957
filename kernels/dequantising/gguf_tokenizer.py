"""The tokenizer of a GGUF file as transformers reads it, corrected where transformers leaves things out."""

import json
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from kernels.model_files import ModelRefused
from kernels.model_files.gguf import read_gguf
from kernels.model_files.gguf_config import SPLITS

SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
"""transformers' names of special tokens, and GGUF's."""
ENDS = ("eos", "eot", "eom")


def write(name: str, path: Path, folder: Path) -> None:
    """Writes tokenizer.json, its settings, the chat template, and which tokens end an answer. Raises ModelRefused."""
    metadata = read_gguf(name, path).metadata
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    except Exception as error:  # the libraries raise what they like
        reason = f"the tokenizer cannot be read: {' '.join(str(error).split())[:200]}"
        raise ModelRefused(name, "tokenizer.ggml", reason) from error
    tokens = metadata["tokenizer.ggml.tokens"]
    for ours, theirs in SPECIAL.items():
        number = metadata.get(f"tokenizer.ggml.{theirs}_token_id")
        setattr(tokenizer, f"{ours}_token", None if number is None else tokens[number])
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.save_pretrained(folder)
    _correct(folder / "tokenizer.json", metadata)
    ends = [metadata.get(f"tokenizer.ggml.{each}_token_id") for each in ENDS]
    document = {"eos_token_id": sorted({number for number in ends if isinstance(number, int)})}
    (folder / "generation_config.json").write_text(json.dumps(document))


def _correct(path: Path, metadata: dict[str, Any]) -> None:
    """How text is split before it is encoded, and the token that every text begins with."""
    document = json.loads(path.read_text())
    if metadata["tokenizer.ggml.model"] == "gpt2" and (splits := SPLITS[metadata.get("tokenizer.ggml.pre", "default")]):
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*map(_split, splits), byte_level]}
    first = metadata.get("tokenizer.ggml.bos_token_id")
    begins = metadata.get("tokenizer.ggml.add_bos_token", metadata["tokenizer.ggml.model"] == "llama")
    document["post_processor"] = None
    if begins and isinstance(first, int):
        document["post_processor"] = _beginning(metadata["tokenizer.ggml.tokens"][first], first)
    path.write_text(json.dumps(document, ensure_ascii=False))


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _beginning(token: str, number: int) -> dict[str, Any]:
    special = {"SpecialToken": {"id": token, "type_id": 0}}
    first, second = ({"Sequence": {"id": each, "type_id": at}} for at, each in enumerate("AB"))
    return {
        "type": "TemplateProcessing",
        "single": [special, first],
        "pair": [special, first, {"SpecialToken": {"id": token, "type_id": 1}}, second],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }
