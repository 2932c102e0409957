"""Closed-loop clients: queueing is counted, and stands still while another runner has the device."""

import statistics
import time

import torch

from kernels.measure.latency import samples_of
from kernels.runners import Generation, Runner
from kernels.runners.clients import Clients
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
    return [samples_of(each, "e2e")[0] for each in found.served]


def test_four_clients_wait_for_the_three_before_them():
    found = clients(concurrency=4)
    found.warm_up()
    for _ in range(6):
        found.serve()
    assert min(e2e_ms(found)) >= 4 * SERVICE_MS - 0.1
    assert min(e2e_ms(found)) < 4 * SERVICE_MS * 3
    assert {each.waited for each in found.served} == {4}


def test_a_batch_is_served_together():
    found = clients(concurrency=4, batch=4)
    for _ in range(3):
        found.serve()
    assert found.rounds == 1
    assert [each.requests for each in found.served] == [4, 4, 4]
    assert min(e2e_ms(found)) < 4 * SERVICE_MS, "one after another they would take four times as long"
    assert 0 < tokens_per_second(found.served) / (4 * 4 / SERVICE_S) <= 1


def test_the_clock_stands_still_while_another_runner_is_measured():
    found = clients(concurrency=2)
    found.warm_up()
    for _ in range(4):
        found.serve()
        time.sleep(0.5)
    assert statistics.median(e2e_ms(found)) < 500


def test_the_same_seed_asks_the_same_of_both_sides():
    assert torch.equal(clients().draw(), clients().draw())
