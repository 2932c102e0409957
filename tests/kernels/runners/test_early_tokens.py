"""Requests for the first tokens only, beside whole ones: which stated times they contradict, however busy the host."""

import random
from types import SimpleNamespace

import pytest

from kernels.runners import served_answers
from kernels.runners.served_answers import ALTERNATIONS, CONTRADICTIONS

PASS_S, COLD_S, WHOLE_S = 0.008, 0.0025, 0.150


class Clients:
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


def refusal(clients: Clients) -> str | None:
    return served_answers._of_early_tokens(lambda _: None, clients, 1)


def test_an_honest_runner_is_believed_after_three_pairs():
    clients = Clients()
    assert refusal(clients) is None
    assert clients.asked == 1 + ALTERNATIONS - CONTRADICTIONS == 3
    assert not clients.served


def test_delays_by_other_programs_make_no_runner_dishonest():
    assert [refusal(Clients(seed, busy=True)) for seed in range(500)] == [None] * 500


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("times", [{"share": 0.0}, {"late_s": 0.5}])
def test_stated_times_that_are_untrue_are_refused_on_any_host(times: dict[str, float], busy: bool):
    sentences = [refusal(Clients(seed, busy=busy, **times)) for seed in range(100)]
    assert all(sentence and "ms until token 1 of a request; where 1 were asked" in sentence for sentence in sentences)


def test_a_small_untruth_is_refused_where_the_host_is_quiet():
    clients = Clients(share=0.7)
    assert f"each the fastest of {CONTRADICTIONS} requests in turn." in refusal(clients)
