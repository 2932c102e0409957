"""How long before and after alternate, and when after goes on alone: with a clock that only the requests move on."""

import time

import torch

from kernels.measure.latency import ServedBatch
from kernels.runners import Generation
from kernels.runners.eager import EagerRunner
from tests.kernels.runners.engine_models import load
from tests.workers.conftest import stage_input
from workers.documents.speedup import MIN_PROCESSES
from workers.documents.workload import Workload
from workers.measuring import alternation
from workers.measuring.alternation import (
    ENOUGH_PAIRS,
    MIN_PAIRS,
    MIN_PAIRS_OF_SEVERAL,
    MIN_SLOW_PAIRS,
    PAIRS_FAR_SLOWER,
    alternate,
    warm_clients,
)
from workers.planning import processes
from workers.stats.sample_sizes import MIN_REQUESTS
from workers.stats.verdicts import needed_requests

NEEDED = needed_requests(95)


class Clock:
    """Stands in for the module `time` and for the stage's context."""

    def __init__(self, seconds: float) -> None:
        self.now, self.end = 0.0, seconds
        self.message = ""

    def monotonic(self) -> float:
        return self.now

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.end - self.now)

    @property
    def overtime(self) -> float:
        return max(0.0, self.now - self.end)

    def report_progress(self, progress: float, message: str) -> None:
        self.message = message


class Clients:
    """Requests of equal length, one after the other."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds, self.served = clock, seconds, []
        self.at: list[float] = []

    def serve(self) -> None:
        self.at.append(self.clock.now)
        self.clock.now += self.seconds
        self.served.append(ServedBatch(0, 0, (int(1e9 * self.seconds),), 1, 1))


def alternated(monkeypatch, seconds, before, after=0.04, reserve=10.0, limit=100, start_seconds=None):
    clock = Clock(seconds)
    objectives = [{"metric": "ttft", "percentile": 95, "limit": limit}]
    workload = Workload.model_validate({"model": "m", "objectives": objectives})
    monkeypatch.setattr(alternation, "time", clock)
    sides = Clients(clock, before), Clients(clock, after)
    alternate(*sides, workload, (None, None), clock, reserve, start_seconds)
    return *sides, clock


def test_with_time_before_gets_its_usual_pairs_or_what_decides_it_and_after_goes_on_until_it_is_decided(monkeypatch):
    before, after, clock = alternated(monkeypatch, seconds=1000, before=0.15)
    assert (len(before.served), len(after.served)) == (ENOUGH_PAIRS, NEEDED)
    assert clock.message == f"pairs of requests measured: {ENOUGH_PAIRS}"
    before, after, _ = alternated(monkeypatch, seconds=1000, before=0.09)
    assert len(before.served) == len(after.served) == NEEDED, "before was not decided either"


def test_a_slow_before_leaves_the_time_to_after_once_it_is_decided_or_far_slower(monkeypatch):
    before, after, _ = alternated(monkeypatch, seconds=1000, before=0.7)
    assert MIN_PAIRS <= len(before.served) < MIN_REQUESTS
    assert len(after.served) == NEEDED
    pairs = len(before.served)
    assert max(before.at) < after.at[pairs], "nothing of before lies within what after serves alone"
    before, after, _ = alternated(monkeypatch, seconds=1000, before=0.9, limit=1000)
    assert len(before.served) == PAIRS_FAR_SLOWER
    assert len(after.served) == NEEDED


def test_a_far_slower_before_has_few_pairs_where_further_processes_go_on_with_it(monkeypatch):
    before, after, _ = alternated(monkeypatch, seconds=1000, before=2.3, after=0.02, start_seconds=5.0)
    assert len(before.served) == MIN_PAIRS_OF_SEVERAL
    assert len(after.served) == NEEDED
    enough = (processes.ENOUGH_PROCESSES, processes.MIN_PAIRS)
    for count, pairs in (enough, (MIN_PROCESSES, MIN_PAIRS_OF_SEVERAL)):
        assert MIN_PAIRS_OF_SEVERAL + (count - 1) * pairs >= MIN_PAIRS
    for start_seconds, seconds in ((None, 1000), (30.0, 70)):
        before, _, _ = alternated(monkeypatch, seconds, 2.3, after=0.04, start_seconds=start_seconds)
        assert len(before.served) == PAIRS_FAR_SLOWER, "no further process fits"
    before, _, _ = alternated(monkeypatch, 1000, 0.1, after=0.04, start_seconds=5.0)
    assert len(before.served) >= MIN_PAIRS, "it is not far slower"


def test_after_has_its_least_requests_where_before_has_few_pairs_and_time_is_up(monkeypatch):
    _, after, clock = alternated(monkeypatch, seconds=60, before=2.3, after=0.4, reserve=20, start_seconds=5.0)
    assert len(after.served) >= MIN_PAIRS
    assert clock.now < 60


def test_without_time_it_serves_the_least_pairs_or_what_there_is_where_they_take_far_too_long(monkeypatch):
    before, after, _ = alternated(monkeypatch, seconds=0, before=0.7)
    assert len(before.served) >= MIN_PAIRS
    assert len(before.served) == len(after.served) < MIN_REQUESTS
    before, after, _ = alternated(monkeypatch, seconds=0, before=0.01, after=0.01)
    assert len(before.served) == len(after.served) == NEEDED, "quick ones are decided all the same"
    before, after, _ = alternated(monkeypatch, seconds=3, before=40.0, after=30.0)
    assert MIN_SLOW_PAIRS <= len(before.served) == len(after.served) < MIN_PAIRS


def test_eager_that_has_served_in_this_process_is_not_warmed_up_again_by_a_whole_request(monkeypatch):
    requests = []
    monkeypatch.setattr(EagerRunner, "generate", lambda *args: requests.append(args) or generation())
    model, traffic = load("llama", seed=0), {"prompt_tokens": 8, "output_tokens": 8}
    shared = {"model": model}

    def warmed(of, **kwargs):
        requests.clear()
        clients = warm_clients(stage_input("verify", traffic=traffic | kwargs), EagerRunner(of), 3, shared)
        return len(requests), clients.draw()

    first, again = warmed(model), warmed(model)
    assert (first[0], again[0]) == (1, 0)
    assert torch.equal(first[1], again[1]), "both sides of a pair go on with the same prompts"
    assert warmed(load("llama", seed=1))[0] == 1, "a plan's own model"
    assert warmed(model, concurrency=3)[0] == 3, "a queue has its steady length"


def generation():
    now = time.monotonic_ns()
    return Generation([[1] * 8], [now] * 8, now)
