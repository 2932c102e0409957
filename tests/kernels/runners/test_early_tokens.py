"""How often a runner is asked for its early tokens before its times are called untrue."""

from types import SimpleNamespace

import pytest

from kernels.runners import served_answers
from kernels.runners.served_answers import ALTERNATIONS, MOST_ALTERNATIONS

STATED_S, READ_S = 0.020, 0.040


class Clients:
    """A runner that states its first token after STATED_S. Its ids can be read after READ_S, from the `honest`-th
    request on after STATED_S.
    """

    def __init__(self, honest: int) -> None:
        self.traffic, self.unstated_s = SimpleNamespace(output_tokens=64), [0.0]
        self.served, self.asked, self._honest = [self._whole()], 0, honest

    def _whole(self) -> SimpleNamespace:
        return SimpleNamespace(start_ns=0, times_ns=[int(STATED_S * 1e9)], service_s=1.0)

    def serve(self) -> SimpleNamespace:
        self.served.append(self._whole())
        return self.served[-1]

    def ask(self, tokens: int) -> tuple[SimpleNamespace, float, float]:
        self.asked += 1
        took = STATED_S if self.asked >= self._honest else READ_S
        return SimpleNamespace(tokens=[[7] * tokens]), took, 0.0


@pytest.mark.parametrize("honest", [2, ALTERNATIONS + 10])
def test_a_runner_is_believed_once_a_request_was_as_fast_as_it_states(honest: int) -> None:
    clients = Clients(honest)
    assert served_answers._of_early_tokens(lambda _: None, clients, 1) is None
    assert clients.asked == max(3, honest)


def test_one_that_never_was_is_refused_after_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(1000)
    said = served_answers._of_early_tokens(lambda _: None, clients, 1)
    assert said == (
        "It states 20 ms until token 1 of a request; where 1 were asked for, its ids could be read after 40 ms, each "
        f"the fastest of {MOST_ALTERNATIONS} requests in turn."
    )
    monkeypatch.setattr(served_answers, "ALTERNATING_SECONDS", 0.0)
    clients = Clients(1000)
    assert f"of {ALTERNATIONS} requests" in served_answers._of_early_tokens(lambda _: None, clients, 1)
