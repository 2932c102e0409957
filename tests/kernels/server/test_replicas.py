"""Several engines behind one client: who gets a request, and what the death of one costs."""

import asyncio
import os
from contextlib import aclosing
from multiprocessing.connection import Connection

import pytest

from kernels.ops.sampling import GREEDY
from kernels.server.http.client import EngineClient
from kernels.server.http.errors import ApiError
from kernels.server.messages import AddRequest, EngineOutputs, Ping, Ready, Stop
from kernels.server.processes import replicas
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.processes.replicas import IMBALANCE_THRESHOLD, EngineReplicas
from kernels.server.spec import Spec

FIRST, OTHER = list(range(40)), list(range(100, 140))


def tells_its_number(spec: Spec, connection: Connection) -> None:
    """An engine whose only token is the number of its process. It leaves requests for more tokens than one open."""
    connection.send(Ready(1000, 1000, "cpu"))
    while not isinstance(message := connection.recv(), Stop):
        if isinstance(message, AddRequest):
            reason = "length" if message.max_tokens == 1 else None
            connection.send(EngineOutputs(tokens=[(message.name, os.getpid(), reason)]))
        elif isinstance(message, Ping):
            connection.send(EngineOutputs(report={}))


async def started() -> tuple[EngineReplicas, EngineClient]:
    own = EngineReplicas([EngineProcess(Spec("a"), tells_its_number) for _ in range(2)])
    own.listener = client = EngineClient(own.send)
    own.start()
    async with asyncio.timeout(300):
        while any(replica.engine.state.ready is None for replica in own._replicas):
            await own.changed.wait()
            own.changed.clear()
    return own, client


async def answered_by(client: EngineClient, ids: list[int]) -> int:
    """The process that answers a request."""
    async with aclosing(client.answer(ids, 1, GREEDY, frozenset())) as answer:
        (token,) = [event.token async for events in answer for event in events]
    return token or 0


async def left_open(client: EngineClient, ids: list[int]) -> "tuple[asyncio.Task[list[int]], int]":
    """A request that goes on, and the process that has it."""
    first: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def read() -> list[int]:
        tokens = []
        async for events in client.answer(ids, 2, GREEDY, frozenset()):
            tokens += [event.token or 0 for event in events]
            if not first.done():
                first.set_result(tokens[0])
        return tokens

    task = asyncio.create_task(read())
    return task, await first


def test_a_prompt_goes_where_its_beginning_was_read_unless_others_are_less_busy() -> None:
    async def whole() -> None:
        own, client = await started()
        opened, first = await left_open(client, FIRST)
        other = await answered_by(client, OTHER)
        assert other != first
        assert [await answered_by(client, [*FIRST, 7]), await answered_by(client, [*OTHER, 7])] == [first, other]
        more = [await left_open(client, FIRST) for _ in range(IMBALANCE_THRESHOLD + 1)]
        assert [process for _, process in more] == [first] * IMBALANCE_THRESHOLD + [other]
        for task in (opened, *(task for task, _ in more)):
            task.cancel()
        await asyncio.sleep(0)
        assert not any(replica.open for replica in own._replicas)
        await own.stop()

    asyncio.run(whole())


def test_a_replica_that_dies_ends_its_own_requests_alone() -> None:
    async def whole() -> None:
        own, client = await started()
        (lost, dead), (kept, alive) = await left_open(client, FIRST), await left_open(client, OTHER)
        replica = next(item for item in own._replicas if item.engine.process and item.engine.process.pid == dead)
        replica.engine.process.kill()
        with pytest.raises(ApiError, match="the engine died while it served this request"):
            await lost
        assert not kept.done()
        assert client.ready is not None
        assert await answered_by(client, FIRST) == alive
        async with asyncio.timeout(300):
            while replica.engine.state.ready is None:
                await asyncio.sleep(0.05)
        assert own.state.restarts == 1
        await own.stop()
        with pytest.raises(ApiError, match="the server is shutting down"):
            await kept

    asyncio.run(whole())


def test_each_replica_sees_its_own_of_the_gpus_that_the_server_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        nvmlDeviceGetCount = staticmethod(lambda: 4)

    sent: list[str | None] = []
    monkeypatch.setattr(replicas.nvml, "library", lambda: Library)

    def main(spec: Spec, connection: Connection) -> None:
        sent.append(os.environ.get("CUDA_VISIBLE_DEVICES"))

    class Pipe:
        send = staticmethod(lambda declined: sent.append(declined.sentence))

    for visible, place in ((None, range(2, 4)), ("5,3,1", range(1, 2)), ("5", range(1, 2))):
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        replicas.on_gpus(main, place, Spec("a"), Pipe())  # type: ignore[arg-type]
    assert sent == ["2,3", "3", "--data-parallel-size: 2 GPUs are wanted, and 1 can be seen here"]
