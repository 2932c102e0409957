"""A token drawn from logits by torch alone, without a copy to the host: the rule of `kernels.ops.sampling`."""

import torch
from torch import Tensor

from kernels.ops.sampling import LOW, philox

CANDIDATES = 64
"""The largest logits of a row that are looked at."""


def sample(
    logits: Tensor, temperature: Tensor, top_p: Tensor, seed: Tensor, stream: Tensor, index: Tensor, top_k: int | Tensor
) -> Tensor:
    """ids [m] int64 drawn from logits [m, vocab], as `LmHeadSkinny.build` says; the settings are [m]."""
    numbers = logits.float().masked_fill(logits.isnan(), -torch.inf)
    best, order = numbers.topk(min(CANDIDATES, logits.shape[1]), dim=1)
    heat = torch.where(temperature > 0, temperature, 1.0)[:, None]
    lowest = torch.finfo(torch.float32).min  # minus infinity is never drawn
    if isinstance(top_k, Tensor):
        last = best.gather(1, top_k.clamp(1, min(CANDIDATES - 1, best.shape[1]))[:, None] - 1)
    else:
        last = best[:, min(top_k, best.shape[1]) - 1, None]
    threshold = last.clamp_min(lowest)
    candidates = best >= threshold
    more = (best.shape[1] == CANDIDATES) & candidates[:, -1]
    probs = torch.where(candidates, ((best - best[:, :1]) / heat).exp(), 0.0)
    before, nucleus = probs.cumsum(dim=1) - probs, top_p[:, None]
    inside = candidates & ((before < nucleus * probs.sum(dim=1, keepdim=True)) | (nucleus >= 1))
    inside[:, 0] = True
    candidates &= best >= torch.where(inside, best, torch.inf).amin(dim=1, keepdim=True)
    score = best * (1 / heat) + gumbel(order, seed[:, None], stream[:, None], index[:, None])
    place = torch.where(candidates, score, -torch.inf).argmax(dim=1, keepdim=True)
    drawn = torch.where(more, -1, order.gather(1, place)[:, 0])
    return torch.where((temperature > 0) & best[:, 0].isfinite(), drawn, numbers.argmax(dim=1))


def gumbel(tokens: Tensor, seed: Tensor, stream: Tensor, index: Tensor) -> Tensor:
    """The noise of int64 tokens [m, n], float32, as `kernels.ops.sampling.gumbel` has it; the others are [m, 1]."""
    counter = (tokens, index.expand_as(tokens), stream.expand_as(tokens), torch.zeros_like(tokens))
    bits = philox((seed & LOW, seed >> 32 & LOW), counter)[0].float()
    uniform = (bits * 2**-32 + 2**-33).clamp(max=1 - 2**-24)
    return -(-(-uniform).log1p()).log()
