"""Logits changed before tokens are drawn: biases, penalties, and the tokens that a grammar allows.

What changes depends on all tokens before it, of which the host knows the newest one step late. So a pass runs first;
while the device computes, the tokens of the step before are committed and masks are computed; only then the logits of
the pass are changed and drawn from. Only the rows of requests that ask for it change.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.server.execution.grammars import WORD, Matcher
from kernels.server.execution.logprobs import on
from kernels.server.scheduler.requests import FinishReason, LogitsOptions, Step


class TokenValues:
    """The tokens whose logits biases and penalties change, and by how much."""

    def __init__(self, prompt: Sequence[int], options: LogitsOptions) -> None:
        self._options = options
        self._counted = bool(options.frequency_penalty or options.presence_penalty or options.repetition_penalty != 1)
        repeated = list(prompt) if options.repetition_penalty != 1 else []
        ids = np.unique(np.array([*options.bias, *repeated], np.int64))
        self._places = {token: place for place, token in enumerate(ids.tolist())}
        self._ids: NDArray[np.int64] = ids
        self._values: NDArray[np.float32] = np.zeros((len(ids), 3), np.float32)
        self._values[:, 1] = np.where(np.isin(ids, repeated), options.repetition_penalty, 1)
        for token, bias in options.bias.items():
            self._values[self._places[token], 0] = bias

    def __len__(self) -> int:
        return len(self._places)

    def add(self, token: int) -> None:
        """Counts a token of the answer."""
        if not self._counted:
            return
        place = self._places.get(token)
        if place is None:
            place = self._places[token] = len(self)
            if place == len(self._ids):
                size = 2 * place + 1
                self._ids, self._values = np.resize(self._ids, size), np.resize(self._values, (size, 3))
            self._ids[place], self._values[place] = token, 0
        self._values[place, 1] = self._options.repetition_penalty
        self._values[place, 2] += 1

    @property
    def ids(self) -> NDArray[np.int64]:
        return self._ids[: len(self)]

    @property
    def values(self) -> NDArray[np.float32]:
        """[3, ids]: what is added to a logit, its penalty of repetition, and what is taken off at last."""
        bias, repetition, counts = self._values[: len(self)].T
        options = self._options
        off = options.frequency_penalty * counts + options.presence_penalty * np.minimum(counts, 1)
        return np.stack([bias, repetition, off])


class Processor:
    """See `kernels.server.scheduler.requests.LogitsProcessor`."""

    def __init__(self, prompt: Sequence[int], options: LogitsOptions, matcher: Matcher | None = None) -> None:
        self.values, self.matcher = TokenValues(prompt, options), matcher

    def accept(self, token: int) -> FinishReason | None:
        self.values.add(token)
        return None if self.matcher is None else self.matcher.accept(token)


def process_logits(step: Step, sampled: Sequence[int], logits: Tensor) -> Tensor:
    """A copy of the logits [sampled, vocab] with what the requests of the step's parts change, in the same precision:
    no kernel that samples is compiled for it. `sampled` are the parts' rows. Tokens before them must be committed.
    """
    rows = [
        (number, part.request.processor)
        for number, part in zip(sampled, step.parts, strict=True)
        if part.samples and part.request.state != "finished" and isinstance(part.request.processor, Processor)
    ]
    valued = [(number, processor.values) for number, processor in rows if len(processor.values)]
    matched = [(number, processor.matcher) for number, processor in rows if processor.matcher is not None]
    changed = logits.clone()
    if valued:
        _apply_values(changed, valued)
    if matched:
        masks = on(torch.from_numpy(Matcher.masks([matcher for _, matcher in matched], logits.shape[1])), logits.device)
        at = on(torch.tensor([number for number, _ in matched]), logits.device)
        bits = masks.unsqueeze(-1) >> torch.arange(WORD, dtype=torch.int32, device=logits.device) & 1
        barred = bits.flatten(1)[:, : logits.shape[1]] == 0
        changed.index_copy_(0, at, changed.index_select(0, at).masked_fill_(barred, -torch.inf))
    return changed


def _apply_values(logits: Tensor, valued: Sequence[tuple[int, TokenValues]]) -> None:
    rows = np.repeat([number for number, _ in valued], [len(values) for _, values in valued])
    ids = np.concatenate([values.ids for _, values in valued])
    at = tuple(on(torch.from_numpy(np.stack([rows, ids])), logits.device))
    changes = torch.from_numpy(np.concatenate([values.values for _, values in valued], axis=1))
    bias, repetition, off = on(changes, logits.device)
    moved = logits[at].float() + bias
    moved = torch.where(moved > 0, moved / repetition, moved * repetition) - off
    logits.index_put_(at, moved.to(logits.dtype))
