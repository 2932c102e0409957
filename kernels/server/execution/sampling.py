"""The next token of each row, drawn from its logits by the rule of `kernels.ops.sampling`."""

import torch
from torch import Tensor

from kernels.ops.sampling import TEMPERATURES, Sampling, choose
from kernels.server.execution.inputs import Fields


def draw_tokens(logits: Tensor, fields: Fields, out: Tensor, last: Tensor) -> None:
    """Writes the ids of logits [draws, vocab] into out [draws] int64, and into last[fields.target]: greedy where the
    temperature is 0.

    On a GPU two kernels draw all rows, and the host does not wait. On a CPU numpy draws them one by one.
    """
    if logits.device.type != "cpu":
        from kernels.server.execution.sampling_triton import draw_rows

        draw_rows(logits, fields, out, last)
        return
    out.copy_(_drawn(logits, fields))
    last.index_copy_(0, fields.target, out)


def _drawn(logits: Tensor, fields: Fields) -> Tensor:
    if not bool(fields.temperature.any()):
        return logits.argmax(dim=-1)
    settings = (fields.temperature, fields.top_k, fields.top_p, fields.seed, fields.stream)
    rows = zip(logits.float().numpy(), *(each.tolist() for each in (*settings, fields.place)), strict=True)
    drawn = [choose(row, _sampling(*how), place) for row, *how, place in rows]
    return torch.tensor(drawn, dtype=torch.int64)


def _sampling(temperature: float, top_k: int, top_p: float, seed: int, stream: int) -> Sampling:
    """The row's settings; the top-p of a greedy row, and of padding, does not matter. The least temperature is below
    itself in float32.
    """
    if not temperature:
        return Sampling(0.0, top_k, 1.0, seed % (1 << 64), stream)
    return Sampling(max(temperature, TEMPERATURES[0]), top_k, top_p, seed % (1 << 64), stream)
