"""The tensors that the passes of one session share."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class State:
    """`position` [1] int64 is the position of the next token to read; `token` [b, 1] is that token.

    Two more exist where the planned LM head advances the token itself. `stream` [b, hidden] is the token's embedding,
    with which a step begins. `seen` [capacity + 1, b] int64 is the host's copy of each token by its position.
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
