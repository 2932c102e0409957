"""Times that lie below their measured floors: taken again, and never chosen where they stay there."""

import pytest

from kernels.cli.bench import bench_rows
from kernels.tune import choosing
from kernels.tune.autotune import try_case
from tests.kernels.tune.scripted import CASE, Fast, Slow, by_name, scripted


def floors(ms):
    """Ceilings by which CASE takes so many ms at least."""
    return {"read_tbps": CASE.least_bytes / ms / 1e9, "copy_tbps": 1.0, "matrix_tflops": {"fp32": 1e9}}


def doubted(ms, first, again):
    """A bench whose ceilings give CASE the floor `first` in ms and, measured again, the floor `again`."""
    place = scripted("cpu", ms)
    place.ceilings, place.measured = floors(first), []
    place.remeasure_ceilings = lambda device: place.measured.append(device) or floors(again)
    return place


def test_what_stays_below_its_measured_floor_is_impossible_and_never_chosen(plant):
    """Ten times the ceilings bound what is possible on a CPU; between them and 1.05 of the floor something is wrong."""
    plant(Slow, Fast)
    place = doubted({"planted_fast": 1.0, "planted_slow": 3.0}, 2.0, 2.0)
    result = by_name(try_case(place, CASE))
    assert place.measured == ["cpu"]
    assert result["planted_slow"].floor_share == pytest.approx(2 / 3)
    assert result["planted_slow"].chosen
    assert "lie below" not in result["planted_slow"].reason
    fast = result["planted_fast"]
    assert (fast.floor_share, fast.gate, fast.chosen) == (None, "impossible", False)
    assert fast.reason == (
        "Its 1 ms lie below the floor of 2 ms by the measured ceilings: one of the two is wrong. "
        "Both were measured twice."
    )


def test_params_that_lost_below_the_floor_are_impossible_as_well(plant):
    class Tunable(Fast):
        def space(self, case):
            return [{}, {"again": 1}, {"again": 2}]

    plant(Slow, Tunable)
    trials = try_case(doubted({"planted_fast": 1.0, "planted_slow": 3.0}, 2.0, 2.0), CASE)
    assert [trial.gate for trial in trials] == ["pass", "impossible", "impossible", "impossible"]
    assert [trial.chosen for trial in trials] == [True, False, False, False]


def test_what_lies_between_the_ceilings_and_their_error_stays(plant):
    plant(Slow, Fast)
    place = doubted({"planted_fast": 1.0, "planted_slow": 3.0}, 2.0, 1.02)
    candidates = by_name(try_case(place, CASE))
    assert (candidates["planted_fast"].chosen, candidates["planted_fast"].floor_share) == (True, None)
    assert candidates["planted_fast"].floor_ms == pytest.approx(1.02)
    assert candidates["planted_fast"].reason == "3.00x faster than planted_slow, what torch runs by itself."
    plant(Slow, Fast)
    place = doubted({"planted_fast": 1.0, "planted_slow": 3.0}, 1.04, 1.04)
    candidates = by_name(try_case(place, CASE))
    assert (candidates["planted_fast"].chosen, place.measured) == (True, [])
    assert candidates["planted_fast"].floor_share == pytest.approx(1.04)


def test_a_time_that_was_too_short_once_is_taken_again(plant):
    plant(Slow, Fast)
    place = doubted({"planted_fast": 1.0, "planted_slow": 3.0}, 2.0, 2.0)
    place.timer.ms = lambda call: 2.5 if place.measured else {"planted_fast": 1.0}.get(call.func.__self__.name, 3.0)
    result = by_name(try_case(place, CASE))
    assert (result["planted_fast"].chosen, result["planted_fast"].ms) == (True, 2.5)
    assert result["planted_fast"].floor_share == pytest.approx(0.8)
    assert (result["planted_slow"].ms, place.measured) == (3.0, ["cpu"])


def test_what_torch_runs_by_itself_needs_no_floor_to_stay(plant, monkeypatch):
    """Nothing is claimed of it, and no share or ratio is made of its time."""
    plant(Slow, Fast)
    monkeypatch.setattr(choosing, "TORCH_VARIANTS", ("planted_slow",))
    trials = try_case(doubted({"planted_fast": 1.0, "planted_slow": 1.5}, 2.0, 2.0), CASE)
    result = by_name(trials)
    assert (result["planted_slow"].chosen, result["planted_slow"].floor_share) == (True, None)
    assert result["planted_slow"].reason == (
        "The only variant that passed for this case. "
        "Its 1.5 ms lie below the floor of 2 ms by the measured ceilings: one of the two is wrong."
    )
    assert result["planted_fast"].gate == "impossible"
    for trial in trials:
        trial.peer = trial.variant == "planted_slow"
    assert [row.ratio_to_best_peer for row in bench_rows(trials)] == [None, None]
