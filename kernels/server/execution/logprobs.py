"""Log probabilities of the tokens that a pass chose, for the requests that ask for them.

The pass leaves its logits in memory that nothing else uses before the next pass of its shape. Where no request asks,
nothing is launched. Where some ask, their rows are read once more behind the pass, outside of its CUDA graph, so the
pass itself and the tokens it chose are the same.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.server.execution.shapes import PassShape
from kernels.server.scheduler.requests import Logprobs, Request, Step

ROWS = 16
"""Rows that are taken in float32 at once: 16 of 128,256 logits are 8 MiB."""


class Copied(NamedTuple):
    """Log probabilities on their way to the host. Of each part that asks: its number in the step and how many of the
    likeliest tokens it wants; `own` [parts, 1] of its token, `values` and `ids` [parts, most] of the likeliest ones.
    """

    parts: list[tuple[int, int]]
    own: Tensor
    values: Tensor
    ids: Tensor


class CopiedPrompt(NamedTuple):
    """Log probabilities of a prompt's tokens on their way to the host, from the place `start` on."""

    request: Request
    start: int
    copied: Copied

    def keep(self) -> None:
        """Gives them to the request."""
        for place, logprobs in logprobs_of(self.copied).items():
            self.request.prompt_logprobs[self.start + place] = logprobs


@torch.no_grad()
def read_back(step: Step, sampled: Sequence[int], logits: Tensor, chosen: Tensor) -> Copied | None:
    """Starts log probabilities of the parts whose requests ask; None: none does. `sampled` are their rows in logits and
    chosen. `logprobs_of` may read the result after an event recorded behind this call.
    """
    parts = [(number, part.request.logprobs) for number, part in enumerate(step.parts) if part.samples]
    asking = [(number, count) for number, count in parts if count is not None]
    if not asking:
        return None
    at = on(torch.tensor([sampled[number] for number, _ in asking]), logits.device)
    blocks = [(logits.index_select(0, rows), chosen.index_select(0, rows)) for rows in at.split(ROWS)]
    return _copy(asking, blocks)


@torch.no_grad()
def read_prompts(
    step: Step, shape: PassShape, hidden: Tensor, logits_of: Callable[[Tensor], Tensor]
) -> list[CopiedPrompt]:
    """Starts the log probabilities of the tokens of prompts that the step's chunks precede, for the requests that ask.
    `hidden` [rows, hidden] is what the last layer made, and `logits_of` makes logits of some of its rows.
    """
    copied, row = list[CopiedPrompt](), shape.decodes
    for part in step.prefill_chunks:
        request, first = part.request, row
        row += -(-part.tokens // shape.block) * shape.block
        tokens = request.ids[part.start + 1 : min(part.start + part.tokens + 1, request.prompt_length)]
        if request.echo and not request.answered and tokens and request.logprobs is not None:
            ids = on(torch.tensor(tokens), hidden.device)
            rows = hidden[first : first + len(tokens)]
            blocks = ((logits_of(some), of) for some, of in zip(rows.split(ROWS), ids.split(ROWS), strict=True))
            asking = [(place, request.logprobs) for place in range(len(tokens))]
            copied.append(CopiedPrompt(request, part.start + 1, _copy(asking, blocks)))
    return copied


def _copy(asking: list[tuple[int, int]], blocks: Iterable[tuple[Tensor, Tensor]]) -> Copied:
    """Log probabilities of the tokens [rows] in logits [rows, vocab] of each block, on their way to the host."""
    own, values, ids = [], [], []
    for logits, tokens in blocks:
        logprobs = logits.float().log_softmax(dim=-1)
        own.append(logprobs.gather(1, tokens.unsqueeze(1)))
        best = logprobs.topk(min(max(1, *(count for _, count in asking)), logits.shape[1]))
        values.append(best.values)
        ids.append(best.indices)
    return Copied(asking, *(torch.cat(value).to("cpu", non_blocking=True) for value in (own, values, ids)))


def on(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device. A copy from memory that is not pinned would wait for the pass."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def logprobs_of(copied: Copied | None) -> dict[int, Logprobs]:
    """The log probabilities by the number of their part in the step."""
    if copied is None:
        return {}
    own, values, ids = copied.own[:, 0].tolist(), copied.values.tolist(), copied.ids.tolist()
    return {
        number: Logprobs(own[row], list(zip(ids[row], values[row], strict=True))[:count])
        for row, (number, count) in enumerate(copied.parts)
    }
