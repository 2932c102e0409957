"""Orders in which the interpreter's SMs move, and in which words reach other GPUs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kernels.megakernel.program.exchange import COPIED, EXCHANGED
from tests.kernels.megakernel.interpreter.sm import StreamingMultiprocessor


def round_robin() -> Callable[[list[int]], int]:
    """SMs move one after the other."""
    last = -1

    def pick(able: list[int]) -> int:
        nonlocal last
        last = next((sm for sm in able if sm > last), able[0])
        return last

    return pick


def shuffled(seed: int) -> Callable[[list[int]], int]:
    """Any SM may move, the same ones for the same seed."""
    chance = np.random.default_rng(seed)
    return lambda able: able[int(chance.integers(len(able)))]


def laggard(slow: int) -> Callable[[list[int]], int]:
    """SM `slow` moves only when nobody else can."""
    return lambda able: next((sm for sm in able if sm != slow), slow)


class Links:
    """Words between GPUs that arrive late, in any order."""

    def __init__(self, seed: int) -> None:
        self._chance, self._flying = np.random.default_rng(seed), list[tuple[Any, Any, Any, Any]]()

    def store(self, sm: StreamingMultiprocessor, buffer: str, at: Any, words: Any) -> None:
        for gpu in sm.gpu.group if buffer in EXCHANGED else (sm.gpu,):
            for copy in range(sm.layout.copies if buffer in COPIED else 1):
                self._flying.append((gpu, sm._copy(buffer, copy, gpu), at, words))
                if gpu is sm.gpu:
                    self._land(-1)

    def pick(self, able: list[int]) -> int:
        while self._flying and (len(able) == 1 or self._chance.random() < 0.3):
            self._land(int(self._chance.integers(len(self._flying))))
            if len(able) == 1:  # what has landed lets others move
                break
        return able[int(self._chance.integers(len(able)))]

    def _land(self, number: int) -> None:
        gpu, memory, at, words = self._flying.pop(number)
        memory[at] = words
        gpu.stores += 1
