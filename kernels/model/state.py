"""The tensors that the passes of one session share."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class State:
    """`position` [1] int64 and `token` [b, 1] of the next token to read. Where the planned LM head advances the token,
    `stream` [b, hidden] is its embedding, and `seen` [capacity + 1, b] int64 the host's copy.
    """

    batch: int
    capacity: int
    cos: Tensor
    sin: Tensor
    cache: list[tuple[Tensor, Tensor]]
    position: Tensor
    token: Tensor
    stream: Tensor | None = None
    seen: Tensor | None = None
