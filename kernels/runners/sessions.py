"""Buffers and calls of one traffic shape: a prefill and a decode step that work in place, ready to be captured."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import StaticLayer, get_layer_types_and_kwargs

from kernels.cuda.graphs import capture_graph
from kernels.model import decoder
from kernels.model.dense_families import STATIC_ROPES
from kernels.model.prompts import bucket
from kernels.runners.readers import CpuReader, GpuReader, TokenReader

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Compiles a function, or returns it as it is."""


class Session(ABC):
    """`prefill` reads a prompt [b, p], `step` reads `token` [b, 1]; both leave the greedy next ids in `token`."""

    step: Callable[[], object]

    def __init__(self, device: torch.device, batch: int, capacity: int) -> None:
        self.device, self.batch, self.capacity = device, batch, capacity
        self.token = torch.zeros(batch, 1, dtype=torch.int64, device=device)

    @abstractmethod
    def capture(self) -> None:
        """Compiles and captures what `prefill` and `step` call."""

    @abstractmethod
    def prefill(self, prompt: Tensor) -> None:
        """Runs the prompt [b, p] from an empty cache."""

    @abstractmethod
    def fits(self, batch: int, prompt: int, tokens: int) -> bool:
        """Whether it is ready for this shape. The decode steps are one fewer than `tokens`."""

    def reader(self, length: int, tokens: int) -> TokenReader:
        """Reads the `tokens` ids of each row that follow a prompt of that length."""
        return GpuReader(tokens, self.batch) if self.device.type == "cuda" else CpuReader()

    def rotates_alike(self, length: int) -> bool:
        """Whether sequences of this length are rotated as those that it was made for."""
        return True

    @abstractmethod
    def teacher_forced_logits(self, ids: Tensor) -> Tensor:
        """Logits [b, length, vocab] of ids [b, length ≤ capacity], by the captured calls."""


class ExactSession(Session):
    """Prompts of one length."""

    def __init__(self, device: torch.device, batch: int, prompt: int, capacity: int) -> None:
        super().__init__(device, batch, capacity)
        self.prompt = torch.zeros(batch, prompt, dtype=torch.int64, device=device)

    def capture(self) -> None:
        self._captured_prefill = capture_graph(self._prefill, self.device)
        self.step = capture_graph(self._step, self.device)

    def prefill(self, prompt: Tensor) -> None:
        self.prompt.copy_(prompt, non_blocking=True)
        self._captured_prefill()

    def fits(self, batch: int, prompt: int, tokens: int) -> bool:
        return self.prompt.shape == (batch, prompt) and prompt + tokens <= self.capacity

    @abstractmethod
    def _prefill(self) -> None: ...

    @abstractmethod
    def _step(self) -> None: ...


class DecoderSession(ExactSession):
    """The compact decoder over a static cache; one compiled layer serves all layers."""

    def __init__(
        self,
        model: decoder.Decoder,
        batch: int,
        prompt: int,
        capacity: int,
        compiled: Compile,
        linear: decoder.Linear = F.linear,
        attention: decoder.Attention | None = None,
    ) -> None:
        super().__init__(model.embedding.device, batch, prompt, capacity)
        self.model, self._linear, self._attention = model, linear, attention
        self.position = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._cos, self._sin = model.rope_table(capacity)
        self._cache = model.cache(batch, capacity)
        self._embed, self._layer, self._finish = (
            compiled(function) for function in (decoder.embed, decoder.layer, decoder.finish)
        )
        self._prompt_hidden = self._step_hidden = self.token

    def fits(self, batch: int, prompt: int, tokens: int) -> bool:
        return super().fits(batch, prompt, tokens) and self.rotates_alike(prompt + tokens)

    def rotates_alike(self, length: int) -> bool:
        return self.model.rotates_alike(length, self.capacity)

    def _pass(self, ids: Tensor) -> Tensor:
        model = self.model
        delta, residual, positions = self._embed(ids, self.position, model.embedding, self._cos, self._sin)
        for weights, shape, cache in zip(model.layers, model.shapes, self._cache, strict=True):
            delta, residual = self._layer(
                delta, residual, positions, cache, weights, shape, self._linear, self._attention
            )
        return self._finish(delta, residual, model.norm, model.lm_head, self.token, self.position, model.eps)

    def _prefill(self) -> None:
        self.position.zero_()
        self._prompt_hidden = self._pass(self.prompt)

    def _step(self) -> None:
        self._step_hidden = self._pass(self.token)

    def teacher_forced_logits(self, ids: Tensor) -> Tensor:
        length = self.prompt.shape[1]
        self.prompt.copy_(F.pad(ids[:, :length], (0, max(0, length - ids.shape[1]))))
        self._captured_prefill()
        hidden = [self._prompt_hidden[:, : ids.shape[1]].clone()]
        for at in range(length, ids.shape[1]):
            self.token.copy_(ids[:, at : at + 1])
            self.step()
            hidden.append(self._step_hidden.clone())
        return self.model.logits(torch.cat(hidden, dim=1))


