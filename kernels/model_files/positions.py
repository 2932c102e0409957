"""How long a sequence may be by the positions that a configuration has."""

from typing import Any, NamedTuple

from kernels.model_files.config import value

AFTER_PADDING = {
    "camembert",
    "data2vec-text",
    "esm",
    "ibert",
    "longformer",
    "luke",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
}
"""Model types of transformers whose position ids begin at `padding_idx + 1`, as RoBERTa's do; MPNet's is fixed."""
PADDING_ID = 1
"""Where the configuration names no `pad_token_id`."""


class LongestSequence(NamedTuple):
    """The most `tokens` of a sequence. `why` ends a sentence about them where they are fewer than the positions."""

    tokens: int
    why: str = ""


def longest_sequence(config: dict[str, Any]) -> LongestSequence | None:
    """The longest sequence by a checked config.json; None where it states no number of positions."""
    positions, padding = value(config, "positions"), _kept_for_padding(config)
    if positions is None:
        return None
    why = f": the first {padding:,} of its {positions:,} positions are kept for padding" if padding else ""
    return LongestSequence(positions - padding, why)


def _kept_for_padding(config: dict[str, Any]) -> int:
    model_type = config.get("model_type")
    if model_type not in AFTER_PADDING or config.get("position_embedding_type", "absolute") == "rotary":
        return 0
    padding = PADDING_ID if model_type == "mpnet" else config.get("pad_token_id", PADDING_ID)
    return padding + 1 if type(padding) is int else 0
