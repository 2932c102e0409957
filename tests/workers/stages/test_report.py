"""The report opens alone and says the verdict; the plan beside it is the one that was verified."""

import json
import re

import pytest
import sample_loads
from sample_no_change import no_change
from sample_results import results, stage_input

from workers.documents.measurement import Telemetry
from workers.documents.speedup import ProcessMedians
from workers.documents.stages import PlanTrial, Results
from workers.harness.context import Context, StageError
from workers.report.page import headline, render
from workers.stages.report import run


def test_keeps_a_self_contained_page_and_the_plan(tmp_path):
    document = stage_input()
    context = Context(tmp_path / "model", tmp_path / "scratch")
    result = run(document, context)
    page = (context.saved_dir / result.html.sha256).read_text()
    assert result.verdict == "met"
    assert result.headline.startswith("Met: TTF64 p50")
    assert result.headline in page
    assert not re.search(r'<script|<link(?! rel="icon" href="data:,">)|(src|href)="http|@import|url\(', page)
    assert page.count("<svg") == 9
    assert "3.46x faster than the next" in page
    assert len(page) < 1_000_000
    assert json.loads((context.saved_dir / result.plan.sha256).read_text()) == document.results.verify.plan
    with pytest.raises(StageError, match="no verified result"):
        run(document.model_copy(update={"results": Results()}), context)


def test_the_report_begins_with_the_price_of_a_token_and_has_what_was_predicted_of_the_customers_text():
    document = stage_input()
    head = render(document).partition('class="appendix"')[0]
    lines = ("Promise", "Verdict", "Before and after", "Price under the promise", "Risk", "Quality", "Recommendation")
    for line in lines:
        assert f"<dt>{line}</dt>" in head
    assert "$1.47 a million tokens" in head
    assert "$5.12 → $1.47 a million, at one request at a time" in head
    assert "Numerical fidelity stays within" in head
    assert "“compiled, CUDA graphs”" in head
    document.model.quantised = "GPTQ (4 bits)"
    assert "GPTQ (4 bits). What runs today has them in bf16" in render(document)
    page = " ".join(render(document).split()).replace("&#39;", "'")
    predicted = (
        "On the workload's text</th>",
        "42.13 % (41.02 % to 43.31 %)",
        "12.3 (11.8 to 12.9)",
        "22 sequences of 192",
    )
    assert all(item in page for item in predicted)
    unpriced = document.model_copy(update={"results": document.results.model_copy(update={"price": None})})
    assert "a million" not in render(unpriced).partition('class="appendix"')[0]


def test_a_plan_that_took_turns_with_today_says_how_many():
    document = stage_input()
    verify = document.results.verify
    medians = [ProcessMedians(before=281, after=81, ratio=3.47, pairs=3)] * 3
    speedup = verify.speedup.model_copy(update={"processes": medians, "turns": True})
    turned = verify.model_copy(update={"turns": 3, "speedup": speedup})
    page = render(document.model_copy(update={"results": document.results.model_copy(update={"verify": turned})}))
    assert "Before and after are measured here, in 3 turns of each;" in page
    assert "over 3 turns of each side: " in page
    assert "<th>Turn of each side</th>" in page
    assert "interleaved" not in page


def test_a_missed_limit_says_so_and_hostile_names_are_escaped():
    assert headline(results(after_ms=143).verify).startswith("Missed: TTF64 p50 14")
    loaded = sample_loads.results()
    assert headline(loaded.verify, loaded.load).endswith("; shown to hold under load: 20 users after, none before")
    document = stage_input()
    workload = document.workload.model_copy(update={"name": "<script>alert(1)</script>"})
    page = render(document.model_copy(update={"workload": workload}))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(("verdict", "void"), [("not_enough_samples", True), ("too_close", False)])
