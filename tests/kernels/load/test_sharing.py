"""A load that several processes send is the load that one would send, and none of them outlives the program."""

import asyncio
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial

import psutil
import pytest

from kernels.load import sharing
from kernels.load.connection import Address
from kernels.load.counts import ENDED, SENT, Counts, bytes_of
from kernels.load.exchange import Exchange
from kernels.load.generator import MAX_IN_FLIGHT, Generator, LoadDuration, LoadTrace, PlannedLoad
from kernels.load.lists import Lengths, RequestList
from kernels.load.planned import PlannedRequest
from kernels.load.sender_process import SenderDied
from kernels.load.sharing import DistributedLoad, merge_results, processes_for
from tests.waiting import wait_for
from tests.workers.loadtest.stub import running_stub

LENGTHS = Lengths(20, 8)


@pytest.fixture(scope="module")
def address():
    with running_stub() as result:
        yield Address.parse(result.url)


def test_users_of_two_processes_share_the_requests_and_begin_together(address):
    requests = RequestList.random(LENGTHS, 60, 1000, 7)
    seen = []
    sending = DistributedLoad(address, partial(requests.load, "stub", 5), LoadDuration(60), processes=2)
    result = asyncio.run(sending.run(lambda counts: seen.append((counts.total(SENT), counts.total(ENDED)))))
    assert sorted(exchange.planned.index for exchange in result.exchanges) == list(range(60))
    assert not any(exchange.error for exchange in result.exchanges)
    assert [exchange.intended_ns for exchange in result.exchanges] == sorted(
        exchange.intended_ns for exchange in result.exchanges
    )
    first, second = result.by_process
    assert {exchange.planned.index % 2 for exchange in first.exchanges} == {0}
    assert first.counted_from_ns == second.counted_from_ns == result.counted_from_ns
    assert [_most_at_once(value) for value in (result, first, second)] == [5, 3, 2]
    assert all(0 <= sent - ended <= 5 for sent, ended in seen)


def _most_at_once(sent: LoadTrace) -> int:
    edges = sorted(
        [(exchange.begun_ns, 1) for exchange in sent.exchanges] + [(exchange.end_ns, -1) for exchange in sent.exchanges]
    )
    sums = [sum(change for _, change in edges[: end + 1]) for end in range(len(edges))]
    return max(sums)


def test_requests_of_an_open_loop_are_meant_at_the_times_at_which_one_process_would_send_them(address):
    requests = RequestList.random(LENGTHS, 60, 1000, 7, rate=60)
    result = asyncio.run(
        DistributedLoad(address, partial(requests.load, "stub", None), LoadDuration(60), processes=2).run()
    )
    assert [exchange.planned.index for exchange in result.exchanges] == list(range(60))
    intended = [(exchange.intended_ns - result.counted_from_ns) / 1e9 for exchange in result.exchanges]
    assert intended == pytest.approx([item.at_s for item in requests.planned], abs=1e-8)
    assert result.stopped_ns >= result.exchanges[-1].intended_ns


def _deadly(last: int) -> PlannedLoad:
    """Users whose request number `last` kills the process that was to send it."""

    def body(planned: PlannedRequest) -> bytes:
        if planned.index == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return RequestList([planned], [[1]] * 1000, frozenset()).body("stub", planned)

    return PlannedLoad((PlannedRequest(index, None, 0.0, 1, 4) for index in range(1000)), body, 4)


def test_a_process_that_dies_ends_the_load_with_a_sentence(address):
    sending = DistributedLoad(address, partial(_deadly, 9), LoadDuration(600), processes=2)
    with pytest.raises(SenderDied, match=r"^A process that sent load ended by signal SIGKILL before it was done\.$"):
        asyncio.run(sending.run())
    assert not _senders(psutil.Process())


def _senders(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children() if any("sender_process" in word for word in child.cmdline())]


def _ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _refused() -> PlannedLoad:
    raise ValueError("This load cannot be made.")


def test_what_a_load_raises_in_a_process_is_raised_here(address):
    with pytest.raises(ValueError, match="cannot be made"):
        asyncio.run(DistributedLoad(address, _refused, LoadDuration(600), processes=2).run())


