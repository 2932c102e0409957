"""Chooses the tokens that quality is measured on."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from kernels.model_files import ModelRefused
from workers.measuring import tokenize_text

TEXT_FILES = ("quality.txt", "eval.txt")
TOKENIZER = "tokenizer.json"
CHECKED_CHARACTERS = 2**20
"""Of the text, tokenized before anything is measured."""
TOKENIZE_SECONDS = 120
WRITTEN_AT_ONCE = 64


@dataclass(frozen=True)
class Tokens:
    """Sequences [count, length] of ids; `real` when a person wrote them; `source` says where they come from."""

    ids: torch.Tensor
    real: bool
    source: str


def check_tokenizer(model_dir: Path) -> None:
    """Raises ModelRefused when there is a tokenizer.json that is no tokenizer, or that fails on the model's text."""
    if (model_dir / TOKENIZER).is_file():
        _tokenized(model_dir, _text_file(model_dir), CHECKED_CHARACTERS)


def _text_file(model_dir: Path) -> str:
    return next((name for name in TEXT_FILES if (model_dir / name).is_file()), "")


def _tokenized(model_dir: Path, text_file: str, characters: int) -> list[int]:
    """Ids of the start of the text by the model's tokenizer, in a process of its own. Raises ModelRefused."""
    command = [sys.executable, "-P", tokenize_text.__file__, str(model_dir), text_file, str(characters)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOKENIZE_SECONDS)
    except subprocess.TimeoutExpired:
        reason = f"tokenizing takes longer than {TOKENIZE_SECONDS} seconds"
        raise ModelRefused(TOKENIZER, "", reason) from None
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
        raise ModelRefused(TOKENIZER, "", f"the tokenizers library ends its process on it ({how})")
    found = json.loads(done.stdout.splitlines()[-1])
    if "refused" in found:
        raise ModelRefused(TOKENIZER, "", found["refused"])
    return list(found["ids"])


def for_quality(
    model: torch.nn.Module, model_dir: Path, writes: bool, vocabulary: int, length: int, most: int
) -> Tokens:
    """About `most` tokens: the model's own text, what it writes where that is too short, else random ones.

    `writes`: whether the weights are trained, so that the text that the model generates has meaning.
    """
    text = from_text(model_dir, length, most, vocabulary)
    missing = most - (text.ids.numel() if text else 0)
    if not writes or missing < length:
        return text or random(vocabulary, length, most)
    own = sampled(model, vocabulary, length, missing)
    return own if text is None else Tokens(torch.cat([text.ids, own.ids]), False, f"{text.source} and {own.source}")


def from_text(model_dir: Path, length: int, most: int, vocabulary: int) -> Tokens | None:
    """The model directory's own evaluation text by its own tokenizer, or None when either is missing or too short.

    None as well when the tokenizer knows ids that the model of that `vocabulary` does not.

    Consecutive sequences of `length`; at most `most` tokens. Raises ModelRefused when tokenizing fails.
    """
    text_file = _text_file(model_dir)
    if not text_file or not (model_dir / TOKENIZER).is_file():
        return None
    found = _tokenized(model_dir, text_file, most * 16)[:most]
    count = len(found) // length
    if count == 0 or max(found) >= vocabulary:
        return None
    return Tokens(torch.tensor(found[: count * length]).view(count, length), True, f"the model's {text_file}")


def random(vocabulary: int, length: int, most: int) -> Tokens:
    """Uniformly random ids, the same each time."""
    generator = torch.Generator().manual_seed(20)
    ids = torch.randint(vocabulary, (-(-most // length), length), generator=generator)
    return Tokens(ids, False, "random tokens")


def sampled(model: torch.nn.Module, vocabulary: int, length: int, most: int) -> Tokens:
    """Sequences that the model generates at temperature 1 from a random first token, in batches."""
    torch.manual_seed(20)
    device = next(model.parameters()).device
    count = -(-most // length)
    starts = torch.randint(vocabulary, (count, 1)).to(device)
    written = [_write(model, group, length) for group in starts.split(WRITTEN_AT_ONCE)]
    return Tokens(torch.cat(written), False, "tokens sampled from the model itself")


@torch.no_grad()
def _write(model: torch.nn.Module, starts: torch.Tensor, length: int) -> torch.Tensor:
    ids = model.generate(  # type: ignore[operator]
        starts,
        attention_mask=torch.ones_like(starts),
        do_sample=True,
        top_k=0,
        max_new_tokens=length - 1,
        min_new_tokens=length - 1,
        eos_token_id=None,
        pad_token_id=0,
    )
    return ids.cpu()


def groups(tokens: Tokens, batch: int) -> Iterator[torch.Tensor]:
    """The sequences in groups of at most `batch`."""
    yield from tokens.ids.split(batch)
