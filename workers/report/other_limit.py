"""Which other limit the requests of a run would have kept, where they missed the promised one or left it undecided, and
what that would cost.
"""

import math

from workers.cost import same_load
from workers.documents.measurement import find_metric
from workers.documents.model import ModelManifest
from workers.documents.stages import ObjectiveOutcome, Results
from workers.documents.workload import Workload
from workers.stats.verdicts import needed_requests, verdict
from workers.wording.text import dollars, quantity


def sentence(results: Results, workload: Workload | None, model: ModelManifest | None) -> str:
    """The limit at which the first promise that was missed would be met, with its price; "" where nothing tells it."""
    verify = results.verify
    outcomes = verify.outcomes if verify else []
    open_outcome = next((outcome for outcome in outcomes if outcome.verdict != "met"), None)
    limit = _met_limit(results, open_outcome) if open_outcome else None
    if open_outcome is None or limit is None:
        return ""
    objective = open_outcome.objective
    usd = same_load.after_as_verified(results, workload, model) if workload and model else None
    cost = f", for {dollars(usd.value)} a million {results.price.counted}" if usd and results.price else ""
    return (
        f"These requests would keep {objective.label} of at most {quantity(limit, objective.unit)}{cost}. Only a run "
        "with that promise can show it."
    )


def _met_limit(results: Results, outcome: ObjectiveOutcome) -> float | None:
    """The lowest of the measured values that would be met as a limit, with two digits, rounded up.

    None for rates, for metrics with several samples a request, and where requests that follow each other are alike.
    """
    objective, verify = outcome.objective, results.verify
    measured = find_metric(verify.after, (objective.metric, objective.n)) if verify else None
    if measured is None or objective.limit is None or objective.direction != "at_most" or outcome.void:
        return None
    alike = outcome.needed > needed_requests(objective.percentile)
    if alike or outcome.requests != len(measured.samples) or not measured.samples:
        return None
    for value in sorted(set(measured.samples)):
        limit = _rounded_up(value)
        shares = [float(sample > limit) for sample in measured.samples]
        if verdict(objective.percentile, shares) == "met":
            return limit if limit > objective.limit else None
    return None


def _rounded_up(value: float) -> float:
    """With two significant digits: 81.2 becomes 82."""
    if value <= 0:
        return value
    digits = 1 - math.floor(math.log10(value))
    return math.ceil(round(value * 10**digits, 6)) / 10**digits
