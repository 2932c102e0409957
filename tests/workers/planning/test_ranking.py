"""Which candidates and plans win: by more than the noise, whichever way is better."""

from kernels import registry
from kernels.plan import Plan
from tests.workers.conftest import GATE_UP, candidate
from workers.documents.measurement import Interval
from workers.documents.stages import PlanTrial
from workers.planning import ranking


def test_winners_beat_torch_by_more_than_the_noise():
    registry.variants()
    slow, prompt = candidate("torch_linear", 2.0), GATE_UP.model_copy(update={"m": 16})
    fast = candidate("torch_linear_compiled", 1.0)
    int8 = candidate("int8_dynamic_cpu", 0.5, "int8")
    assert ranking.winners([slow, fast, int8], lossy=False) == [fast]
    assert ranking.winners([slow, fast, int8], lossy=True) == [int8]
    assert ranking.winners([slow, candidate("torch_linear_compiled", 1.99)], lossy=False) == []
    assert ranking.winners([slow, fast.model_copy(update={"gate": "impossible"})], lossy=False) == []
    noisy = fast.model_copy(update={"reason": "The difference to torch_linear lies inside the noise (-3.0%)."})
    assert ranking.winners([slow, noisy], lossy=False) == []
    assert ranking.winners([slow, candidate("torch_linear_compiled", 1.0, case=prompt)], lossy=False) == []


def trial(label, value, width=0.01, gate="pass"):
    low, high = value * (1 - width), value * (1 + width)
    primary = Interval(value=value, low=low, high=high) if gate == "pass" else None
    return PlanTrial(label=label, plan={}, primary=primary, gate=gate)


def test_the_best_plan_must_be_better_than_the_noise():
    found = [trial("eager", 100), trial("compiled", 50), trial("tuned", 49.5), trial("broken", 1, gate="fail")]
    ranking.explain(found, True, ranking.fastest(found, lower_is_better=True))
    assert [each.chosen for each in found] == [False, True, False, False]
    assert found[0].reason == "2.00x slower than compiled."
    assert found[1].reason == "The best of all: 2.00x faster than eager."
    assert found[2].reason == "The difference to compiled lies inside the noise."


def test_more_is_better_for_throughput():
    found = [trial("eager", 100), trial("compiled", 50)]
    ranking.explain(found, False, ranking.fastest(found, lower_is_better=False))
    assert found[0].chosen
    assert found[0].reason == "The baseline; nothing was faster by more than the noise."
    assert found[1].reason == "2.00x slower than eager."


def test_plans_in_different_precisions_are_never_compared_by_a_ratio():
    found = [trial("eager", 100), trial("megakernel", 50), trial("megakernel_fp8", 30)]
    for each, options in zip(found, ({}, {}, {"weights": "fp8"}), strict=True):
        plan = Plan(model_digest="0", gpu="h200", runner="megakernel", options=options)
        each.plan = plan.model_dump()
    found[2].reason = "Its mean KL divergence is at most 0.001 nats."
    ranking.explain(found, True, ranking.fastest(found, lower_is_better=True))
    assert found[1].reason == "Slower than megakernel_fp8, which is in another precision."
    assert found[2].reason == (
        "The best of all, in another precision than eager: verify judges its quality. "
        "Its mean KL divergence is at most 0.001 nats."
    )
