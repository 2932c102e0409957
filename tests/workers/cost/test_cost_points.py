"""Cost against latency: which points there are, what they cost, and which of them are on the front."""

import pytest
import sample_endpoint
from sample_results import results, workload

from workers.charts.base import Figure
from workers.charts.front import CostPoint, figure, table, with_front
from workers.cost.cost_points import points
from workers.cost.pricing import gpu_price, usd_per_mtok
from workers.documents.prediction import PredictedFigure, PredictedPlan, Prediction
from workers.documents.prices import default_price_book
from workers.documents.stages import Results

BOOK = default_price_book()
FIGURES = [PredictedFigure(metric="ttf_n", n=64, value=70.0)]
FIGURES.append(PredictedFigure(metric="throughput", unit="tokens/s", value=800.0))
H100 = {"h100": Prediction(plans=[PredictedPlan(runner="kernels", weights="bf16", figures=FIGURES)])}


def found(known: Results | None = None, **changes: object) -> list[CostPoint]:
    asked = workload().model_copy(update={"present": None} | changes)
    return points(asked, BOOK, {"h200": known or results()}, H100)


def test_measured_and_modelled_points_with_their_prices():
    known = results()
    one, two, three = found(known)
    hour = gpu_price(BOOK, "h200").typical
    assert (one.gpu, one.basis, one.plan, one.ms) == ("h100", "modelled", "kernels, bf16", 70)
    assert one.usd == pytest.approx(usd_per_mtok(gpu_price(BOOK, "h100").typical, 800))
    assert (two.plan, two.group, two.keeps) == ("compiled, CUDA graphs (verified)", "plan", "holds")
    assert two.ms == known.verify.after[0].percentiles["p50"]
    assert two.usd == pytest.approx(usd_per_mtok(hour, known.verify.tokens_per_second_after))
    assert (three.plan, three.group, three.keeps) == ("eager", "today", "missed")
    assert three.usd == pytest.approx(usd_per_mtok(hour, known.verify.tokens_per_second_before))
    assert [value.on_front for value in (one, two, three)] == [False, True, False]


def test_a_plan_on_one_gpu_is_one_point_however_many_classes_have_it_and_several_cost_several():
    asked, one = workload().model_copy(update={"present": None}), H100["h100"].plans[0]
    two = one.model_copy(update={"runner": "megakernel", "tensor_parallel_size": 2})
    predicted = H100 | {name: Prediction(plans=[one, two]) for name in ("h100x2", "h100x4")}
    made = [(point.gpu, point.plan) for point in points(asked, BOOK, {}, predicted)]
    assert sorted(made) == [("2 x h100", "megakernel, bf16"), ("h100", "kernels, bf16")]
    known = results()
    known.compose.trials[0].plan["tensor_parallel_size"] = 2
    known.verify = None
    today = next(item for item in found(known) if item.group == "today")
    assert today.gpu == "2 x h200"
    assert today.usd == pytest.approx(usd_per_mtok(2 * gpu_price(BOOK, "h200").typical, 228))


def test_the_front_is_of_measured_plans_that_nothing_measured_beats_in_both():
    def point(plan: str, ms: float, usd: float | None, **kwargs: str) -> CostPoint:
        return CostPoint(plan=plan, ms=ms, usd=usd, **({"gpu": "h200", "basis": "measured"} | kwargs))  # type: ignore[arg-type]

    def drawn_points(those: list[CostPoint]) -> list[Figure]:
        traces: list[Figure] = figure(with_front(those), workload().objectives[0], "tokens")["data"]
        return [trace for trace in traces if trace["mode"] == "markers"]

    candidates = [
        point("cheap", 90, 0.2),
        point("beaten", 95, 0.3),
        point("quick", 20, 0.9),
        point("unpriced", 5, None),
    ]
    candidates += [point("modelled", 10, 0.1, basis="modelled"), point("there", 15, 0.1, group="endpoint")]
    assert [item.plan for item in with_front(candidates) if item.on_front] == ["quick", "cheap"]
    drawn = figure(with_front(candidates), workload().objectives[0], "tokens")
    names = {item["name"]: item["x"] for item in drawn["data"]}
    assert names["Front"] == [20, 90]
    assert names["h200, modelled"] == [10]
    assert names["h200, measured"] == [20, 90, 95]
    assert not any("text" in item["mode"] for item in drawn["data"]), "labels at points overlap"
    other = [point("quick", 20, 0.9), point("there", 30, 0.5, gpu="h100"), point("slow", 99, 2.0, group="today")]
    colours = {item["name"]: item["marker"]["color"] for item in drawn_points(other)}
    assert list(colours) == ["h200, measured", "h100, measured", "Baseline, measured"]
    assert len(set(colours.values())) == 3
    assert "unpriced" not in str(drawn)
    rows = table(with_front(candidates), workload().objectives[0], "tokens")[1]
    assert [row[1] for row in rows] == ["unpriced", "modelled", "there", "quick", "cheap", "beaten"]


def test_the_customers_endpoint_has_a_price_only_where_one_is_stated():
    known = sample_endpoint.with_endpoint(results())
    there = next(item for item in found(known) if item.group == "endpoint")
    assert (there.ms, there.usd, there.keeps) == (190, None, "missed")
    form = figure(found(known), workload().objectives[0], "tokens")["layout"]
    assert [item["text"] for item in form["annotations"]] == ["promised, p50", "your endpoint, no price stated"]
    priced = found(known, present=workload().present)
    there, stated = (next(item for item in priced if item.group == group) for group in ("endpoint", "stated"))
    assert there.usd == pytest.approx(usd_per_mtok(6.2, 146))
    assert (stated.gpu, stated.ms, stated.basis) == ("B200", 281, "stated")
    assert stated.usd == pytest.approx(usd_per_mtok(6.2, 64_000 / 281))


def test_void_figures_and_promises_that_are_no_times_have_no_point():
    known = results()
    seen = known.compose.environment.telemetry.model_copy(update={"others_gpu_seconds": 1.0})
    known.compose.environment = known.compose.environment.model_copy(update={"telemetry": seen})
    assert [item.gpu for item in found(known)] == ["h100"]
    rate = workload().objectives[0].model_copy(update={"metric": "throughput", "unit": "tokens/s"})
    assert found(objectives=[rate]) == []
