"""The pages of runs, reports and prices: what they show, to whom, and in which state."""

import re

import pytest
import sample_no_change
import sample_runs
from django.db import connection
from django.test.utils import CaptureQueriesContext

from workbench.reports import services


def test_every_entry_of_the_contents_leads_to_a_section(browser, organisation, engineer, done):
    unfinished = sample_runs.run(organisation, engineer, "failed", "compose")
    for run in (done, unfinished):
        page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
        contents = page[page.index('<nav class="toc') : page.index("</nav>", page.index('<nav class="toc'))]
        links = re.findall(r'href="#([a-z-]+)"', contents)
        assert links
        assert all(page.count(f'id="{link}"') == 1 for link in links), links
        assert page.count('<details class="question">') >= len(links) - 1, "what is below is folded"


def test_result_says_the_verdict_first_and_labels_its_numbers_with_their_spread_and_origin(browser, engineer, done):
    done.workload.document["constraints"]["exclude"] = ["skinny", "megakernel"]
    done.workload.save()
    page = browser(engineer).get(f"/runs/{done.id}/result/").content.decode()
    assert page.index('data-verdict="met"') < page.index('id="objectives"') < page.index('id="economics"')
    for part in (
        ">compiled, CUDA graphs</a></strong>: Static cache, Inductor",
        'href="/kernels/#compiled"',
        "3.46x faster than the next",
        'TTF64 p50 is <span class="nowrap">81.0 ms</span> against a limit',
        "Test device; 1,980 MHz",
        "fp8 is not among the allowed precisions.",
        "<dt>Not to be used</dt><dd>skinny, megakernel</dd>",
        "ceilings</a>, settled: 4.00 TB/s read",
        "4.10 TB/s read",
        *("basis-measured", "basis-modelled", "basis-stated"),
        "interval of the ratio</a> over 3 processes, 2 of them fresh",
        "1, verify's own",
        "smaller differences mean nothing",
        "the baseline in process 2 by +4 %",
        "The stages took 3 min 15 s of the 6 min",
    ):
        assert part in page
    assert page.count(", fresh</th>") == 2
    for section in ("economics", "quality"):
        table = page.split(f'<h3 id="{section}">')[1].split("<tbody>")[1].split("</tbody>")[0]
        numbers = re.findall(r'<td class="number">(.*?)</td>', table, re.DOTALL)
        assert numbers
        assert all("basis-" in cell for cell in numbers if not cell.strip().startswith("–"))
    quality = page.split('<h3 id="quality">')[1].split("</section>")[0]
    for part in ("Next tokens predicted right", "41.02 % to 43.31 %", "22 sequences of 192 tokens"):
        assert part in quality
    drawn = set(re.findall(r'data-figure="([\w-]+)"', page))
    assert drawn == set(re.findall(r'<script id="(figure-[\w-]+)" type="application/json">', page))
    assert len(drawn) == 12
    assert not re.search(r"<script(?![^>]*(src=|application/json))", page), "the policy forbids inline scripts"


def test_where_no_change_is_recommended_the_page_claims_none(browser, engineer, done):
    result = sample_no_change.no_change()
    for stage in ("verify", "price"):
        done.stages.filter(stage=stage).update(result=getattr(result, stage).model_dump(mode="json"))
    page = browser(engineer).get(f"/runs/{done.id}/result/").content.decode()
    assert "No change is recommended. “compiled, CUDA graphs”: The median TTF64 is" in page
    assert "The median TTF64 is 1.17x slower" in page
    assert "no change recommended" in page
    assert re.search(r"A profiled request took [\d,.]+ m?s today", page)
    for claim in ("3.46x", "0.858", ">Speedup<", "Tokens per dollar", "tokens per dollar", "Use this plan</a>"):
        assert claim not in page


def test_a_run_that_others_disturbed_is_to_be_run_again_and_not_shared(browser, engineer, done):
    verify = sample_no_change.no_change().verify
    void = [outcome.model_copy(update={"void": True, "verdict": "not_enough_samples"}) for outcome in verify.outcomes]
    verify = verify.model_copy(update={"outcomes": void, "verdict": "not_enough_samples"})
    done.stages.filter(stage="verify").update(result=verify.model_dump(mode="json"))
    page = browser(engineer).get(f"/runs/{done.id}/result/").content.decode()
    following = page.split("What to do next")[1].split("</section>")[0]
    assert f'action="/workloads/{done.workload_id}/run/"' in following
    assert "Share it" not in following
    assert "no change recommended" not in page.lower()
    row = page.split('id="objectives"')[1].split("<tbody>")[1].split("</tbody>")[0]
    assert ("Void: other programs disturbed it" in row, "Not enough samples" in row) == (True, False)


