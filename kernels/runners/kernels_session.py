"""Buffers and graphs of the kernels runner: one graph for a decode step, one for each bucket of prompt lengths."""

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.cuda.graphs import captured
from kernels.model import decoder
from kernels.model.bound_variants import BoundVariants
from kernels.model.head import bound_head
from kernels.model.passes import Pass
from kernels.model.prompts import OnePass, PromptReader
from kernels.model.state import State
from kernels.runners.readers import SeenReader, TokenReader
from kernels.runners.sessions import Session

TOKEN_SLACK = 0.03
"""Share of the largest logit by which a chosen token may miss it through rounding."""


class KernelsSession(Session):
    """The compact decoder with a plan's variants, for prompts of any length up to the capacity."""

    def __init__(self, model: decoder.Decoder, variants: BoundVariants, batch: int, capacity: int) -> None:
        super().__init__(model.embedding.device, batch, capacity)
        self.model, self.variants = model, variants
        position = torch.zeros(1, dtype=torch.int64, device=self.device)
        stream = seen = None
        if bound_head(model, variants, batch).variant.advances_token:
            stream = model.embedding.new_zeros(batch, model.embedding.shape[1])
            pinned = self.device.type == "cuda"
            seen = torch.zeros(capacity + 1, batch, dtype=torch.int64, pin_memory=pinned)
        cos, sin = model.rope_table(capacity)
        cache = model.cache(batch, capacity)
        self.state = State(batch, capacity, cos, sin, cache, position, self.token, stream, seen)
        self.prompts = PromptReader(model, variants, self.state, whole=True)
        self._step_pass: OnePass = Pass(model, variants, self.state, 1)
        self._step_stream = self.token
        self._served = 0

    def capture(self) -> None:
        """Captures the decode step."""
        self.step = captured(self._step, self.device)

    def fits(self, batch: int, prompt: int, tokens: int) -> bool:
        return self.prompts.fits(batch, prompt, tokens)

    def rotates_alike(self, length: int) -> bool:
        return self.model.rotates_alike(length, self.capacity)

    def begin(self, prompt: Tensor) -> None:
        """Runs the prompt [b, length] in its bucket's graph. Captures the graph at first use."""
        self._served = prompt.shape[1]
        self.prompts.read(prompt)

    def reader(self, length: int, tokens: int) -> TokenReader:
        """See `Session.reader`. Captures that length's bucket first, whose warm-up writes ids into `seen`."""
        self.prompts.capture(length)
        seen = self.state.seen
        return super().reader(length, tokens) if seen is None else SeenReader(seen, length, tokens)

    def forced(self, ids: Tensor) -> Tensor:
        """Logits by the request's own path: as many ids as the last prompt had in one pass, the others one by one.

        A plan of lower precision reads half of the ids as a prompt and half one by one, since either path may lose
        accuracy. Raises RuntimeError when a token that the plan's head chose is not the best by these logits.
        """
        length = min(ids.shape[1], self._served or ids.shape[1])
        if self.variants.lossy:
            length = min(length, max(1, ids.shape[1] // 2))
        stream = self.prompts.read(ids[:, :length])
        streams = [stream.view(self.batch, -1, stream.shape[-1])[:, :length].clone()]
        chosen = [self.token.clone()]
        for at in range(length, ids.shape[1]):
            self.token.copy_(ids[:, at : at + 1])
            if self.state.stream is not None:
                self.state.stream.copy_(F.embedding(ids[:, at], self.model.embedding))
            self.step()
            streams.append(self._step_stream[:, None].clone())
            chosen.append(self.token.clone())
        logits = self._step_pass.head.logits(torch.cat(streams, dim=1))
        check_chosen(logits[:, length - 1 :], torch.cat(chosen, dim=1))
        return logits

    def _step(self) -> None:
        self._step_stream = self._step_pass.run(self.token)


def check_chosen(logits: Tensor, tokens: Tensor) -> None:
    """Raises RuntimeError unless each of tokens [b, n] has the largest of logits [b, n, vocab], within TOKEN_SLACK."""
    inside = (tokens >= 0) & (tokens < logits.shape[-1])
    own = logits.gather(-1, tokens.clamp(0, logits.shape[-1] - 1)[..., None])[..., 0]
    short = (logits.amax(-1) - own) / logits.abs().amax().clamp_min(1e-30)
    wrong = int((~inside | (short > TOKEN_SLACK)).sum())
    if wrong:
        raise RuntimeError(f"{wrong} of {tokens.numel()} tokens that the head chose are not the best by their logits")
