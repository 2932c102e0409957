"""Every chart: valid plotly, valid SVG, a table with the same facts, and nothing where there is nothing to draw."""

from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest
import sample_endpoint
from sample_loads import results

from kernels.measure.roofline import MAX_FLOOR_SHARE
from workers.charts import CHARTS, cells, chosen, decisions, latency, plans, roofline, timeline, under_load
from workers.charts.base import doubling_axis
from workers.charts.svg import draw
from workers.documents.measurement import Environment, Interval, Telemetry
from workers.documents.stages import Results
from workers.wording import provenance
from workers.wording.text import MAX_FLOOR_SHARE as charts_share
from workers.wording.text import case_label, of_floor

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
def test_table_has_a_cell_for_every_header_and_nothing_stands_there_before_the_stage_has_run(chart):
    headers, rows = chart.table(everything())
    assert rows
    assert all(len(row) == len(headers) for row in rows)
    assert all(text for row in cells.rows((headers, rows)) for text, _ in row)
    assert chart.figure(Results()) is None
    assert chart.table(Results())[1] == []


def test_latency_draws_the_limit_and_keeps_every_sample_or_of_many_the_largest():
    document = results()
    figure = latency.figure(document)
    assert [sorted(trace["x"])[1:] for trace in figure["data"]] == [
        sorted(side[0].samples) for side in (document.verify.before, document.verify.after)
    ]
    assert figure["layout"]["shapes"][0]["x0"] == 100
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
        (81.0, "ms", ("81.0 ms", " 2 plans", "3.46x faster", "eager (280 ms)")),
        (280.0, "ms", ("280 ms", "no worse, within the noise", "eager")),
        (560.0, "tokens/s", ("560 tokens/s", "2.00x faster", "eager")),
        (140.0, "USD/Mtok", ("2.00x cheaper", "eager")),
    ],
)
def test_the_chosen_plan_says_against_what(after, unit, words):
    document = results()
    document.verify = None
    for trial in document.compose.trials:
        trial.unit = unit
    document.compose.trials[1].primary = Interval(value=after, low=after, high=after)
    assert all(word in plans.why(document) for word in words)
    assert plans.rank_trials(document)[0] is plans.chosen_trial(document)


def test_only_a_claim_of_the_same_precision_that_verify_confirms_has_its_ratio():
    document = results()
    assert "3.46x faster" in plans.why(document)
    document.compose.trials[1].primary = Interval(value=5.6, low=5.5, high=5.7)
    assert "3.47x faster in the median, as verified" in plans.why(document)
    document = results()
    document.verify = None
    document.compose.trials[1].plan["options"] = {"weights": "fp8"}
    assert "in another precision" in plans.why(document)
    assert "faster" not in plans.why(document)


def test_timeline_starts_each_stage_where_it_began():
    spans = [timeline.StageSpan("admit", 0, 2), timeline.StageSpan("baseline", 2.5, 10)]
    figure = timeline.figure(spans)
    assert figure["data"][0]["base"] == [2.5, 0]
    assert "baseline" in draw(figure, "Stages")


def test_case_labels_name_the_shape():
    linear = {"op": "linear", "m": 1, "n": 8, "k": 4, "dtype": "bf16", "weights": "int8", "epilogue": "swiglu"}
    assert case_label("linear", linear) == "linear 1×8×4 int8 with SwiGLU"
    norm = {"op": "rmsnorm", "m": 1, "n": 2048, "residual": True}
    assert case_label("rmsnorm", norm) == "rmsnorm 1×2048 with residual"
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


def test_a_share_above_what_can_be_is_not_printed():
    """Results of earlier versions hold shares such as 293 % of the floor."""
    assert charts_share == MAX_FLOOR_SHARE
    assert [of_floor(share) for share in (0.92, 1.05, 1.06, 2.93, None)] == ["92 %", "105 %", "–", "–", "–"]
    result = results()
    for candidate in result.explore.candidates:
        candidate.floor_share = 2.93
    for row in result.profile.rows:
        row.floor_ms = 2.93 * row.ms
    for chart in (decisions, roofline):
        headers, body = chart.table(result)
        at = headers.index("floor / time, %")
        assert body
        assert {row[at] for row in body} == {None}


def test_numbers_of_users_have_ticks_where_a_search_doubles_them():
    assert doubling_axis([1.0, 20.0, 64.0])["ticktext"] == ["1", "2", "4", "8", "16", "32", "64"]
    assert doubling_axis([1.0, 1024.0])["ticktext"] == ["1", "4", "16", "64", "256", "1,024"]
    figure = under_load.figure(results())
    assert figure["layout"]["xaxis"]["ticktext"] == ["1", "2", "4", "8", "16", "32"]
    drawn = draw(figure, "Throughput under load")
    assert all(f">{users}</text>" in drawn for users in (1, 2, 4, 8, 16, 32))
    assert ">5</text>" not in drawn


def test_the_plan_stands_operation_by_operation_beside_torchs_best_of_its_precision():
    document = results()
    headers, ((case, variant, summary, calls, mine, torchs, times),) = chosen.table(document)
    assert len(headers) == 7
    assert (case, variant, summary, calls) == ("linear 1×8192×2048", "cublaslt", "cuBLASLt", 1)
    assert (mine, torchs, times) == (pytest.approx(11.7), pytest.approx(13.1), pytest.approx(13.1 / 11.7))
    (own,) = [
        candidate
        for candidate in document.explore.candidates
        if candidate.id == document.verify.plan["ops"][0]["evidence_id"]
    ]
    own.case = own.case | {"weights": "fp8"}
    assert chosen.table(document)[1][0][-2:] == [None, None]


def test_a_megakernels_head_is_called_for_the_prompt_alone():
    document = results()
    plan = document.verify.plan
    next(
        candidate for candidate in document.explore.candidates if candidate.id == plan["ops"][0]["evidence_id"]
    ).per_request = 64.0
    plan["ops"][0] |= {"op": "lm_head", "case": {"m": 1, "vocab": 32000, "k": 2048}}
    assert chosen.parts(document)[0].calls == 64
    plan["runner"] = "megakernel"
    assert chosen.parts(document)[0].calls == 1
