"""What runs today and a plan, measured alternately in one process."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.engine import Runner
from kernels.engine.clients import Clients
from kernels.measure.latency import Served
from workers.documents.stages import StageInput


@dataclass(frozen=True)
class Alternation:
    """What one process served: today's and the plan's requests alternated for the first `pairs` of each."""

    before: Sequence[Served]
    after: Sequence[Served]

    @property
    def pairs(self) -> int:
        return min(len(self.before), len(self.after))


def warm_clients(document: StageInput, runner: Runner, seed: int) -> Clients:
    """The workload's clients on a prepared runner, each served once."""
    clients = Clients(runner, document.workload.traffic, seed)
    clients.warm_up()
    return clients
