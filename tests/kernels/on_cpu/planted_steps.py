"""Mistakes planted into the noted steps of a run, which the model checker must find."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.kernels.on_cpu.interleavings import ARRIVE, BLOCK, COMMIT, EXPECT, INIT, LOAD, SYNC, WAIT
from tests.kernels.on_cpu.noted import Note

Change = Callable[[list[Note]], list[Note]]


@dataclass(frozen=True)
class Planting:
    """Mistakes about barriers. `names` are those of a block's barriers in the order in which the kernel makes them."""

    names: tuple[str, ...]

    def barrier(self, note: Note, made: list[Note]) -> str:
        """The name of the barrier that a step is about; empty where it is about none."""
        if note[1] not in (INIT, ARRIVE, EXPECT, WAIT, LOAD, COMMIT):
            return ""
        inits = [item[2] for item in made if item[1] == INIT and item[2] < BLOCK]
        return self.names[inits.index(note[2] % BLOCK)]

    def without(self, step: int, name: str) -> Change:
        return lambda made: [item for item in made if not (item[1] == step and self.barrier(item, made) == name)]

    def with_value(self, step: int, name: str, change: Callable[[int], int]) -> Change:
        """The second value of a step, such as the parity of a wait, changed."""
        return lambda made: [
            (*item[:3], change(item[3]), *item[4:]) if item[1] == step and self.barrier(item, made) == name else item
            for item in made
        ]

    def earlier(self, step: int, name: str, than: int) -> Change:
        """A warp takes its step right before the steps of kind `than` that it should follow."""

        def changed(made: list[Note]) -> list[Note]:
            left: list[Note] = []
            for note in made:
                if note[1] != step or self.barrier(note, made) != name:
                    left.append(note)
                    continue
                at = len(left)
                for back in range(len(left) - 1, -1, -1):
                    if left[back][0] == note[0] and left[back][1] == than:
                        at = back
                    elif left[back][0] == note[0] and left[back][1] == WAIT:
                        break
                left.insert(at, note)
            return left

        return changed


def without_the_last_meeting(made: list[Note]) -> list[Note]:
    """No warp waits for the others before TMEM is given back."""
    last = {each[0]: i for i, each in enumerate(made) if each[1] == SYNC}
    return [each for i, each in enumerate(made) if i not in last.values()]
