"""The search for the highest load asks each load once, ends at the right one, and errs at most once in a hundred."""

from math import inf

import pytest

from benchmarks.simulations import limit_errors
from kernels.load.connection import Address
from kernels.load.generator import LoadDuration
from tests import sample_loads
from workers.documents.traffic import Traffic
from workers.documents.workload import Objective
from workers.loadtest.highest_load import LimitSearch, LoadGrid, saturation, search_highest_load
from workers.loadtest.load_test import LoadTest
from workers.loadtest.sending import LoadTarget
from workers.stats.verdicts import overall
from workers.wording.load_search import curve_of, load_words
from workers.wording.text import plain


@pytest.mark.parametrize("most", [1, 2, 7, 64, 100, 1024])
def test_it_finds_the_last_load_that_holds_within_its_loads(most):
    search = LimitSearch(most)
    for holds in {0, 1, 2, 3, most // 2, most - 1, most}:
        asked = []
        result = search.run(lambda users, holds=holds, asked=asked: asked.append(users) or VERDICTS[users <= holds])
        assert result == min(holds, most)
        assert len(asked) == len(set(asked)) <= search.loads
        assert all(1 <= users <= most for users in asked)


VERDICTS = {True: "met", False: "missed"}


@pytest.mark.parametrize(("most", "percentile", "requests"), [(4, 50, 100), (64, 95, 1000), (1024, 99, 1000)])
def test_the_whole_search_errs_at_most_once_in_a_hundred(most, percentile, requests):
    """Just above the highest load that holds the promise is just broken: there errors are most frequent."""
    assert limit_errors.worst(most, percentile, requests, searches=500) <= 0.01


def test_a_first_load_that_does_not_hold_or_has_too_few_requests_ends_no_search():
    asked = []
    search = LimitSearch(64, least=3)
    assert search.run(lambda users: asked.append(users) or "missed") == 0
    assert asked == [1, 2, 4]
    asked.clear()
    verdicts = {True: "not_enough_samples"}
    assert search.run(lambda n: asked.append(n) or verdicts.get(n < 16, VERDICTS[n <= 40])) == 40
    assert asked[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert len(asked) <= search.loads


@pytest.mark.parametrize("most", [2, 64, 100, 1024])
def test_behind_the_search_the_load_rises_while_throughput_does(most):
    search = LimitSearch(most, least=3)
    for holds in (0, 3, most // 2, most):
        asked = []
        result = search.run(lambda users, h=holds, a=asked: a.append(users) or VERDICTS[users <= h], lambda: True)
        assert result == min(holds, most)
        assert most in asked
        assert len(asked) == len(set(asked)) <= search.loads


def test_the_rise_ends_at_saturation_and_for_want_of_time_without_a_reason():
    def loads_up_to(most, seconds, best):
        """The loads that are measured where `best` users saturate the server and each load takes a second."""
        done = []

        def measured(index):
            done.append(index)
            return sample_loads.load(index, 10, 10 * max(1.0, index / best), "missed")

        def unfinished():
            return "The minutes were up." if len(done) >= seconds else ""

        grid = LoadGrid(Traffic(), most)
        return done, search_highest_load(grid, grid.search(3), measured, stop_reason=unfinished, saturate=True)

    done, result = loads_up_to(64, seconds=99, best=8)
    assert done == [1, 2, 4, 8, 16]
    assert (result.users, result.saturation.users, result.unfinished) == (0, 8, "")
    done, result = loads_up_to(64, seconds=4, best=64)
    assert (done, result.saturation, result.unfinished) == ([1, 2, 4, 8], None, "")


@pytest.mark.parametrize(
    ("least", "promises", "users"), [(1, 2, 11), (5, 2, 11), (11, 2, 11), (12, 2, 0), (5, 1, 64), (65, 1, 0)]
)
def test_a_promise_of_throughput_ends_no_climb(least, promises, users):
    """Throughput is enough from `least` users on; with two promises, latency is short enough up to 11."""
    rate = Objective(metric="throughput", limit=100)
    latency = Objective(metric="e2e", limit=100)

    def measured(index):
        kept = {"throughput": VERDICTS[index >= least], "e2e": VERDICTS[index <= 11]}
        each = sample_loads.load(index, 10, 1, "met")
        text = [(one, kept[one.metric]) for one in (rate, latency)[:promises]]
        outcomes = [each.outcomes[0].model_copy(update={"objective": one, "verdict": word}) for one, word in text]
        return each.model_copy(update={"outcomes": outcomes, "verdict": overall([word for _, word in text])})

    grid = LoadGrid(Traffic(), 64)
    result = search_highest_load(grid, grid.search(3), measured)
    assert result.users == users
    assert result.missed == (users == 0)
    message = curve_of(sample_loads.under_load().before.server, result).sentence
    assert message.startswith("No load is shown to hold every objective. ") == (users == 0)


@pytest.mark.parametrize("most", [1, 2, 64, 100])
def test_a_load_that_may_be_put_on_twice_has_its_verdict_the_second_time(most):
    for holds in {0, 1, 2, 3, most // 2, most}:
        search, asked = LimitSearch(most, 3, attempts=2), []

        def verdict_at(users, holds=holds, asked=asked):
            asked.append(users)
            return VERDICTS[users <= holds] if users > holds or asked.count(users) == 2 else "not_enough_samples"

        result = search.run(verdict_at)
        assert max(map(asked.count, asked)) <= 2
        assert result <= holds
        assert result >= min(holds, most) // 2


def test_without_time_the_search_ends_with_what_was_met():
    assert LimitSearch(64).run(lambda users: "met" if users in (1, 2, 4) else None) == 4
    assert LimitSearch(64).run(lambda users: {1: "met", 2: "met", 4: "met", 8: "missed"}.get(users)) == 4


@pytest.mark.parametrize(
    ("rates", "users"),
    [
        ([(1, 100), (2, 200), (4, 400)], None),
        ([(1, 100), (2, 195), (4, 260), (8, 270)], 4),
        ([(1, 100), (2, 90)], 1),
        ([(1, 1516), (32, 23686), (40, 24620), (64, 35420)], None),
        ([(1, 1516), (32, 23686), (40, 24620), (64, 26000)], 32),
        ([(2, 200), (4, 380), (8, 400)], 4),
        ([(1, 0), (2, 0)], None),
        ([(1, 100)], None),
    ],
)
def test_saturation_is_where_the_slope_of_throughput_ends(rates, users):
    result = saturation(rates)
    assert (result.users if result else None) == users


@pytest.mark.parametrize(
    ("name", "arrivals", "holds", "highest"),
    [
        *(("rate", {"kind": "poisson", "rate": 32.0}, *value) for value in ((40.0, 32.0), (11.3, 11.0), (0.1, 0.0))),
        *(("speed", {"kind": "recorded", "speed": 8}, *value) for value in ((9.0, 8.0), (2.3, 2.25), (0.1, 0.0))),
    ],
)
def test_the_highest_rate_of_an_open_loop_and_speed_of_a_recording_are_searched(name, arrivals, holds, highest):
    traffic = {"arrivals": arrivals} | ({"recording": "calls.csv"} if name == "speed" else {})
    target = LoadTarget(Address.parse("http://127.0.0.1:1"), "stub")
    test = LoadTest(target, Traffic.model_validate(traffic), [], LoadDuration(10, warm_up_s=2))
    grid = LoadGrid(test.traffic, most_users=8, recorded_s=40 if name == "speed" else inf)

    def measured(index):
        put_on = grid.test(test, index, 0.999)
        level = getattr(put_on.traffic, name)
        if name == "speed":
            assert put_on.limits.seconds == pytest.approx(min(10, 40 / level)), "no longer than the recording lasts"
            assert put_on.limits.warm_up_s == pytest.approx(put_on.limits.seconds / 5)
        else:
            assert put_on.traffic.concurrency == 8, "requests that are served at once at most"
        met = sample_loads.load(2, 10, 1, "met" if level <= holds else "missed")
        return met.model_copy(update={"traffic": put_on.traffic, "in_flight": level / 2})

    search = grid.search(least=3)
    result = search_highest_load(grid, search, measured)
    most = {"rate": result.most_rate, "speed": result.most_speed}
    assert {item: getattr(result, item) for item in most} == {"rate": None, "speed": None} | {name: highest}
    assert (most[name], result.level, result.users) == (arrivals[name], highest, round(highest / 2))
    assert result.held == next((load for load in result.loads if getattr(load, name) == highest), None)
    assert len(result.loads) <= search.loads
    assert search.loads == 13 or name == "speed"
    levels = [getattr(load, name) for load in result.loads]
    assert levels == sorted(levels)
    words = {"rate": "requests per second", "speed": "times the recorded speed"}[name]
    assert load_words(result) == f"at {plain(highest)} {words}"


@pytest.mark.parametrize(("percentile", "requests"), [(50, 200), (95, 1000)])
def test_a_search_among_rates_errs_at_most_once_in_a_hundred(percentile, requests):
    assert limit_errors.error_of_rates(20, 0.95, percentile, requests, searches=100) <= 0.01