ENDLESS = """
import asyncio
from dataclasses import replace
from functools import partial
from kernels.load.connection import Address
from kernels.load.generator import LoadDuration
from kernels.load.lists import Lengths, RequestList
from kernels.load.sharing import DistributedLoad
requests = RequestList.random(Lengths(20, 8), 100_000, 1000, 7)
address = Address.parse({url!r}, "sk-kept-secret")
asyncio.run(DistributedLoad(address, partial(requests.load, "stub", 4), LoadDuration(600), 2).run())
"""


def test_the_processes_end_with_the_program_though_it_is_killed(address):
    with subprocess.Popen([sys.executable, "-c", ENDLESS.format(url=address.url)]) as program:
        try:
            whose = psutil.Process(program.pid)
            senders = wait_for(lambda: len(found := _senders(whose)) == 2 and found, 300, "two processes")
            assert "sk-kept-secret" not in str([(sender.cmdline(), sender.environ()) for sender in senders])
        finally:
            program.kill()
    wait_for(lambda: all(map(_ended, senders)), 300, "the end of both")


def test_requests_that_are_open_in_all_processes_together_end_an_open_loop(address):
    requests = RequestList.random(LENGTHS, 60, 1000, 7, rate=60)
    with tempfile.TemporaryFile() as shared:
        shared.truncate(bytes_of(2))
        other = Counts(2, shared.fileno(), row=1)
        for _ in range(MAX_IN_FLIGHT - 3):
            other.add(SENT)
        own = Counts(2, shared.fileno())
        load = replace(requests.load("stub-silent", None), time_out_s=0.2)
        result = asyncio.run(Generator(address, load, LoadDuration(600), own).run())
    assert (result.overrun, len(result.exchanges)) == (True, 3)


def _sent(at_s: list[float], stopped_ns: int, overrun: bool = False) -> LoadTrace:
    planned = [PlannedRequest(index, at, 0.0, 1, 1) for index, at in enumerate(at_s)]
    return LoadTrace(
        0, stopped_ns, [Exchange(item, round((item.at_s or 0) * 1e9)) for item in planned], overrun=overrun
    )


def test_processes_are_as_many_as_users_or_events_need_until_the_last_request(monkeypatch):
    assert [processes_for(users, (), 60) for users in (1, 8, 9, 256)] == [1, 1, 2, 32]
    hundred_a_second = [PlannedRequest(at, at / 100, 0.0, 10, 92) for at in range(1000)]
    assert processes_for(None, hundred_a_second, 60) == 3  # 10,000 events a second, and a few of the first request
    assert processes_for(None, hundred_a_second[:1], 60) == 1
    monkeypatch.setattr(sharing, "usable_cpus", lambda: 16)
    assert (sharing.max_processes(server_is_local=True), sharing.max_processes(server_is_local=False)) == (10, 16)
    monkeypatch.setattr(sharing, "usable_cpus", lambda: 2)
    assert sharing.max_processes(server_is_local=True) == 1
    assert merge_results([_sent([1.0], 5), _sent([2.0], 7)]).stopped_ns == 7
    assert merge_results([_sent([1.0], 5, overrun=True), _sent([2.0], 7)]).stopped_ns == 5


UNEQUAL = Lengths(128, 64, 0.8, 4)


def test_a_list_is_the_same_each_time_and_its_bodies_ask_for_the_planned_tokens():
    one, two = (RequestList.random(UNEQUAL, 400, 1000, 7, rate=50, judged=8) for _ in range(2))
    assert one == two
    assert one != RequestList.random(UNEQUAL, 400, 1000, 8, rate=50, judged=8)
    assert 100 < statistics.median(item.prompt_tokens for item in one.planned) < 160
    assert max(item.prompt_tokens for item in one.planned) <= 4 * 128
    gaps = [later.at_s - each.at_s for each, later in itertools.pairwise(one.planned)]
    assert 0.015 < statistics.mean(gaps) < 0.026
    drawn_list = RequestList.random(UNEQUAL, 20, 1000, 7, judged=3)
    bodies = [json.loads(drawn_list.body("m", item)) for item in drawn_list.planned]
    assert [len(body["prompt"]) for body in bodies] == [item.prompt_tokens for item in drawn_list.planned]
    assert all(body["ignore_eos"] and max(body["prompt"]) < 1000 for body in bodies)
    assert sum("return_token_ids" in body for body in bodies) == 3
