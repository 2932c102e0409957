"""The prompt's pass of every runner that composes variants: one CUDA graph for each bucket of prompt lengths."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from kernels.cuda.graphs import capture_graph, capture_graph_of_several
from kernels.model import decoder
from kernels.model.bound_variants import BoundVariants
from kernels.model.head import Head
from kernels.model.passes import Pass
from kernels.model.state import State

CAPACITY_STEP = 64
"""A cache's length is rounded up to a multiple of this."""
FINE_UNTIL, FINE, COARSE = 256, 64, decoder.PADDED_TO
"""Bucket lengths are the multiples of FINE up to FINE_UNTIL, then the multiples of COARSE."""


def bucket(length: int) -> int:
    """The length to which a prompt is padded on its right."""
    step = FINE if length <= FINE_UNTIL else COARSE
    return -(-length // step) * step


def room_for(prompt: int, tokens: int) -> int:
    """The tokens of a cache for a padded prompt and those generated after it."""
    return -(-max(bucket(prompt), prompt + tokens) // CAPACITY_STEP) * CAPACITY_STEP


class PromptReader:
    """Reads prompts into the state's cache with a plan's variants, of any length in its bucket's graph: causality hides
    the padding on the right, and later steps overwrite it.
    """

    def __init__(self, model: decoder.Decoder, variants: BoundVariants, state: State, *, whole: bool) -> None:
        """Unless `whole`, only the last token continues after the last attention (see `Pass`)."""
        self.model, self.variants, self.state, self._whole = model, variants, state, whole
        self._length = torch.ones(1, dtype=torch.int64, device=state.position.device)
        self._graphs: dict[int, Bucket] = {}

    def fits(self, batch: int, prompt: int, tokens: int) -> bool:
        """Whether the cache holds `batch` padded prompts and the tokens generated after them."""
        room = max(bucket(prompt), prompt + tokens) <= self.state.capacity
        return batch == self.state.batch and room and self.model.rotates_alike(prompt + tokens, self.state.capacity)

    def capture(self, length: int) -> None:
        """Captures the bucket of that length if it is not captured yet."""
        size = bucket(length)
        if size not in self._graphs:
            self._length.fill_(1)
            self._graphs[size] = self._bucket(size)

    def _bucket(self, size: int) -> "Bucket":
        return Bucket(Pass(self.model, self.variants, self.state, size, whole=self._whole), self._length)

    def read(self, prompt: Tensor) -> Tensor:
        """Runs the prompt [b, length] in its bucket's graph, captured at first use: the greedy next ids go into the
        state's token, the length into its position. Returns the bucket's stream, as `Pass.run` does.
        """
        length = prompt.shape[1]
        self.capture(length)
        chosen = self._graphs[bucket(length)]
        chosen.ids[:, :length].copy_(prompt, non_blocking=True)
        self._length.fill_(length)
        chosen.run()
        return chosen.stream

    def logits(self, prompt: Tensor) -> Tensor:
        """Logits [b, length, vocab] of the prompt [b, length], which is run as by `read`. The passes are `whole`."""
        stream, (batch, length) = self.read(prompt), prompt.shape
        head = self._graphs[bucket(length)].head
        return head.logits(stream.view(batch, -1, stream.shape[-1])[:, :length])

    def check(self) -> None:
        """Raises RuntimeError when the ranks of a sharded model did not come together, once the prompt is read."""

    def again(self, length: int) -> None:
        """Runs the last prompt of that length's bucket again."""
        self._graphs[bucket(length)].run()


class OnePass(Protocol):
    """What a bucket runs: a `Pass`, or those of all ranks of a sharded model."""

    head: Head
    state: State
    queries: int

    def run(self, ids: Tensor, length: Tensor | None = None) -> Tensor: ...


class Bucket:
    """The graph of one bucket; `devices` are all that its pass works on, where they are several."""

    def __init__(self, one_pass: OnePass, length: Tensor, devices: Sequence[torch.device] = ()) -> None:
        self._pass, state = one_pass, one_pass.state  # the graph reads the pass's buffers but does not keep them alive
        self.head = one_pass.head
        self.ids = torch.zeros(state.batch, one_pass.queries, dtype=torch.int64, device=length.device)
        self.stream = self.ids

        def prefill() -> None:
            state.position.zero_()
            self.stream = one_pass.run(self.ids, length)

        run = capture_graph_of_several(prefill, devices) if devices else capture_graph(prefill, length.device)
        self.run: Callable[[], object] = run
