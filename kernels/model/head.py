"""The end of a pass: the final norm, the LM head, and the feedback of the next token."""

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.dtypes import DTYPE_NAMES
from kernels.model import decoder
from kernels.model.bound_variants import BoundVariant, BoundVariants, fold_norm
from kernels.model.products import Rows, Stream
from kernels.model.state import State
from kernels.ops import LmHeadCase
from kernels.ops.lm_head import TokenFeedback


def bound_head(model: decoder.Decoder, variants: BoundVariants, batch: int) -> BoundVariant:
    """The planned LM head, or torch's own."""
    vocab, hidden = model.lm_head.shape
    dtype = DTYPE_NAMES[model.embedding.dtype]
    return variants.bound(LmHeadCase(m=batch, vocab=vocab, k=hidden, dtype=dtype, weights=dtype))


class Head:
    """Chooses the next ids and advances the position, by the variant if it `advances_token`. The norm's weight is
    folded into the head's, and a row's 1 / rms left out: it does not change the largest logit.
    """

    def __init__(self, model: decoder.Decoder, variants: BoundVariants, state: State, rows: Rows, queries: int) -> None:
        self._model, self._variants, self._state, self._rows = model, variants, state, rows
        self._bound = bound_head(model, variants, state.batch)
        self._advances_token = self._bound.variant.advances_token
        self._weight = variants.pack(self._bound, model.lm_head, model.norm if self._advances_token else None)
        self._all = torch.full((1,), queries, device=state.position.device)

    def run(self, x: Tensor, count: Tensor | None) -> None:
        """Writes the greedy next ids of x [b, hidden] into the state's token. Adds `count` [1] int64 to its position
        (None: the queries of the pass).
        """
        state, moved = self._state, self._all if count is None else count
        if self._advances_token:
            feedback = TokenFeedback(
                state.token, state.position, moved, self._model.embedding, state.stream, state.seen
            )
            self._bound.function(x, self._weight, feedback=feedback)
            return
        logits = self._bound.function(self._rows.norm(Stream(x), self._model.norm), self._weight)
        state.token.copy_(logits[:, None])
        state.position.add_(moved)

    def logits(self, x: Tensor) -> Tensor:
        """Logits [..., vocab] of a residual stream [..., hidden], with the head's weight as the plan holds it."""
        model, norm, weight = self._model, self._model.norm, self._model.lm_head
        if self._advances_token:
            norm, weight = torch.ones_like(norm), fold_norm(weight, norm)
        hidden = decoder.rms_norm(x, norm, model.eps)
        weight = self._variants.rounded(self._bound, weight, hidden)
        return decoder.softcap(F.linear(hidden, weight), model.logit_cap)