def test_a_price_that_no_load_is_shown_to_have_is_of_no_missed_promise(browser, engineer, done):
    outcome = sample_no_change.no_change()
    unknown = [line.model_copy(update={"usd_per_mtok": None, "holds_sla": None}) for line in outcome.price.lines]
    price = outcome.price.model_copy(update={"lines": unknown})
    verify = outcome.verify.model_copy(update={"quality": None})
    for stage, result in (("verify", verify), ("price", price)):
        done.stages.filter(stage=stage).update(result=result.model_dump(mode="json"))
    page = browser(engineer).get(f"/runs/{done.id}/result/").content.decode()
    assert ("the promise is not shown to hold" in page, "the promise is not kept" in page) == (True, False)
    assert ("What runs today stays." in page, "Quality was not measured." in page) == (True, False)


def test_an_unfinished_run_shows_what_is_known_and_a_failed_one_says_why(browser, engineer, organisation):
    run = sample_runs.run(organisation, engineer, "running", "explore")
    page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    assert "The run has no verdict yet: it is in the explore stage." in page
    assert ('id="figure-time"' in page, 'id="economics"' in page) == (True, False)
    run = sample_runs.run(organisation, engineer, "failed", "admit")
    page = browser(engineer).get(f"/runs/{run.id}/").content.decode()
    assert "Refused in the admit stage." in page
    assert "num_attention_heads is 7" in page


def test_live_page_polls_only_while_the_run_is_open_and_reads_results_once(browser, engineer, organisation, done):
    running = sample_runs.run(organisation, engineer, "running", "explore")
    client = browser(engineer)
    page = client.get(f"/runs/{running.id}/").content.decode()
    assert all(words in page for words in ("hx-trigger", "measuring request 12 of 30", "Cancel the run"))
    fresh = sample_runs.run(organisation, engineer, "running", "explore")
    read = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            fragment = client.get(f"/runs/{fresh.id}/", headers={"HX-Request": "true"}).content.decode()
        read.append(sum('"runs_stagerun"."result"' in query["sql"] for query in queries))
        assert fragment.lstrip().startswith('<div id="live"')
        assert all(words in fragment for words in ("<dt>Model</dt>", "Everything known so far"))
    assert read == [1, 0]
    ended = client.get(f"/runs/{done.id}/", headers={"HX-Request": "true"}).content.decode()
    assert 'id="run-actions" hx-swap-oob="true"' in ended
    over = client.get(f"/runs/{done.id}/").content.decode()
    assert ("hx-trigger" in over, "Cancel the run" in over) == (False, False)


def test_only_submitters_cancel(browser, engineer, account, organisation):
    run = sample_runs.run(organisation, engineer, "running", "explore")
    assert browser(account).post(f"/runs/{run.id}/cancel/").status_code == 403
    assert b"Cancel the run" not in browser(account).get(f"/runs/{run.id}/").content
    assert browser(engineer).post(f"/runs/{run.id}/cancel/").status_code == 302
    run.refresh_from_db()
    assert run.cancel_requested
    page = browser(engineer).get(f"/runs/{run.id}/").content.decode()
    assert ("Cancelling: the worker stops" in page, "Cancel the run" in page) == (True, False)


def test_files_of_a_run(browser, engineer, done):
    client = browser(engineer)
    plan = client.get(f"/runs/{done.id}/plan.json")
    assert plan.json()["runner"] == "compiled"
    assert "attachment" in plan["Content-Disposition"]
    page = client.get(f"/runs/{done.id}/report.html")
    assert b"Voice agent, test data" in page.content
    assert "script-src" not in page["Content-Security-Policy"]
    assert "default-src 'none'" in page["Content-Security-Policy"]
    kept = done.artifacts.get(name="plan.json")
    done.artifacts.update(media_type="text/html\r\nSet-Cookie: x=1")  # a worker may say so
    file = client.get(f"/runs/{done.id}/artifacts/{kept.sha256}/")
    assert b"".join(file.streaming_content) == b"{}\n"
    assert file["Content-Type"] == "application/octet-stream"
    assert client.get(f"/runs/{done.id}/artifacts/{'0' * 64}/").status_code == 404


