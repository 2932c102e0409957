"""Requests of several settings whose tokens are drawn as a step of the engine draws them, over the same logits."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from kernels.ops.sampling import Sampling
from kernels.server.execution.inputs import Fields, Sequences, size, views
from kernels.server.execution.shapes import Shape
from kernels.server.scheduler.requests import Request, ScheduledTokens, Step

PAGE, PAGES = 16, 1
GOLDEN = 0x9E3779B97F4A7C15
"""Its multiples are seeds that use all 64 bits."""
Draw = Callable[[Fields], Tensor]
"""Fields of a pass ↦ ids [rows]."""


def seeded(settings: Sequence[Sampling], each: int) -> list[Sampling]:
    """`each` samplings for each of the settings in turn; no two have the same seed and stream."""
    found = []
    for number in range(len(settings) * each):
        how = settings[number // each]
        found.append(replace(how, seed=(number // 3 + 1) * GOLDEN % (1 << 64), stream=number % 3))
    return found


class Rows:
    """A request for each sampling. `fields` fills a pass of decodes for all of them."""

    def __init__(self, hows: Sequence[Sampling], device: str = "cpu") -> None:
        self.shape = Shape(len(hows), 0, PAGE, 0)
        self._sequences = Sequences(len(hows), PAGES, PAGE)
        self._host = torch.zeros(size(self.shape, PAGES), dtype=torch.uint8)
        self._memory = self._host.to(device)
        self._requests = [Request(str(slot), [1], 1, how) for slot, how in enumerate(hows)]
        for slot, request in enumerate(self._requests):
            request.slot, request.admitted, request.pages = slot, 1, [0]

    def fields(self, place: int) -> Fields:
        """The fields in which every request's next token is the one at `place` of its sequence."""
        arrays = {name: each.numpy() for name, each in views(self._host, self.shape, PAGES)._asdict().items()}
        step = Step([ScheduledTokens(request, 0, 1, True, place) for request in self._requests])
        self._sequences.fill(step, self.shape, arrays)
        self._memory.copy_(self._host)
        return views(self._memory, self.shape, PAGES)

    def drawn(self, draw: Draw, places: int, same_place: bool = False) -> np.ndarray:
        """The ids [places, rows] of the tokens at places 1, 2, … of all sequences."""
        return np.stack([draw(self.fields(1 if same_place else at + 1)).cpu().numpy() for at in range(places)])
