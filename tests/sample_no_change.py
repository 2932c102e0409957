"""A results document of a run that recommends no change, for tests of charts, pages and the report. Made up."""

from tests.sample_results import compose, manifest, results, workload
from workers.documents.measurement import Interval
from workers.documents.prices import default_price_book
from workers.documents.stages import PlanCheck, Results
from workers.stages.price import price


def no_change() -> Results:
    """Results whose chosen plan verify did not confirm, so that what runs today stands."""
    result = results()
    reason = "The median TTF64 is 1.17x slower than what runs today."
    today, first = compose().trials[0], result.verify.outcomes[0]
    slower = result.verify.speedup.model_copy(update={"ratio": Interval(value=0.858, low=0.85, high=0.87)})
    check = PlanCheck(label="compiled, CUDA graphs", confirmed=False, reason=reason, speedup=slower)
    result.verify = result.verify.model_copy(
        update={
            "plan": today.plan,
            "after": result.verify.before,
            "tokens_per_second_after": result.verify.tokens_per_second_before,
            "recommended": False,
            "checks": [check],
            "speedup": None,
            "outcomes": [
                outcome.model_copy(update={"after": outcome.before, "verdict": "missed"})
                for outcome in result.verify.outcomes
            ],
            "quality": None,
            "verdict": "missed",
            "sentence": f"With what runs today the SLA is missed. {first.objective.label} is {first.before:.4g} ms "
            f"where at most 100 ms is promised. No change is recommended. “{check.label}”: {reason}",
        }
    )
    result.price = price(workload(), default_price_book(), "h200", result.verify, manifest())
    return result
