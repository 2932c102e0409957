"""Token feedback: where an LM head writes the chosen token, so that the next decode step can begin on the device."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class TokenFeedback(NamedTuple):
    """Tensors that one decode step writes for the next.

    `token` [m, 1] int64; `position` [1] int64, to which `moves` [1] int64 is added. The embeddings of the ids, rows of
    `embedding` [vocab, hidden], go into `stream` [m, hidden]. The ids go into row `position` (after the addition) of
    `seen` [rows, m] int64 in pinned memory. Either is skipped if None.
    """

    token: "Tensor"
    position: "Tensor"
    moves: "Tensor"
    embedding: "Tensor | None" = None
    stream: "Tensor | None" = None
    seen: "Tensor | None" = None
