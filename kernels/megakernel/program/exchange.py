"""The 8-byte words by which SMs exchange values (exchange.cuh), without torch. The lowest 16 bits are a flag that the
reader polls for, so it needs neither a counter nor a fence.
"""

from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.shape import ModelShape

MAX_COUNT = 0xFFFF
"""Tokens that one word of a search can count."""

COPIED = ("qkv", "out_partials", "down_partials", "gated")
"""The buffers with `Layout.copies` copies, one after the other."""
EXCHANGED = ("out_partials", "down_partials", "candidates", "counts")
"""The buffers whose words an SM writes into the memory of every rank."""


def word_shapes(shape: ModelShape, layout: Layout) -> dict[str, tuple[int, ...]]:
    """The buffers of words, in the order and with the shapes of `Params`."""
    batch, splits, copies = layout.batch, layout.splits, layout.copies
    return {
        "qkv": (copies, batch, shape.qkv_rows // 2),
        "attention": (batch, shape.heads, splits, shape.head_dim // 2),
        "attention_state": (batch, shape.heads, splits, 2),
        "out_partials": (copies * layout.out_partials, batch, shape.hidden // 2),
        "down_partials": (copies * 2 * layout.down_partials, batch, shape.hidden // 2),
        "gated": (copies * layout.expert_groups * shape.intermediate // 8, batch, 4),
        "normed": (2 * shape.hidden // 8 if layout.sliced else 0, batch, 4),
        "router": (batch, -(-shape.experts // 16) * 16),
        "candidates": (layout.all_sms, batch, 2),
        "counts": (2, layout.all_sms, bin_words(batch)),
    }


def columns_of(batch: int) -> int:
    """The sequences padded to a power of two: kColumns of parameters.cuh."""
    return 1 << (batch - 1).bit_length()


def bins_of(batch: int) -> int:
    """The number of bins into which one round of the search divides each sequence's bracket."""
    return min(32, 64 // columns_of(batch))


def bin_words(batch: int) -> int:
    """The words that an SM writes in one round."""
    return bins_of(batch) * columns_of(batch)
