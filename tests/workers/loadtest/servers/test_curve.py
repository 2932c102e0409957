"""How the time of one side is spent, on its loads and within one: short ones first, then what a verdict takes."""

import pytest

from kernels import runners
from kernels.load.connection import Address
from kernels.load.generator import LoadDuration, LoadTrace
from kernels.model_files import catalogue
from tests import sample_loads
from workers.documents.measurement import Telemetry
from workers.documents.traffic import Traffic
from workers.harness.context import Context
from workers.loadtest.highest_load import LoadGrid
from workers.loadtest.load_test import LoadTest
from workers.loadtest.sending import LoadTarget
from workers.loadtest.servers import curve
from workers.loadtest.servers.sides import BatchLoop

WANTED = 300


@pytest.fixture
def put_on(tmp_path, monkeypatch):
    """Measures a side of which `holds` users keep the promise and 10 requests a second are answered for each user."""

    def measured(seconds: float, holds: int, most: int = 16):
        requested = []
        context = Context(tmp_path, tmp_path, seconds=1)
        monkeypatch.setattr(
            Context, "seconds_left", property(lambda self: seconds - sum(each for _, each in requested))
        )

        def judged(test, sent, at):
            users, steady = test.traffic.concurrency, test.limits.seconds - test.limits.warm_up_s
            requests = int(10 * users * steady)
            few = "met" if requests >= WANTED else "not_enough_samples"
            result = sample_loads.load(users, 10, 1, few if users <= holds else "missed")
            outcomes = [
                outcome.model_copy(update={"requests": requests, "needed": WANTED, "verdict": result.verdict})
                for outcome in result.outcomes
            ]
            return result.model_copy(update={"seconds": steady, "outcomes": outcomes})

        def loading(test):
            requested.append((test.traffic.concurrency, test.limits.seconds))
            return LoadTrace(0)

        monkeypatch.setattr(curve, "judge_load", judged)
        target = LoadTarget(Address.parse("http://127.0.0.1:1"), "none")
        test = LoadTest(target, Traffic(), [], LoadDuration(1.0), tmp_path)
        found = curve.CurveSearch(context, "cpu", LoadGrid(Traffic(), most), until=0).measure("after", test, loading)
        return requested, found

    return measured


def test_time_goes_to_the_highest_load_first(put_on):
    requested, result = put_on(60, holds=4)
    assert requested[0] == (1, pytest.approx(60 / 9 / 2))
    assert [users for users, _ in requested[:5]] == [1, 2, 4, 8, 4]
    assert requested[4][1] == pytest.approx(curve.SPARE * WANTED / 40 / (1 - curve.WARM_UP), rel=0.01)
    assert result.users == 4
    assert result.confidence_each == pytest.approx(1 - 0.01 / (2 * 9)), "each of two looks has its share"
    by_users = {load.users: load.verdict for load in result.loads}
    assert (by_users[4], by_users[8]) == ("met", "missed")
    assert len(by_users) == len(result.loads), "a load that was put on twice stands once"


def test_a_load_on_a_busy_cpu_decides_no_miss():
    busy, calm = Telemetry(others_cpu_share=0.61), Telemetry(others_cpu_share=0.1)
    missed, met = (sample_loads.load(4, 10, 1, verdict) for verdict in ("missed", "met"))
    void = curve._beside_others(missed, busy)
    assert (void.verdict, "used 61 % of the CPU" in void.notes[0]) == (None, True)
    assert curve._beside_others(met, busy).verdict == "met"
    assert curve._beside_others(missed, calm).verdict == "missed"


def test_lower_loads_have_their_verdict_where_time_is_left(put_on):
    requested, result = put_on(600, holds=4, most=8)
    verdicts = {load.users: load.verdict for load in result.loads if load.users in (1, 2, 4, 8)}
    assert verdicts == {1: "met", 2: "met", 4: "met", 8: "missed"}
    assert all([users for users, _ in requested].count(load.users) <= curve.ATTEMPTS for load in result.loads)


def test_the_last_load_on_the_way_up_is_decided_and_without_time_none_is_put_on_twice(put_on):
    assert put_on(200, holds=99, most=8)[1].users == 8
    requested, result = put_on(14, holds=4)
    assert result.users == 0
    assert [users for users, _ in requested] == [1, 2, 4, 8]


@pytest.mark.parametrize("last_s", [1.5, 60.0])
def test_the_steady_part_of_sparse_arrivals_ends_with_the_load(tmp_path, last_s):
    """Behind the last request that is due in it nothing comes; the rate is then low, and not that of one answer."""
    (tmp_path / "calls.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n0,4,2\n0.5,4,2\n{last_s},4,2\n")
    arrivals = {"kind": "recorded"}
    traffic = Traffic(prompt_tokens=4, output_tokens=2, arrivals=arrivals, recording="calls.csv", concurrency=2)
    model = runners.load(None, catalogue.entry("tiny-llama")[0], generated=True, dtype="fp32", device="cpu")
    runner = runners.runner("eager", model)
    sent = BatchLoop(runner, traffic, LoadDuration(1.5, warm_up_s=0.3), (4, 2), tmp_path).run()
    assert [len(exchange.token_ns) for exchange in sent.exchanges] == [2, 2]
    assert sent.steady_seconds == pytest.approx(1.2)
