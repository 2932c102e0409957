"""Several engines of one model behind the same web servers: data parallelism. The replica that has read the longest
beginning of a prompt gets it, unless busier than the least busy one by more than IMBALANCE_THRESHOLD. One that dies
ends its own requests.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from multiprocessing.connection import Connection
from typing import Any

from kernels.measure import nvml
from kernels.server.http.engine_state import EngineListener, EngineState
from kernels.server.http.errors import ApiError
from kernels.server.messages import (
    AbortRequest,
    AddRequest,
    Declined,
    EngineOutputs,
    EngineReport,
    RequestsFailed,
    RequestVectors,
)
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.spec import Spec

BLOCK = 16
"""The tokens of a prompt that are compared at once: those of a KV page."""
BLOCKS_KEPT = 1 << 16
"""So many blocks of the newest prompts are remembered of each replica."""
IMBALANCE_THRESHOLD = 8
"""A replica may be busier by so many requests than the least busy one and still get prompts whose beginning it read."""
VISIBLE = "CUDA_VISIBLE_DEVICES"

Main = Callable[[Spec, Connection], None]


def on_gpus(main: Main, gpus: range, spec: Spec, connection: Connection) -> None:
    """A replica's process: `main`, which sees these alone of the server's GPUs; nothing changes without GPUs."""
    library = nvml.library()
    if library is not None and spec.device != "cpu":
        named = os.environ.get(VISIBLE)
        visible = [*map(str, range(library.nvmlDeviceGetCount()))] if named is None else named.split(",")
        if gpus.stop > len(visible):
            sentence = f"--data-parallel-size: {gpus.stop} GPUs are wanted, and {len(visible)} can be seen here"
            connection.send(Declined(sentence))
            return
        os.environ[VISIBLE] = ",".join(visible[gpus.start : gpus.stop])
    main(spec, connection)


class EngineReplicas:
    """Engines that web servers see as one `EngineProcess`. All methods belong to one event loop."""

    def __init__(self, engines: Sequence[EngineProcess]) -> None:
        self._replicas = [_Replica(engine, self._heard) for engine in engines]
        self.hang_seconds = engines[0].hang_seconds
        self.state = EngineState()
        self.listener: EngineListener | None = None
        self.changed = asyncio.Event()
        """Set when a replica becomes ready, declines, or dies."""
        self._serving: list[tuple[bool, str | None]] = []
        self._replica_of: dict[str, _Replica] = {}

    def start(self) -> None:
        """Starts the processes. Raises OSError where there is no room for them."""
        for replica in self._replicas:
            replica.engine.start()

    async def stop(self) -> None:
        if self.listener is not None:
            self.listener.end_open()
        await asyncio.gather(*(replica.engine.stop() for replica in self._replicas))

    def send(self, message: Any) -> None:
        """Sends a request to one replica, and what concerns it to the same."""
        if isinstance(message, AddRequest):
            replica = self._choose(message.ids)
            if replica is None:
                self._fail([message.name], "no replica of the engine serves now")
                return
            replica.open.add(message.name)
            self._replica_of[message.name] = replica
            replica.engine.send(message)
        elif isinstance(message, AbortRequest) and (replica := self._ended(message.name)) is not None:
            replica.engine.send(message)

    def _choose(self, ids: Sequence[int]) -> "_Replica | None":
        serving = [replica for replica in self._replicas if replica.engine.state.ready is not None]
        if not serving:
            return None
        blocks = [*_blocks(ids)]
        max_open = min(len(replica.open) for replica in serving) + IMBALANCE_THRESHOLD
        able = [replica for replica in serving if len(replica.open) <= max_open]
        chosen = max(able, key=lambda replica: (replica.read(blocks), -len(replica.open)))
        chosen.remember(blocks)
        return chosen

    def _ended(self, name: str) -> "_Replica | None":
        replica = self._replica_of.pop(name, None)
        if replica is not None:
            replica.open.discard(name)
        return replica

    def _fail(self, names: list[str], sentence: str) -> None:
        for name in names:
            self._ended(name)
        if self.listener is not None:
            self.listener.received(RequestsFailed(names, sentence))

    def _heard(self, replica: "_Replica", message: Any) -> None:
        """Takes what a replica says: of its state, of requests, or of its death."""
        if isinstance(message, EngineState):
            self._tell()
        elif isinstance(message, ApiError):
            replica.forget()
            self._fail(list(replica.open), message.message)
        else:
            if isinstance(message, EngineOutputs):
                for name, _, reason in message.tokens:
                    if reason:
                        self._ended(name)
                for name in message.refusals:
                    self._ended(name)
            elif isinstance(message, RequestVectors):
                for name in message.vectors:
                    self._ended(name)
            if self.listener is not None:
                self.listener.received(message)

    def _tell(self) -> None:
        states = [replica.engine.state for replica in self._replicas]
        self.state = together(states)
        if self.listener is not None:
            self.listener.state_changed(self.state)
        serving = [(state.ready is not None, state.declined) for state in states]
        if serving != self._serving:
            self._serving = serving
            self.changed.set()


class _Replica:
    """One engine, its open requests, and the blocks of prompts it has read. It tells `heard` everything."""

    def __init__(self, engine: EngineProcess, heard: "Callable[[_Replica, Any], None]") -> None:
        self.engine, self._heard = engine, heard
        self.open: set[str] = set()
        self._blocks: OrderedDict[int, None] = OrderedDict()
        engine.listener = self

    def read(self, blocks: Sequence[int]) -> int:
        """How many of the first blocks it has read."""
        return next((number for number, block in enumerate(blocks) if block not in self._blocks), len(blocks))

    def remember(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > BLOCKS_KEPT:
            self._blocks.popitem(last=False)

    def forget(self) -> None:
        """Its prefix cache is empty again."""
        self._blocks.clear()

    def state_changed(self, state: EngineState) -> None:
        self._heard(self, state)

    def received(self, message: Any) -> None:
        self._heard(self, message)

    def engine_died(self, error: ApiError) -> None:
        self._heard(self, error)

    def end_open(self) -> None:
        """Nothing: `EngineReplicas.stop` ends all requests."""


def together(states: Sequence[EngineState]) -> EngineState:
    """The state of replicas as one engine's: it is ready as soon as one of them is."""
    ready = next((state.ready for state in states if state.ready is not None), None)
    starting = next((state for state in states if state.ready is None), states[0])
    return EngineState(
        ready=ready,
        phase=starting.phase,
        began=starting.began,
        seconds=states[0].seconds,
        declined=next((state.declined for state in states if state.declined), None),
        report=_total([state.report for state in states]),
        ended=_total([state.ended for state in states]),
        not_started=starting.not_started,
        restarts=sum(state.restarts for state in states),
        hangs=sum(state.hangs for state in states),
    )


def _total(reports: Sequence[EngineReport]) -> EngineReport:
    total = {field.name: sum(getattr(report, field.name) for report in reports) for field in fields(EngineReport)}
    return EngineReport(**total | {"megakernel_sequences": max(report.megakernel_sequences for report in reports)})


def _blocks(ids: Sequence[int]) -> Iterator[int]:
    """A hash for each whole block of a prompt, of all tokens up to its end."""
    before = 0
    for begin in range(0, len(ids) - BLOCK + 1, BLOCK):
        before = hash((before, *ids[begin : begin + BLOCK]))
        yield before
