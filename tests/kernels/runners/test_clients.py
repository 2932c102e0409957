"""Closed-loop clients: queueing is counted, and stands still while another runner has the device."""

import random
import statistics
import time
from types import SimpleNamespace

import pytest
import torch

from kernels.measure.latency import samples_of
from kernels.runners import Generation, Runner, served_answers
from kernels.runners.clients import Clients
from kernels.runners.served_answers import ALTERNATIONS, CONTRADICTIONS
from tests.kernels.runners.engine_models import load
from workers.documents.traffic import Traffic
from workers.stats.intervals import tokens_per_second

SERVICE_S = 0.04
SERVICE_MS = 1000 * SERVICE_S


class Sleeper(Runner):
    """Takes SERVICE_S per batch, whatever is asked."""

    name = "sleeper"

    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        pass

    def generate(self, prompt: torch.Tensor, tokens: int) -> Generation:
        start = time.monotonic_ns()
        times = []
        for step in range(tokens):
            while time.monotonic_ns() < start + SERVICE_S * 1e9 * (step + 1) / tokens:
                time.sleep(0.0002)
            times.append(time.monotonic_ns())
        return Generation([[0] * tokens] * len(prompt), times, start)

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


def clients(**traffic) -> Clients:
    shape = Traffic(prompt_tokens=4, output_tokens=4, **traffic)
    model = load("llama", seed=0)
    return Clients(Sleeper(model), shape, seed=0)


def e2e_ms(found: Clients) -> list[float]:
    return [samples_of(item, "e2e")[0] for item in found.served]


def test_four_clients_wait_for_the_three_before_them():
    result = clients(concurrency=4)
    result.warm_up()
    for _ in range(6):
        result.serve()
    assert min(e2e_ms(result)) >= 4 * SERVICE_MS - 0.1
    assert min(e2e_ms(result)) < 4 * SERVICE_MS * 3
    assert {item.waited for item in result.served} == {4}


def test_a_batch_is_served_together():
    result = clients(concurrency=4, batch=4)
    for _ in range(3):
        result.serve()
    assert result.rounds == 1
    assert [item.requests for item in result.served] == [4, 4, 4]
    assert min(e2e_ms(result)) < 4 * SERVICE_MS, "one after another they would take four times as long"
    assert 0 < tokens_per_second(result.served) / (4 * 4 / SERVICE_S) <= 1


def test_the_clock_stands_still_while_another_runner_is_measured():
    result = clients(concurrency=2)
    result.warm_up()
    for _ in range(4):
        result.serve()
        time.sleep(0.5)
    assert statistics.median(e2e_ms(result)) < 500


def test_the_same_seed_asks_the_same_of_both_sides():
    assert torch.equal(clients().draw(), clients().draw())


PASS_S, COLD_S, WHOLE_S = 0.008, 0.0025, 0.150


class ScriptedClients:
    """A runner whose first token takes PASS_S, and COLD_S longer after a whole request, which cools the caches."""

    def __init__(self, seed: int = 0, *, busy: bool = False, share: float = 1.0, late_s: float = 0.0) -> None:
        self.traffic, self.unstated_s, self.served = SimpleNamespace(output_tokens=64), [1e-4], []
        self.asked, self._cold, self._busy, self._share, self._late_s = 0, True, busy, share, late_s
        self._random = random.Random(seed)

    def _pass(self) -> float:
        stopped = self._random.lognormvariate(0, 1.2) * PASS_S if self._busy else self._random.uniform(0, 1e-4)
        return PASS_S + COLD_S * self._cold + stopped

    def serve(self) -> SimpleNamespace:
        first_ns = int((self._pass() * self._share + self._late_s) * 1e9)
        self._cold = True
        self.served.append(SimpleNamespace(start_ns=0, times_ns=[first_ns], service_s=WHOLE_S))
        return self.served[-1]

    def ask(self, tokens: int) -> tuple[SimpleNamespace, float]:
        took = self._pass()
        self.asked, self._cold = self.asked + 1, False
        return SimpleNamespace(tokens=[[7] * tokens]), took


def refusal(clients: ScriptedClients) -> str | None:
    return served_answers._of_early_tokens(lambda _: None, clients, 1)


def test_an_honest_runner_is_believed_after_three_pairs():
    clients = ScriptedClients()
    assert refusal(clients) is None
    assert clients.asked == 1 + ALTERNATIONS - CONTRADICTIONS == 3
    assert not clients.served


def test_delays_by_other_programs_make_no_runner_dishonest():
    assert [refusal(ScriptedClients(seed, busy=True)) for seed in range(500)] == [None] * 500


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("times", [{"share": 0.0}, {"late_s": 0.5}])
def test_stated_times_that_are_untrue_are_refused_on_any_host(times: dict[str, float], busy: bool):
    sentences = [refusal(ScriptedClients(seed, busy=busy, **times)) for seed in range(100)]
    assert all(sentence and "ms until token 1 of a request; where 1 were asked" in sentence for sentence in sentences)


def test_a_small_untruth_is_refused_where_the_host_is_quiet():
    clients = ScriptedClients(share=0.7)
    assert f"each the fastest of {CONTRADICTIONS} requests in turn." in refusal(clients)
