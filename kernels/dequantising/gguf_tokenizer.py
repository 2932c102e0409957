"""The tokenizer of a GGUF file as transformers converts it, corrected where transformers leaves things out."""

import json
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast
from transformers.integrations.ggml import GGUF_TOKENIZER_MAPPING, convert_gguf_tokenizer

from kernels.model_files import ModelRefused
from kernels.model_files.gguf import CHAT_TEMPLATE, read_gguf
from kernels.model_files.gguf_config import SPLITS

SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
"""transformers' names of special tokens, and GGUF's."""
ENDS = ("eos", "eot", "eom")
CPU_SECONDS = 120
CONTROL, USER_DEFINED = 3, 4
"""GGUF's types of tokens that are found in a text before it is split."""
COMPOSED = ("qwen2", "deepseek-r1-qwen", "olmo")
"""Splits, by GGUF's names of them, before which text is brought into Unicode's form NFC."""
NOT_STRIPPED = ("<unk>", "<s>", "<|endoftext|>")
"""Phi-3's other special tokens swallow the white space behind them."""
PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def write(name: str, path: Path, config: Mapping[str, Any], folder: Path) -> None:
    """Writes tokenizer.json, its settings, the chat template, and which tokens end an answer. Raises ModelRefused."""
    metadata = read_gguf(name, path).metadata
    settings = {key.removeprefix("tokenizer."): value for key, value in metadata.items()}
    given = {ours: settings[key] for key, ours in GGUF_TOKENIZER_MAPPING["tokenizer"].items() if key in settings}
    special = {
        f"{ours}_token": given["tokens"][number]
        for ours, theirs in SPECIAL.items()
        if (number := settings.get(f"ggml.{theirs}_token_id")) is not None
    }
    try:
        with _limited():
            if settings["ggml.model"] == "llama" and "merges" not in given:
                given["merges"] = merges(dict(zip(given["tokens"], given.get("scores", ()), strict=False)))
            backend, _ = convert_gguf_tokenizer(settings["ggml.model"], given)
            tokenizer = PreTrainedTokenizerFast(
                tokenizer_object=backend, chat_template=metadata.get(CHAT_TEMPLATE), **special
            )
            tokenizer.save_pretrained(folder)
    except Exception as error:  # the libraries raise what they like
        reason = f"the tokenizer cannot be read: {' '.join(str(error).split())[:200]}"
        raise ModelRefused(name, "tokenizer.ggml", reason) from error
    _correct(folder / "tokenizer.json", settings, config["model_type"])
    ends = [settings.get(f"ggml.{name}_token_id") for name in ENDS]
    document = {"eos_token_id": sorted({number for number in ends if isinstance(number, int)})}
    (folder / "generation_config.json").write_text(json.dumps(document))


def merges(scores: Mapping[str, float]) -> list[str]:
    """The merges that the scores of a SentencePiece vocabulary stand for. transformers' own way takes minutes."""
    merges = [
        (score, scores[token[:at]], scores[token[at:]], f"{token[:at]} {token[at:]}")
        for token, score in scores.items()
        for at in range(1, len(token))
        if " " not in token and token[:at] in scores and token[at:] in scores
    ]
    return [merge for *_, merge in sorted(merges, key=lambda merge: merge[:3], reverse=True)]


@contextmanager
def _limited() -> Iterator[None]:
    """Within the block this process has CPU_SECONDS; more ends it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    until = int(time.process_time()) + CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (until if hard < 0 else min(until, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _correct(path: Path, settings: Mapping[str, Any], model_type: str) -> None:
    """How text is split before it is encoded, which tokens are never split, and the one that every text begins with."""
    document = json.loads(path.read_text())
    if settings["ggml.model"] == "gpt2":
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        splits = map(_split, SPLITS[settings["ggml.pre"]])
        document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*splits, byte_level]}
        document["normalizer"] = {"type": "NFC"} if settings["ggml.pre"] in COMPOSED else None
    added_ids = {token["id"] for token in document["added_tokens"]}
    for number, (token, kind) in enumerate(
        zip(settings["ggml.tokens"], settings.get("ggml.token_type", ()), strict=False)
    ):
        if kind in (CONTROL, USER_DEFINED) and number not in added_ids:
            document["added_tokens"].append(PLAIN | {"id": number, "content": token, "special": kind == CONTROL})
    document["added_tokens"].sort(key=lambda token: token["id"])
    for token in document["added_tokens"] if model_type == "phi3" and settings["ggml.model"] == "llama" else ():
        token["rstrip"] = token["content"] not in NOT_STRIPPED
    first = settings.get("ggml.bos_token_id")
    document["post_processor"] = None
    if settings.get("ggml.add_bos_token", settings["ggml.model"] == "llama") and first is not None:
        document["post_processor"] = _beginning(settings["ggml.tokens"][first], first)
    path.write_text(json.dumps(document, ensure_ascii=False))


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _beginning(token: str, number: int) -> dict[str, Any]:
    special = {"SpecialToken": {"id": token, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": at}} for at, name in enumerate("AB"))
    return {
        "type": "TemplateProcessing",
        "single": [special, first],
        "pair": [special, first, {"SpecialToken": {"id": token, "type_id": 1}}, second],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }
