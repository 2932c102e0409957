"""What the passes of one session share."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class State:
    """`position` [1] int64 is that of the next token to be read; `token` [b, 1].

    Where the planned LM head advances the token itself, `stream` [b, hidden] is the embedding of the
    token, with which a step begins, and `seen` [capacity + 1, b] int64 the host's copy of each token, by its position.
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
