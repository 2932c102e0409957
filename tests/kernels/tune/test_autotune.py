"""A case's candidates: gated, timed side by side, one chosen, the others with their reasons."""

import re
from dataclasses import replace

import pytest
import torch

from kernels import registry
from kernels.hardware import GPUS
from kernels.ops import AttentionCase, LinearCase
from kernels.proof import gate
from kernels.tune.ahead import prove_ahead
from kernels.tune.autotune import TuningContext, try_case
from kernels.tune.jobs import parallel_map
from kernels.tune.trial import Trial
from tests.kernels import planted
from tests.kernels.tune.scripted import CASE, QUICK, FakeTimer, Fast, Slow, by_name, scripted


def bench(only=None):
    """A CPU bench with the real timer."""
    return TuningContext(torch.device("cpu"), GPUS["cpu"], {}, QUICK, None, only)


def test_fastest_right_variant_is_chosen_and_every_other_says_why(plant):
    plant(Slow, Fast, planted.Wrong)
    result = by_name(try_case(scripted("cpu", {"planted_fast": 1.0, "planted_slow": 2.0}), CASE))
    assert result["planted_fast"].chosen
    assert result["planted_fast"].reason == "2.00x faster than planted_slow, what torch runs by itself."
    assert result["planted_slow"].reason == "2.00x slower than planted_fast at this shape."
    assert result["planted_wrong"].gate == "fail"
    assert result["planted_wrong"].ms is None
    assert sum(trial.chosen for trial in result.values()) == 1


def test_settled_times_are_taken_where_they_are_asked_for(plant):
    """And held against the settled ceilings."""
    plant(Slow, Fast)
    asked = scripted("cpu", {"planted_fast": 1.0, "planted_slow": 2.0})
    assert by_name(try_case(asked, CASE))["planted_fast"].settled is None
    rates = {"read_tbps": CASE.least_bytes / 0.5e9, "copy_tbps": 1.0, "matrix_tflops": {"fp32": 1e3}}
    ceilings = rates | {"burst": rates | {"read_tbps": CASE.least_bytes / 0.4e9}}
    result = by_name(try_case(replace(asked, settled=True, ceilings=ceilings), CASE))
    assert {name: trial.settled.ms for name, trial in result.items()} == {"planted_fast": 1.0, "planted_slow": 2.0}
    assert result["planted_fast"].settled.floor_share == pytest.approx(0.5)
    assert result["planted_fast"].floor_share == pytest.approx(0.4)


def test_difference_inside_the_noise_is_no_difference(plant):
    plant(Slow, Fast)
    result = by_name(try_case(scripted("cpu", {"planted_fast": 1.0, "planted_slow": 1.05}, jitter=0.1), CASE))
    assert result["planted_slow"].chosen
    assert re.search(r"lies inside the noise \([+-][\d,.]+ %\)", result["planted_fast"].reason)


def test_what_beats_physics_is_impossible_even_where_others_of_the_variant_are_faster(plant):
    plant(Slow, Fast)
    case = LinearCase(m=64, n=64, k=64, dtype="fp32", weights="fp32")
    result = by_name(try_case(scripted("h200", {"planted_fast": 1e-9, "planted_slow": 1.0}), case))
    assert result["planted_fast"].gate == "impossible"
    assert result["planted_fast"].reason.startswith("Impossible: ")
    assert not result["planted_fast"].chosen
    assert result["planted_slow"].chosen

    class Tunable(Fast):
        def space(self, case):
            return [{}, {"again": 1}, {"again": 2}]

    plant(Tunable)
    trials = try_case(scripted("h200", {"planted_fast": 1e-9}), case)
    assert [trial.gate for trial in trials] == ["impossible"] * 3
    assert sorted(trial.raced for trial in trials) == [False, True, True]


def test_real_variants_of_a_case_on_this_machine():
    case = AttentionCase(
        kind="prefill", head_dim=32, heads=4, kv_heads=2, batch=1, q_len=64, kv_len=64, dtype="fp32", kv_dtype="fp32"
    )
    result = by_name(try_case(bench(), case))
    assert result["sdpa_cudnn"].gate == "refused"
    assert result["sdpa_cudnn"].reason.startswith("device is CPU")
    for name in ("sdpa_math", "sdpa_flash"):
        trial = result[name]
        assert trial.gate == "pass"
        assert trial.ms_low <= trial.ms <= trial.ms_high
        assert trial.tflops > 0
        assert trial.kernels
        assert trial.reason


def test_lossy_variants_compete_only_when_allowed():
    lossy = [CASE.model_copy(update={"weights": "int8"})]
    only = frozenset({"torch_linear", "int8_dynamic_cpu"})
    allowed = by_name(try_case(bench(only=only), CASE, lossy))
    assert allowed["int8_dynamic_cpu"].gate == "pass"
    assert allowed["int8_dynamic_cpu"].quantisation > 0
    forbidden = by_name(try_case(bench(only=only), CASE, lossy, forbidden="The workload does not allow it."))
    assert forbidden["int8_dynamic_cpu"].gate == "refused"
    assert forbidden["int8_dynamic_cpu"].reason == "The workload does not allow it."


def test_slow_builders_are_left_out_of_a_short_run():
    trial = by_name(try_case(bench(only=frozenset({"torch_linear_compiled"})), CASE, seconds=5))[
        "torch_linear_compiled"
    ]
    assert (trial.gate, trial.late) == ("refused", True)
    assert trial.reason == "Not tried: building may take 20 s, more than was left for this case."


