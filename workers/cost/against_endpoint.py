"""The customer's endpoint as before: what a result says first where it was measured, from there to after."""

from workers.charts import endpoint
from workers.cost.loads import load_words
from workers.cost.pricing import usd_per_mtok
from workers.documents.load import LoadResult
from workers.documents.stages import Results
from workers.documents.workload import Deployment, Workload
from workers.wording.text import in_a_sentence, number, plain


def sentences(results: Results, workload: Workload | None) -> list[str]:
    """Verdicts, medians, loads and prices at the endpoint and after; [] where it was not measured, or void.

    Where no change is recommended there is no after. The price there is that of the `workload`'s present deployment.
    """
    verify, result = results.verify, endpoint.endpoint_result(results)
    if verify is None or not verify.recommended or result is None or result.load is None or result.load.lag.void:
        return []
    words = [endpoint.words(results), _loads(results), _prices(results, workload.present if workload else None)]
    if result.load.verdict and all(objective.verdict for objective in endpoint.endpoint_objectives(results)):
        there, after = (in_a_sentence(verdict) for verdict in (result.load.verdict, verify.verdict))
        words.insert(0, f"The SLA is {there} at the endpoint and {after} after.")
    return [sentence for sentence in words if sentence]


def _loads(results: Results) -> str:
    load = results.load
    if load is None or load.endpoint is None or load.after is None:
        return ""
    endpoint_load, after = load.endpoint.limit.held, load.after.limit.held
    both = endpoint_load is not None and after is not None and endpoint_load.tokens_per_second > 0
    times = f", {after.tokens_per_second / endpoint_load.tokens_per_second:.2f}x" if both else ""  # type: ignore[union-attr]
    return f"The endpoint {_holds(endpoint_load)}; after, here ({load.after.server.label}), {_holds(after)}{times}."


def _holds(highest: LoadResult | None) -> str:
    if highest is None:
        return "is not shown to hold every objective at any load"
    most = load_words(highest.users, highest.rate, highest.speed)
    return f"holds every objective up to {most}, {number(highest.tokens_per_second)} tokens/s"


def _prices(results: Results, present: Deployment | None) -> str:
    """Both prices at the highest loads that hold; "" where a side has none, or the endpoint's hour has no price."""
    highest = results.load.endpoint.limit.held if results.load and results.load.endpoint else None
    here = results.price.lines[1].usd_per_mtok if results.price and results.price.highest else None
    if highest is None or not highest.tokens_per_second or present is None or here is None:
        return ""
    there, hour = plain(usd_per_mtok(present.usd_per_hour, highest.tokens_per_second)), present.usd_per_hour
    return (
        f"At these loads a million output tokens costs {there} USD there, at {hour:.2f} USD an hour as stated, "
        f"and {plain(here)} USD after."
    )
