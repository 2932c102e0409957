"""Buffers and graphs of the kernels runner: one graph for a decode step, one for each bucket of prompt lengths."""

from collections.abc import Callable

import torch
from torch import Tensor

from kernels.engine import decoder
from kernels.engine.graphs import captured
from kernels.engine.parts import Parts
from kernels.engine.passes import Pass, State
from kernels.engine.sessions import Session

FINE_UNTIL, FINE, COARSE = 256, 64, 256
"""Buckets end at the multiples of FINE up to FINE_UNTIL, then at those of COARSE."""


TOKEN_SLACK = 0.03
"""Share of the largest logit by which rounding may let a token win that is not the best."""


def bucket(length: int) -> int:
    """The length that a prompt is filled up to on its right."""
    step = FINE if length <= FINE_UNTIL else COARSE
    return -(-length // step) * step


class KernelsSession(Session):
    """The compact decoder by a plan's variants. A prompt of any length up to the capacity runs in its bucket's graph:
    the ids to the right of it are never seen by those before them, and their keys are overwritten by later steps.
    """

    def __init__(self, model: decoder.Decoder, parts: Parts, batch: int, capacity: int) -> None:
        super().__init__(model.embedding.device, batch, capacity)
        self.model, self.parts = model, parts
        position = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._length = torch.ones(1, dtype=torch.int64, device=self.device)
        self.state = State(
            batch, capacity, *model.rope_table(capacity), model.cache(batch, capacity), position, self.token
        )
        self._step_pass = Pass(model, parts, self.state, 1)
        self._prompts: dict[int, _Prompt] = {}
        self._stream = self._step_stream = self.token
        self._served = 0

    def capture(self) -> None:
        """Captures the decode step."""
        self.step = captured(self._step, self.device)

    def capture_prompt(self, length: int) -> None:
        """Captures the bucket of that length, unless it is there."""
        size = bucket(length)
        if size not in self._prompts:
            self._length.fill_(1)
            self._prompts[size] = _Prompt(self, size)

    def fits(self, batch: int, prompt: int, tokens: int) -> bool:
        return batch == self.batch and max(bucket(prompt), prompt + tokens) <= self.capacity

    def begin(self, prompt: Tensor) -> None:
        """Runs the prompt [b, length] in its bucket's graph, which is captured now if no one has yet."""
        self._served = prompt.shape[1]
        self._begin(prompt)

    def _begin(self, prompt: Tensor) -> None:
        length = prompt.shape[1]
        self.capture_prompt(length)
        chosen = self._prompts[bucket(length)]
        chosen.ids[:, :length].copy_(prompt, non_blocking=True)
        self._length.fill_(length)
        self.again(length)
        self._stream = chosen.stream

    def again(self, length: int) -> None:
        """Runs the last prompt of a bucket once more."""
        self._prompts[bucket(length)].run()

    def forced(self, ids: Tensor) -> Tensor:
        """Reads as many as the last request's prompt had at once, the others one by one, as that request did.

        A plan of lower precision reads half of the ids as a prompt and half one by one: both may have lost some. Raises
        RuntimeError when a token that the plan's head chose on the way is not the best by these logits.
        """
        length = min(ids.shape[1], self._served or ids.shape[1])
        if self.parts.lossy:
            length = min(length, max(1, ids.shape[1] // 2))
        self._begin(ids[:, :length])
        streams = [self._stream.view(self.batch, -1, self._stream.shape[-1])[:, :length].clone()]
        chosen = [self.token.clone()]
        for at in range(length, ids.shape[1]):
            self.token.copy_(ids[:, at : at + 1])
            self.step()
            streams.append(self._step_stream[:, None].clone())
            chosen.append(self.token.clone())
        logits = self._step_pass.logits(torch.cat(streams, dim=1))
        check_chosen(logits[:, length - 1 :], torch.cat(chosen, dim=1))
        return logits

    def _step(self) -> None:
        self._step_stream = self._step_pass.run(self.token)


def check_chosen(logits: Tensor, tokens: Tensor) -> None:
    """Raises RuntimeError unless each of tokens [b, n] is the best of logits [b, n, vocab], or nearly so."""
    inside = (tokens >= 0) & (tokens < logits.shape[-1])
    own = logits.gather(-1, tokens.clamp(0, logits.shape[-1] - 1)[..., None])[..., 0]
    short = (logits.amax(-1) - own) / logits.abs().amax().clamp_min(1e-30)
    wrong = int((~inside | (short > TOKEN_SLACK)).sum())
    if wrong:
        raise RuntimeError(f"{wrong} of {tokens.numel()} tokens that the head chose are not the best by their logits")


class _Prompt:
    """The graph of one bucket."""

    def __init__(self, session: KernelsSession, size: int) -> None:
        self.ids = torch.zeros(session.batch, size, dtype=torch.int64, device=session.device)
        self.stream = self.ids
        one_pass = Pass(session.model, session.parts, session.state, size)

        def prefill() -> None:
            session.state.position.zero_()
            self.stream = one_pass.run(self.ids, session._length)

        self.run: Callable[[], object] = captured(prefill, session.device)