def test_params_that_a_quick_race_cannot_tell_apart_race_beside_the_others(plant):
    class Tunable(planted.Planted):
        name = "planted_tunable"

        def space(self, case):
            return [{"repeat": repeat} for repeat in (3, 2, 1)]

        def build(self, case, params):
            def call(x, w):
                call.repeat = params["repeat"]
                return torch.nn.functional.linear(x, w)

            return call

    def ms(call):
        return {1: 1.0, 2: 1.01, 3: 2.0}[call.func.repeat]

    plant(Tunable)
    place = bench(only=frozenset({"planted_tunable"}))
    place.timer = FakeTimer(ms, jitter=0.05)
    trials = {trial.params["repeat"]: trial for trial in try_case(place, CASE)}
    assert {repeat: trial.raced for repeat, trial in trials.items()} == {1: True, 2: True, 3: False}
    assert "slower than the same with repeat " in trials[3].reason
    (other,) = (trials[repeat] for repeat in (1, 2) if not trials[repeat].chosen)
    assert other.reason.startswith("The difference to the same with repeat ")


def test_params_are_tuned_and_the_losers_kept(plant):
    class Tunable(planted.Planted):
        name = "planted_tunable"

        def space(self, case):
            return [{"repeat": 400}, {"repeat": 1}]

        def build(self, case, params):
            def call(x, w):
                for _ in range(params["repeat"]):
                    y = torch.nn.functional.linear(x, w)
                return y

            return call

    plant(Tunable)
    trials = try_case(bench(only=frozenset({"planted_tunable"})), CASE)
    slow, fast = sorted(trials, key=lambda trial: -trial.params["repeat"])
    assert fast.chosen
    assert "slower than the same with repeat 1." in slow.reason
    assert fast.raced
    assert fast.kernels
    assert not slow.raced
    assert not slow.kernels
    assert slow.id != fast.id


def test_ids_are_the_same_in_every_run_and_work_is_shared_out_in_order():
    variant = registry.variant("torch_linear")
    first, second = (Trial.of(CASE, variant, {"a": 1}) for _ in range(2))
    assert first.id == second.id
    assert first.id != Trial.of(CASE, variant, {"a": 2}).id
    assert [[*parallel_map(abs, [-3, 2, -1], jobs)] for jobs in (1, 2)] == [[3, 2, 1]] * 2


def test_what_was_proven_ahead_is_timed_however_little_time_is_left_and_not_proven_again(plant, monkeypatch):
    plant(Slow)
    place = scripted("cpu", {"planted_slow": 1.0})
    assert "no time" in by_name(try_case(place, CASE, seconds=0))["planted_slow"].reason
    place.proven = prove_ahead(place, [CASE], jobs=1)
    assert by_name(try_case(place, CASE, seconds=0))["planted_slow"].ms is not None
    assert prove_ahead(bench(only=frozenset({"torch_linear_compiled"})), [CASE], jobs=1) == {}
    plant(Slow, planted.Wrong)
    place = scripted("cpu", {"planted_slow": 1.0})
    place.proven = prove_ahead(place, [CASE], jobs=1)
    monkeypatch.setattr("kernels.proof.gate.prove", None)
    result = by_name(try_case(place, CASE))
    assert result["planted_slow"].chosen
    assert result["planted_wrong"].gate == "fail"
    assert result["planted_wrong"].ms is None


def test_what_could_not_run_ahead_is_tried_again_alone(plant):
    class ShortOfMemory(planted.Planted):
        name, calls = "planted_short_of_memory", 0

        def build(self, case, params):
            type(self).calls += 1
            if self.calls == 1:
                raise RuntimeError("out of memory")
            return self.call

    class Broken(planted.Planted):
        name = "planted_broken"

        def build(self, case, params):
            raise RuntimeError("broken")

    plant(ShortOfMemory, Broken)
    there = bench(only=frozenset({"planted_short_of_memory", "planted_broken"}))
    there.proven = prove_ahead(there, [CASE], 1)
    trials = by_name(try_case(there, CASE))
    assert (trials["planted_short_of_memory"].gate, ShortOfMemory.calls) == ("pass", 3)
    assert trials["planted_broken"].gate == "error"
    assert "broken" in trials["planted_broken"].reason


def test_a_reference_is_noted_as_such_and_what_follows_as_the_variants_own_work(plant, monkeypatch):
    noted, during, compute = [], {"reference": set(), "call": set()}, gate.compute

    class Noting(planted.Planted):
        name = "planted_noting"

        def call(self, *args, **kwargs):
            during["call"].add(noted[-1])
            return super().call(*args, **kwargs)

    plant(Noting)
    monkeypatch.setattr(gate, "compute", lambda *args: during["reference"].add(noted[-1]) or compute(*args))
    on = replace(
        bench(frozenset({"planted_noting"})),
        on_trial=lambda trial, building: noted.append(trial.variant),
        on_reference=lambda case: noted.append(case.key),
    )
    (trial,) = try_case(on, CASE)
    assert trial.gate == "pass", trial.reason
    assert during == {"reference": {CASE.key}, "call": {"planted_noting"}}


def test_a_case_whose_reference_took_too_long_is_left_out(plant):
    plant(Fast)
    result = try_case(replace(bench(frozenset({"planted_fast"})), skip_reasons={CASE.key: "It took too long."}), CASE)
    assert [(item.gate, item.reason) for item in result] == [("error", "It took too long.")]
