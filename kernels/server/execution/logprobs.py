"""Log probabilities of the tokens that a pass chose, for the requests that ask for them.

The pass leaves its logits in memory that nothing else uses before the next pass of its shape. Where no request asks,
nothing is launched. Where some ask, their rows are read once more behind the pass, outside of its CUDA graph, so the
pass itself and the tokens it chose are the same.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.server.scheduler.requests import Logprobs, Step

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


@torch.no_grad()
def read_back(step: Step, draws: Sequence[int], logits: Tensor, chosen: Tensor) -> Copied | None:
    """Starts the log probabilities of the step's parts whose requests ask; None where none does.

    `draws` are the rows of the parts in logits [draws, vocab] and in chosen [draws] int64. Does not wait for the
    device; the result may be read by `logprobs_of` after an event that is recorded behind this call.
    """
    parts = [(number, part.request.logprobs) for number, part in enumerate(step.parts) if part.samples]
    asking = [(number, wanted) for number, wanted in parts if wanted is not None]
    if not asking:
        return None
    most = min(max(1, *(wanted for _, wanted in asking)), logits.shape[1])
    at = torch.tensor([draws[number] for number, _ in asking])
    if logits.is_cuda:  # a copy from memory that is not pinned would wait for the pass
        at = at.pin_memory().to(logits.device, non_blocking=True)
    own, values, ids = [], [], []
    for rows in at.split(ROWS):
        logprobs = logits.index_select(0, rows).float().log_softmax(dim=-1)
        own.append(logprobs.gather(1, chosen.index_select(0, rows).unsqueeze(1)))
        best = logprobs.topk(most)
        values.append(best.values)
        ids.append(best.indices)
    return Copied(asking, *(torch.cat(each).to("cpu", non_blocking=True) for each in (own, values, ids)))


def logprobs_of(copied: Copied | None) -> dict[int, Logprobs]:
    """The log probabilities by the number of their part in the step."""
    if copied is None:
        return {}
    own, values, ids = copied.own[:, 0].tolist(), copied.values.tolist(), copied.ids.tolist()
    return {
        number: Logprobs(own[row], list(zip(ids[row], values[row], strict=True))[:wanted])
        for row, (number, wanted) in enumerate(copied.parts)
    }