def test_a_run_on_a_busy_machine_wants_an_idle_one_and_not_more_minutes(verdict: str, void: bool):
    document, verify = stage_input(), no_change().verify
    outcomes = [outcome.model_copy(update={"void": void, "verdict": verdict}) for outcome in verify.outcomes]
    beside = {"gpu_class": "cpu", "telemetry": Telemetry(others_cpu_share=0.54)}
    busy = verify.environment.model_copy(update=beside)
    undecided = verify.model_copy(update={"outcomes": outcomes, "verdict": verdict, "environment": busy})
    load = sample_loads.results().load.model_copy(update={"after": None})
    price = document.results.price
    price = price.model_copy(update={"lines": [line.model_copy(update={"holds_sla": None}) for line in price.lines]})
    known = document.results.model_copy(update={"verify": undecided, "load": load, "price": price})
    head, _, appendix = render(document.model_copy(update={"results": known})).partition('class="appendix"')
    assert ("Void: other programs disturbed it" in appendix) == void
    assert f"at {price.loads}, if it holds" in head
    assert "Run it again on an idle machine." in head
    assert "longer run" not in head
    assert "<dd>none today</dd>" in head


def test_where_no_change_is_recommended_the_report_has_no_ratio():
    page = render(stage_input().model_copy(update={"results": no_change()}))
    assert headline(no_change().verify).endswith("no change recommended")
    assert "1.17x slower than what runs today" in page
    assert "3.46x" not in page
    assert "tokens per dollar" not in page
    assert "Before is what runs today, and so is after" in page
    assert "<tr><th>Today</th>" in page
    assert "<dt>Load</dt><dd>Today: " in page


def test_the_summary_of_a_missed_promise_says_what_would_be_kept():
    document = stage_input()
    verify = document.results.verify
    samples = next(item for item in verify.after if item.metric == "ttf_n").samples
    first = verify.outcomes[0]
    asked = first.objective.model_copy(update={"limit": 60.0})
    changes = {"objective": asked, "verdict": "missed", "over": len(samples), "requests": len(samples)}
    missed = first.model_copy(update=changes)
    result = verify.model_copy(update={"outcomes": [missed], "verdict": "missed"})
    results = document.results.model_copy(update={"verify": result})
    head = render(document.model_copy(update={"results": results})).partition('class="appendix"')[0]
    assert "Do not give the promise yet." in head
    promise = re.search(r"would keep TTF64 p50 of at most ([\d.]+) ms, for \$[\d.]+ a million tokens\.", head)
    assert min(samples) <= float(promise[1]) <= 1.1 * max(samples)


def test_a_promise_that_no_load_keeps_is_for_the_stated_traffic_alone():
    document, load = stage_input(), sample_loads.results().load
    loaded = document.model_copy(update={"results": document.results.model_copy(update={"load": load})})
    assert "and give the promise." in render(loaded)
    nothing = load.after.limit.model_copy(update={"users": 0})
    load = load.model_copy(update={"after": load.after.model_copy(update={"limit": nothing})})
    page = render(document.model_copy(update={"results": document.results.model_copy(update={"load": load})}))
    assert "but give the promise for the stated traffic alone" in page
    assert "and give the promise." not in page


def test_a_missed_report_says_what_was_not_tried_and_why():
    known, document = results(), stage_input()
    facts = {"plan": {}, "gate": "refused", "skipped": "time", "reason": "Not tried: it would take 4 more minutes."}
    left_out = [PlanTrial(label=f"plan {index}", **facts) for index in range(5)]
    never = PlanTrial(label="megakernel", plan={}, gate="refused", reason="device is CPU")
    compose = known.compose.model_copy(update={"trials": [never, *left_out]})
    missed = known.verify.model_copy(update={"verdict": "missed", "minutes_wanted": 22.0})
    for verify, said in ((missed, True), (known.verify, False)):
        result = known.model_copy(update={"compose": compose, "verify": verify})
        first_page = render(document.model_copy(update={"results": result})).partition("Technical appendix")[0]
        assert ("Not tried</dt><dd>“plan 0”: it would take 4 more minutes. “plan 1”" in first_page) == said
        assert ("3 more stand in the appendix. A run of 22 minutes tries" in first_page) == said