ATTENTION_LAYERS = ("full_attention", "sliding_attention", "chunked_attention")


def static_cache(model: Any, capacity: int) -> tuple[list[Any], Cache]:
    """A cache of full length for every layer; masks keep windows, since transformers' windowed static layers count in
    Python, beyond a graph. Raises ValueError for layers that are not attention.
    """
    types, _ = get_layer_types_and_kwargs(model.config.get_text_config(decoder=True))
    foreign = sorted({kind for kind in types if kind not in ATTENTION_LAYERS})
    if foreign:
        raise ValueError(f"the compiled runner has no static cache for layers of type {', '.join(foreign)}")
    layers: list[Any] = [StaticLayer(max_cache_len=capacity) for _ in types]
    return layers, Cache(layers=layers)


class ModuleSession(ExactSession):
    """transformers' own module over its static cache, for every family that the compact decoder does not support."""

    def __init__(self, model: Any, batch: int, prompt: int, capacity: int, compiled: Compile) -> None:
        super().__init__(model.device, batch, prompt, capacity)
        self.model = model
        self._lengths: list[Tensor] = []
        layers, self._cache = static_cache(model, capacity)
        keep = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}

        def forward(ids: Tensor) -> Tensor:
            return model(input_ids=ids, past_key_values=self._cache, use_cache=True, **keep).logits[:, -1]

        forward(self.prompt)  # the cache allocates its buffers at first use, which must not be traced
        self._lengths = [layer.cumulative_length for layer in layers]
        self._rewind()
        self._forward = compiled(forward)
        self._step_logits = forward(self.token)

    def _rewind(self) -> None:
        for length in self._lengths:
            length.zero_()

    def _prefill(self) -> None:
        self._rewind()
        self._advance(self.prompt)

    def _step(self) -> None:
        self._step_logits = self._advance(self.token)

    def _advance(self, ids: Tensor) -> Tensor:
        logits = self._forward(ids)
        self.token.copy_(logits.argmax(-1, keepdim=True))
        return logits

    def teacher_forced_logits(self, ids: Tensor) -> Tensor:
        self._rewind()
        logits = []
        for at in range(ids.shape[1]):
            self.token.copy_(ids[:, at : at + 1])
            self.step()
            logits.append(self._step_logits.clone())
        return torch.stack(logits, dim=1)


class SamplingSession(ModuleSession):
    """As `ModuleSession`, but the next ids are drawn at temperature 1, with torch's random numbers."""

    def _advance(self, ids: Tensor) -> Tensor:
        logits = self._forward(ids)
        noise = torch.empty_like(logits, dtype=torch.float32).exponential_().log()  # Gumbel noise, negated
        self.token.copy_((logits - noise).argmax(-1, keepdim=True))
        return logits


class BucketSession(ModuleSession):
    """For every family that the compact decoder does not support: a prompt runs in its bucket's graph, padded on the
    right. Causality hides the padding, and later steps overwrite it.
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
        self.step = capture_graph(self._step, self.device)

    def prefill(self, prompt: Tensor) -> None:
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
            self._graphs[size] = ids, capture_graph(lambda: self._read(ids), self.device)
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