def test_a_run_without_plan_or_report_is_not_found(browser, engineer, organisation):
    run = sample_runs.run(organisation, engineer, "running", "baseline")
    for name in ("plan.json", "report.html"):
        answer = browser(engineer).get(f"/runs/{run.id}/{name}")
        assert answer.status_code == 404
        assert f"has no {name.split('.')[0]} yet: it is in the baseline stage" in answer.content.decode()


@pytest.mark.parametrize(
    ("state", "why"), [("failed", "it failed in"), ("cancelled", "it was cancelled in"), ("lost", "it was lost in")]
)
def test_a_run_that_is_over_says_that_it_has_no_plan_and_why(browser, api, engineer, organisation, state, why):
    run = sample_runs.run(organisation, engineer, state, "baseline", error={"sentence": "The card fell out."})
    reason = run.error["sentence"]
    detail = api(engineer).get(f"/api/v1/runs/{run.id}/plan").json()["detail"]
    assert detail == f"The run ended without a verified plan: {why} the baseline stage. {reason}"
    for address, words in (
        ("plan.json", f"The run ended without a plan: {why} the baseline stage. {reason}"),
        ("", "Not run"),
        ("fleet/", f"The run ended without a price: {why}"),
        ("result/", f"The run ended without a verdict: {why}"),
    ):
        assert words in browser(engineer).get(f"/runs/{run.id}/{address}").content.decode()
    row = browser(engineer).get(f"/runs/{run.id}/").content.decode().partition('data-stage="baseline"')[2]
    assert f"badge-{state}" in row.partition("</li>")[0], "the stage ended as its run did"


def test_a_plan_that_was_not_verified_is_offered_as_such(browser, engineer, organisation, done):
    lost = sample_runs.run(organisation, engineer, "lost", "verify")
    for run, words in ((lost, "plan.json, not verified</a>"), (done, "plan.json</a>")):
        assert words in browser(engineer).get(f"/runs/{run.id}/result/").content.decode()


def test_a_result_that_no_longer_validates_leaves_the_others_readable(browser, api, engineer, done):
    stage = done.stages.get(stage="explore")
    stage.result["candidates"][0]["colour"] = "red"
    stage.save()
    text = "This version cannot read the stored result: explore.candidates[0].colour: is not a known field"
    page = browser(engineer).get(f"/runs/{done.id}/result/").content.decode()
    assert f"{text}. What was measured stays below." in page
    assert 'TTF64 p50 is <span class="nowrap">81.0 ms</span> against a limit' in page
    assert browser(engineer).get(f"/runs/{done.id}/").status_code == 200
    answer = api(engineer).get(f"/api/v1/runs/{done.id}/result")
    assert (answer.status_code, answer.json()["detail"]) == (409, text)
    with pytest.raises(services.ReportError, match="cannot read the stored result"):
        services.freeze(done, engineer)


def test_a_finished_result_is_rendered_once_and_stays_its_organisations(browser, engineer, foreigner, done):
    client, address = browser(engineer), f"/runs/{done.id}/result/"
    first, second = (re.sub('value="[^"]*"|hx-headers=.*', "", client.get(address).content.decode()) for _ in range(2))
    assert first == second
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    read = [query["sql"] for query in queries if '"result"' in query["sql"]]
    assert all("predicted" in sql or "minutes_wanted" in sql for sql in read), "more of the results is read again"
    assert browser(foreigner).get(address).status_code == 404
    done.delete()
    assert client.get(address).status_code == 404


def test_friendly_errors(browser, engineer):
    client = browser(engineer)
    missing = client.get("/nothing/")
    assert (missing.status_code, b"There is nothing here" in missing.content) == (404, True)
    gone = client.get("/runs/00000000-0000-4000-8000-000000000000/")
    assert b"No such run in this organisation" in gone.content
    forbidden = client.post("/prices/", {"name": "N"})
    assert b"Only the account role or an admin of the organisation may change prices." in forbidden.content
