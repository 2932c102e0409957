"""What was found at a customer's endpoint, on the result page, in the report, in the API's answer and in a terminal."""

import re
from html import unescape
from io import StringIO

import pytest
from rich.console import Console

from tests import sample_endpoint, sample_loads, sample_results
from workbench.cli import tables
from workers.charts import endpoint
from workers.cost import against_endpoint
from workers.report.page import render


@pytest.fixture
def beside(done):
    """The finished run with a result at an endpoint, the one that is given."""

    def make(found):
        stage = done.stages.get(stage="verify")
        stage.result |= {"endpoint": found.model_dump(mode="json")}
        stage.save()
        return done

    return make


def text(page):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", re.sub(r"</?span[^>]*>", "", page))).split())


def test_the_page_and_the_api_show_it_beside_before_and_after(browser, api, engineer, beside):
    found = sample_endpoint.measured(sample_results.results())
    run, client = beside(found), browser(engineer)
    page = client.get(f"/runs/{run.pk}/result/").content.decode()
    said = text(page)
    for part in (
        "TTF64 p50 at your endpoint190 ms",
        "The median TTF64 there is 190 ms, 2.35x the plan's 81.0 ms here (2.21 to 2.53 by the ends of both",
        "Its hardware 2 A100 of the test stated",
        "21 requests in 9.00 s, 1 failed; median TTF64 192 ms, 182 to 205",
        "TPOT p95 3.12 ms",
        "is the verdict From your endpoint to after. The SLA is missed at the endpoint and met after. The median",
        "The run's verdict is that of the plan.",
        *found.server.caveats,
    ):
        assert part in said
    (anchor,) = set(re.findall(r'href="/method/#([^"]*endpoint[^"]*)"', page))
    assert f'id="{anchor}"' in client.get("/method/").content.decode()
    answer = api(engineer).get(f"/api/v1/runs/{run.pk}/result").json()["results"]["verify"]["endpoint"]
    assert answer["load"]["metrics"][0]["percentiles"]["p50"] == {"value": 190.0, "low": 180.5, "high": 203.3}


def test_an_endpoint_that_failed_is_a_sentence_and_the_rest_stands(browser, engineer, beside):
    run = beside(sample_endpoint.REFUSED)
    page = browser(engineer).get(f"/runs/{run.pk}/result/").content.decode()
    assert "The server answered 401" in text(page)
    assert "before is what the baseline runner took on the worker" in text(page)
    assert "at your endpoint" not in text(page)
    assert 'data-verdict="met"' in page


@pytest.mark.parametrize("failed", [False, True])
def test_the_report_and_a_terminal_say_the_same(failed):
    results = sample_endpoint.with_endpoint(sample_results.results(), sample_endpoint.REFUSED if failed else None)
    report = text(render(sample_results.stage_input().model_copy(update={"results": results})))
    out = StringIO()
    tables.outcome(results, Console(file=out, width=400))
    printed = " ".join(out.getvalue().split())
    for said in (report, printed):
        assert results.verify.endpoint.sentence in said
        assert ("2.35x the plan's 81.0 ms" in said) != failed
    assert ("The network between the worker and the endpoint" in report) != failed


def test_the_loads_that_hold_at_the_endpoint_and_after_and_their_prices_come_first():
    results = sample_endpoint.under_load(sample_endpoint.with_endpoint(sample_loads.results()))
    assert against_endpoint.sentences(results, None)[-1] == (
        "The endpoint is not shown to hold every objective at any load; after, here (this workbench's server, the "
        "plan's kernels), holds every objective up to 20 requests at once, 13,342 tokens/s."
    )
    held = results.load.endpoint.limit
    held.users, held.loads[2].verdict = 4, "met"
    *_, loads, prices = against_endpoint.sentences(results, sample_results.workload())
    assert loads.startswith("The endpoint holds every objective up to 4 requests at once, 1,202 tokens/s; after, ")
    assert loads.endswith("20 requests at once, 13,342 tokens/s, 11.10x.")
    said = "At these loads a million output tokens costs 1.43 USD there, at 6.20 USD an hour as stated, and 0.087 USD"
    assert prices == f"{said} after."
    results.verify.recommended = False
    assert against_endpoint.sentences(results, None) == []
    assert "2.35x the baseline runner's 81.0 ms here" in endpoint.words(results)
