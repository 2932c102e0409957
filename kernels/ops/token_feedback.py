"""Token feedback: where an LM head writes the chosen token, so that the next decode step can begin on the device."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class TokenFeedback(NamedTuple):
    """The tensors that one decode step hands to the next.

    `token` [m, 1] int64; `position` [1] int64, to which `moves` [1] int64 is added. The rows of `embedding`
    [vocab, hidden] of the ids go into `stream` [m, hidden], and the ids into row `position` (as it is afterwards) of
    `seen` [rows, m] int64 in pinned memory, unless these are None.
    """

    token: "Tensor"
    position: "Tensor"
    moves: "Tensor"
    embedding: "Tensor | None" = None
    stream: "Tensor | None" = None
    seen: "Tensor | None" = None
