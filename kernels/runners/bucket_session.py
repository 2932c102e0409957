"""transformers' own modules under CUDA graphs, one for each bucket of prompt lengths."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from kernels.cuda.graphs import captured
from kernels.model.dense_families import STATIC_ROPES
from kernels.model.prompts import bucket
from kernels.runners.sessions import ModuleSession


class BucketSession(ModuleSession):
    """For every model family that the compact decoder does not support.

    A prompt of any length up to the capacity runs in the graph of its bucket, padded on the right. Causality hides the
    padding from the prompt's ids, and later steps overwrite the padding's keys and values.
    """

    def __init__(self, model: Any, batch: int, prompt: int, capacity: int) -> None:
        self._positions = positions(model.config)
        size = self.size(prompt)
        super().__init__(model, batch, size, max(capacity, size), lambda function: function)
        self._last = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._graphs: dict[int, tuple[Tensor, Callable[[], object]]] = {}
        self._rewind()
        self._picks = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._picks = self._picks and self._logits(self.prompt).shape[1] == 1

    def size(self, length: int) -> int:
        """The length to which a prompt is padded."""
        return max(length, min(bucket(length), self._positions))

    def capture(self) -> None:
        self._bucket(self.prompt.shape[1])
        self.step = captured(self._step, self.device)

    def begin(self, prompt: Tensor) -> None:
        length = prompt.shape[1]
        ids, prefill = self._bucket(self.size(length))
        ids[:, :length].copy_(prompt, non_blocking=True)
        self._last.fill_(length - 1)
        prefill()

    def fits(self, batch: int, prompt: int, tokens: int) -> bool:
        return batch == self.batch and max(self.size(prompt), prompt + tokens) <= self.capacity

    def _bucket(self, size: int) -> tuple[Tensor, Callable[[], object]]:
        if size not in self._graphs:
            self._last.zero_()
            ids = torch.zeros(self.batch, size, dtype=torch.int64, device=self.device)
            self._graphs[size] = ids, captured(lambda: self._read(ids), self.device)
        return self._graphs[size]

    def _read(self, ids: Tensor) -> None:
        self._rewind()
        logits = self._logits(ids)
        row = logits if self._picks else logits.index_select(1, self._last)
        self.token.copy_(row[:, 0].argmax(-1, keepdim=True))
        for length in self._lengths:
            length.copy_(self._last[0] + 1)

    def _logits(self, ids: Tensor) -> Tensor:
        """Logits of the last id of the prompt, or of all ids where the model cannot select one."""
        keep = {"logits_to_keep": self._last} if self._picks else {}
        logits: Tensor = self.model(input_ids=ids, past_key_values=self._cache, use_cache=True, **keep).logits
        return logits


LIMITS = ("max_position_embeddings", "original_max_position_embeddings")


def positions(config: Any, names: Sequence[str] = LIMITS) -> int:
    """The longest padded prompt. The model's position table may end here, or its rotary scaling may change."""
    text = config.get_text_config(decoder=True)
    return min(_limits(text, names), default=1 << 30)


def _limits(text: Any, names: Sequence[str]) -> Iterator[int]:
    rope = getattr(text, "rope_parameters", None) or {}
    entries = [rope, *(entry for entry in rope.values() if isinstance(entry, dict))]
    if all(entry.get("rope_type", "default") in STATIC_ROPES for entry in entries):
        names = [name for name in names if name != "original_max_position_embeddings"]
    for name in names:
        for limit in (getattr(text, name, None), *(entry.get(name) for entry in entries)):
            if isinstance(limit, int):
                yield limit
