"""Every chart: valid plotly, valid SVG, a table with the same facts, and nothing where there is nothing to draw."""

from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest
import sample_endpoint
from sample_loads import results

from kernels.measure.roofline import LARGEST_SHARE
from workers.charts import CHARTS, cells, decisions, latency, plans, roofline, timeline
from workers.charts.svg import draw
from workers.documents.measurement import Environment, Interval, Telemetry
from workers.documents.stages import Results
from workers.wording import provenance
from workers.wording.text import LARGEST_SHARE as charts_share
from workers.wording.text import case_label, dollars, number, of_floor, percent, plain, quantity

EACH = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.key)


def everything():
    """The sample results with all that a chart may draw."""
    return sample_endpoint.under_load(sample_endpoint.with_endpoint(results()))


@EACH
def test_figure_is_valid_plotly_and_svg(chart):
    figure = chart.figure(everything())
    assert go.Figure(figure).data
    root = ElementTree.fromstring(draw(figure, chart.title))
    assert root.get("aria-label") == chart.title
    box = [float(value) for value in root.get("viewBox").split()]
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 <= float(text.get("x")) <= box[2]
        assert 0 <= float(text.get("y")) <= box[3]


@EACH
def test_table_has_a_cell_for_every_header(chart):
    headers, rows = chart.table(everything())
    assert rows
    assert all(len(row) == len(headers) for row in rows)
    assert all(text for row in cells.rows((headers, rows)) for text, _ in row)


@EACH
def test_nothing_to_draw_before_the_stage_has_run(chart):
    assert chart.figure(Results()) is None
    assert chart.table(Results())[1] == []


def test_latency_keeps_every_sample_and_draws_the_limit():
    document = results()
    figure = latency.figure(document)
    assert [sorted(trace["x"])[1:] for trace in figure["data"]] == [
        sorted(side[0].samples) for side in (document.verify.before, document.verify.after)
    ]
    assert figure["layout"]["shapes"][0]["x0"] == 100


def test_of_many_samples_the_largest_is_always_drawn():
    document = results()
    document.verify.after[0].samples = [float(value) for value in range(50_001)]
    trace = latency.figure(document)["data"][1]
    assert len(trace["x"]) < 2100
    assert (trace["x"][-1], trace["y"][-1]) == (50_000, 100)
    assert "50,001 samples" in trace["name"]


def test_decisions_keep_refused_candidates_in_the_table():
    chart = next(chart for chart in CHARTS if chart.key == "decisions")
    reasons = [row[-1] for row in chart.table(results())[1]]
    assert "weights: fp8 is not among the allowed precisions." in reasons
    drawn = [name for trace in chart.figure(results())["data"] for name in trace["text"]]
    assert "cached_output" in drawn
    assert "fp8_linear" not in drawn


@pytest.mark.parametrize(
    ("after", "unit", "words"),
    [
        (81.0, "ms", "81.0 ms in a quick comparison of 2 plans: 3.46x faster than the next, eager (280 ms)."),
        (280.0, "ms", "280 ms in a quick comparison of 2 plans: no worse, within the noise, than the next, eager"),
        (560.0, "tokens/s", "560 tokens/s in a quick comparison of 2 plans: 2.00x faster than the next, eager"),
        (140.0, "USD/Mtok", "2.00x cheaper than the next, eager"),
    ],
)
def test_the_chosen_plan_says_against_what(after, unit, words):
    document = results()
    document.verify = None
    for trial in document.compose.trials:
        trial.unit = unit
    document.compose.trials[1].primary = Interval(value=after, low=after, high=after)
    assert words in plans.why(document)
    assert plans.ranked(document)[0] is plans.chosen(document)


def test_a_plan_in_lower_precision_has_no_ratio_to_plans_in_another():
    document = results()
    document.verify = None
    document.compose.trials[1].plan["options"] = {"weights": "fp8"}
    assert "in another precision than the next, eager (280 ms)" in plans.why(document)
    assert "faster" not in plans.why(document)


def test_a_claim_of_compose_that_verify_contradicts_gives_way_to_the_verified_figure():
    document = results()
    assert "3.46x faster than the next, eager" in plans.why(document)
    document.compose.trials[1].primary = Interval(value=5.6, low=5.5, high=5.7)
    assert plans.why(document) == "Beside the baseline it is 3.47x faster in the median, as verified."


def test_timeline_starts_each_stage_where_it_began():
    spans = [timeline.StageSpan("admit", 0, 2), timeline.StageSpan("baseline", 2.5, 10)]
    figure = timeline.figure(spans)
    assert figure["data"][0]["base"] == [2.5, 0]
    assert "baseline" in draw(figure, "Stages")


@pytest.mark.parametrize(
    ("value", "words"),
    [(81.46, "81.5"), (1071.2, "1,071"), (0.00213, "0.00213"), (0, "0"), (None, "–"), (2e-9, "2.00e-09")],
)
def test_numbers_have_three_digits(value, words):
    assert number(value) == words


def test_sentences_drop_the_zeros_that_end_a_number():
    assert [plain(value) for value in (10, 0.8, 3860.4, 100, 0)] == ["10", "0.8", "3,860", "100", "0"]


def test_units_and_money():
    assert quantity(81.46, "ms") == "81.5 ms"
    assert quantity(1.234, "USD/Mtok") == "$1.23 / M tokens"
    assert dollars(0.1234) == "$0.123"
    assert dollars(0.8) == "$0.80"


def test_case_labels_name_the_shape():
    linear = {"op": "linear", "m": 1, "n": 8, "k": 4, "dtype": "bf16", "weights": "int8", "epilogue": "swiglu"}
    assert case_label("linear", linear) == "linear 1×8×4 int8 with SwiGLU"
    assert (
        case_label("rmsnorm", {"op": "rmsnorm", "m": 1, "n": 2048, "residual": True}) == "rmsnorm 1×2048 with residual"
    )
    attention = {"op": "attention", "kind": "prefill", "batch": 2, "heads": 4, "head_dim": 64, "q_len": 5, "kv_len": 5}
    assert case_label("attention", attention) == "attention prefill 2×4h×64 5×5"
    assert case_label("attention", attention | {"causal": False}) == "attention not causal 2×4h×64 5×5"


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.48, "2,600 MHz, other programs used 48 % of the CPU"), (0.01, "2,600 MHz"), (None, "2,600 MHz")],
)
def test_a_shared_machine_is_said_beside_its_figures(share, said):
    seen = Telemetry(sm_mhz_median=2600, others_cpu_share=share)
    environment = Environment(device="d", gpu_class="cpu", versions={}, at="2026-11-20T00:00:00Z", telemetry=seen)
    assert provenance.clocks(environment) == said


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [(0.004, 0, "<1 %"), (0.0004, 1, "<0.1 %"), (-0.0004, 1, ">-0.1 %"), (0.0, 0, "0 %"), (0.006, 0, "1 %")],
)
def test_a_small_share_is_not_nothing(value, digits, said):
    assert percent(value, digits) == said


def test_a_share_above_what_can_be_is_not_printed():
    """Results of earlier versions hold shares such as 293 % of the floor."""
    assert charts_share == LARGEST_SHARE
    assert [of_floor(share) for share in (0.92, 1.05, 1.06, 2.93, None)] == ["92 %", "105 %", "–", "–", "–"]
    found = results()
    for each in found.explore.candidates:
        each.floor_share = 2.93
    for row in found.profile.rows:
        row.floor_ms = 2.93 * row.ms
    for chart in (decisions, roofline):
        headers, body = chart.table(found)
        at = headers.index("floor / time, %")
        assert body
        assert {row[at] for row in body} == {None}
