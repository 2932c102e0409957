"""How the time of one side is spent: short loads on the way up, then as long as a verdict takes."""

import pytest

from kernels.load.connection import Address
from kernels.load.generator import LoadDuration, LoadTrace
from tests import sample_loads
from workers.documents.measurement import Telemetry
from workers.documents.traffic import Traffic
from workers.harness.context import Context
from workers.loadtest.highest_load import Ladder
from workers.loadtest.measuring import LoadTest
from workers.loadtest.sending import LoadTarget
from workers.loadtest.servers import curve

WANTED = 300


@pytest.fixture
def put_on(tmp_path, monkeypatch):
    """Measures a side of which `holds` users keep the promise and 10 requests a second are answered for each user."""

    def measured(seconds: float, holds: int, most: int = 16):
        asked = []
        context = Context(tmp_path, tmp_path, seconds=1)
        monkeypatch.setattr(Context, "seconds_left", property(lambda self: seconds - sum(each for _, each in asked)))

        def judged(test, sent, at):
            users, steady = test.traffic.concurrency, test.limits.seconds - test.limits.warm_up_s
            requests = int(10 * users * steady)
            few = "met" if requests >= WANTED else "not_enough_samples"
            found = sample_loads.load(users, 10, 1, few if users <= holds else "missed")
            outcomes = [
                each.model_copy(update={"requests": requests, "needed": WANTED, "verdict": found.verdict})
                for each in found.outcomes
            ]
            return found.model_copy(update={"seconds": steady, "outcomes": outcomes})

        def loading(test):
            asked.append((test.traffic.concurrency, test.limits.seconds))
            return LoadTrace(0)

        monkeypatch.setattr(curve, "judged", judged)
        target = LoadTarget(Address.parse("http://127.0.0.1:1"), "none")
        test = LoadTest(target, Traffic(), [], LoadDuration(1.0), tmp_path)
        found = curve.CurveSearch(context, "cpu", Ladder(Traffic(), most), until=0).measure("after", test, loading)
        return asked, found

    return measured


def test_time_goes_to_the_highest_load_first(put_on):
    asked, found = put_on(60, holds=4)
    assert asked[0] == (1, pytest.approx(60 / 9 / 2))
    assert [users for users, _ in asked[:5]] == [1, 2, 4, 8, 4]
    assert asked[4][1] == pytest.approx(curve.SPARE * WANTED / 40 / (1 - curve.WARM_UP), rel=0.01)
    assert found.users == 4
    by_users = {each.users: each.verdict for each in found.loads}
    assert (by_users[4], by_users[8]) == ("met", "missed")
    assert len(by_users) == len(found.loads), "a load that was put on twice stands once"


def test_a_load_on_a_busy_cpu_decides_no_miss():
    busy, calm = Telemetry(others_cpu_share=0.61), Telemetry(others_cpu_share=0.1)
    missed, met = (sample_loads.load(4, 10, 1, verdict) for verdict in ("missed", "met"))
    void = curve._beside_others(missed, busy)
    assert (void.verdict, void.notes[0]) == (
        None,
        "Other programs used 61 % of the CPU meanwhile, so this load decides nothing.",
    )
    assert curve._beside_others(met, busy).verdict == "met"
    assert curve._beside_others(missed, calm).verdict == "missed"


def test_lower_loads_have_their_verdict_where_time_is_left(put_on):
    asked, found = put_on(600, holds=4, most=8)
    assert {each.users: each.verdict for each in found.loads if each.users in (1, 2, 4, 8)} == {
        1: "met",
        2: "met",
        4: "met",
        8: "missed",
    }
    assert all([users for users, _ in asked].count(each.users) <= curve.LOOKS for each in found.loads)


def test_the_last_load_on_the_way_up_is_decided_as_well(put_on):
    _, found = put_on(200, holds=99, most=8)
    assert found.users == 8


def test_without_time_for_a_verdict_no_load_is_put_on_twice(put_on):
    asked, found = put_on(14, holds=4)
    assert found.users == 0
    assert [users for users, _ in asked] == [1, 2, 4, 8]


def test_each_of_two_looks_is_judged_by_its_share_of_the_confidence(put_on):
    _, found = put_on(60, holds=4)
    assert found.confidence_each == pytest.approx(1 - 0.01 / (2 * 9))
