"""The tokens that quality is measured on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

TEXT_FILES = ("quality.txt", "eval.txt")


@dataclass(frozen=True)
class Tokens:
    """Sequences [count, length] of ids; `real` when a person wrote them; `source` says where they come from."""

    ids: torch.Tensor
    real: bool
    source: str


def from_text(model_dir: Path, length: int, most: int) -> Tokens | None:
    """The model directory's own evaluation text by its own tokenizer, or None when either is missing or too short.

    Consecutive sequences of `length`; at most `most` tokens.
    """
    path = next((model_dir / name for name in TEXT_FILES if (model_dir / name).is_file()), None)
    tokenizer = model_dir / "tokenizer.json"
    if path is None or not tokenizer.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as stream:
        text = stream.read(most * 16)
    found = Tokenizer.from_file(str(tokenizer)).encode(text, add_special_tokens=False).ids[:most]
    count = len(found) // length
    if count == 0:
        return None
    return Tokens(torch.tensor(found[: count * length]).view(count, length), True, f"the model's {path.name}")


def random(vocabulary: int, length: int, most: int) -> Tokens:
    """Uniformly random ids, the same each time."""
    generator = torch.Generator().manual_seed(20)
    ids = torch.randint(vocabulary, (-(-most // length), length), generator=generator)
    return Tokens(ids, False, "random tokens")


def sampled(model: torch.nn.Module, vocabulary: int, length: int, most: int, batch: int) -> Tokens:
    """Sequences that the model itself writes at temperature 1 from a random first token."""
    torch.manual_seed(20)
    device = next(model.parameters()).device
    count = -(-most // length)
    starts = torch.randint(vocabulary, (count, 1)).to(device)
    written = [_write(model, group, length) for group in starts.split(batch)]
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
