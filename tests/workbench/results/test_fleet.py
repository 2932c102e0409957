"""What a fleet costs, a sentence for each number that makes no sense, and what was found at a customer's endpoint."""

import re
from html import unescape
from io import StringIO

import pytest
import sample_endpoint
import sample_loads
import sample_results
import sample_runs
from django.urls import reverse
from rich.console import Console

from workbench.cli import tables
from workbench.pages.templatetags.figures import unbroken
from workbench.pages.templatetags.page import term
from workbench.runs import services
from workers.charts import endpoint
from workers.cost import against_endpoint, run_economics
from workers.documents.prices import PriceResult
from workers.report.page import render


def stands_at(run, users, highest):
    """The run's economics as if each side had been measured at so many requests at once; `highest`: by a search."""
    stage, model = run.stages.get(stage="price"), run.workload.model.facts
    stage.result["economics"] = None
    stage.save()
    result = run_economics.of_results(services.reading(run)[0], run.workload.sla, model)
    sides = (side.model_copy(update={"users": users, "highest": highest}) for side in (result.before, result.after))
    result = result.model_copy(update=dict(zip(("before", "after"), sides, strict=True)))
    stage.result["economics"] = result.model_dump(mode="json")
    stage.save()


@pytest.fixture
def ask(browser, engineer, done):
    """`ask(users=5)`: the calculator's part of the page, without HTML, for a run whose highest load is one request."""
    stands_at(done, 1, highest=True)
    client, address = browser(engineer), reverse("run-fleet", args=[done.id])

    def asked(**demand):
        answer = client.get(address, demand, headers={"HX-Request": "true"})
        assert answer.status_code == 200
        return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())

    return asked


def test_users_of_a_server_that_holds_one(ask, done):
    usd = PriceResult.model_validate(done.stages.get(stage="price").result).lines[1].usd_per_hour
    message = ask(users=70, fee="$1,000")
    assert "GPUs needed 100 100" in message  # 70 users, each server filled with 0.7 of one
    assert "Capacity used 70.0 % 70.0 %" in message
    assert "GPUs that wait" not in message
    assert f"A year ${100 * usd * 8760:,.0f} ${100 * usd * 8760:,.0f}" in message
    assert "A fee of $1,000 is never paid back: the plan saves no GPU at this demand." in message
    assert ("Before misses a promise at this load" in message, "After misses" in message) == (True, False)
    assert re.search("measured to serve, before: 1 at once, [0-9.]+ requests a second, on one GPU; after: 1", message)
    assert all(words in message for words in ("More at once was not shown to hold", "Users at once: 70"))


def test_it_says_whether_replicas_are_cheaper_and_nothing_of_a_fleet_for_one_request(browser, engineer, account, done):
    address = reverse("run-fleet", args=[done.id])
    page = browser(engineer).get(address, {"users": 500}).content.decode()
    again = f"{reverse('workload-new')}?from={done.workload_id}"
    assert all(words in page for words in ("This run does not say how many GPUs your users need.", again))
    assert not any(words in page for words in ("GPUs needed", 'name="users"', "two ways"))
    assert "See what your users cost" not in browser(engineer).get(f"/runs/{done.id}/result/").content.decode()
    assert again not in browser(account).get(address).content.decode()
    stands_at(done, 1, highest=True)
    stage, words = done.stages.get(stage="price"), "Predicted for 32 users: two ways; --data-parallel-size 4"
    stage.result["arrangement"] = words
    stage.save()
    assert "two ways; " in browser(engineer).get(address, {"users": 70}).content.decode()
    assert '<span class="nowrap">--data-parallel-size 4</span>' in unbroken(words)


WRONG = [
    ({"fee": "5"}, "Say how many users there are at once, or how many requests per second."),
    ({"users": "0"}, "Users at once are a whole number from 1 to 1,000,000,000."),
    ({"users": "2.5"}, "Users at once are a whole number from 1 to 1,000,000,000."),
    ({"requests_per_second": "nan"}, "Requests per second are a number from 0.001 to 1,000,000,000."),
    ({"users": "5", "usd_per_hour": "4 EUR"}, "A price of a GPU-hour is taken in USD; convert “4 EUR” first."),
    ({"users": "5", "usd_per_hour": "-4"}, "“-4” is no amount of money; write a number above 0, such as 4.18."),
    ({"users": "5", "usd_per_hour": "0"}, "A price of a GPU-hour is above 0 and at most 10,000 USD."),
    ({"users": "5", "fee": "much"}, "“much” is no amount of money; write a number above 0, such as 4.18."),
    ({"users": "5", "duty": "0"}, "A duty cycle is a percentage of the paid hours, from 0.1 to 100."),
    ({"users": "5", "hours_per_day": "25"}, "Hours a day are a number from 0.1 to 24."),
    ({"users": "5", "spare": "100"}, "Spare capacity is a percentage of each GPU, from 0 to 90."),
    ({"users": "5", "output_tokens": "0"}, "An answer has a whole number of tokens from 1 to 32,768."),
    ({"users": "5", "prompt_tokens": "9"}, "Other lengths cannot be modelled here"),
]


def test_a_number_that_makes_no_sense_has_one_sentence(ask, browser, engineer, done):
    for demand, sentence in WRONG:
        part = ask(**demand)
        assert (part.count(sentence), "GPUs needed" in part) == (1, False), demand
        page = browser(engineer).get(reverse("run-fleet", args=[done.id]), demand).content.decode()
        assert all(f'value="{value}"' in page for value in demand.values()), "nothing is lost"


def test_the_demand_that_the_workload_states_begins_result_calculator_and_report(browser, engineer, organisation):
    run = sample_runs.run(organisation, engineer, load=True)
    run.workload.document["load"]["demand"] = {"users": 70}
    run.workload.save()
    message = "To carry 70 users at once it takes 5 GPUs after, with"
    client = browser(engineer)
    result = client.get(reverse("run-result", args=[run.id])).content.decode()
    assert 0 < result.index(message) < result.index('id="objectives"')
    page = client.get(reverse("run-fleet", args=[run.id])).content.decode()
    assert message in page
    assert 'name="users" value="70"' in page
    assert f"{reverse('run-result', args=[run.id])}#any-load" in page, "before has no fleet, and a price at each load"
    assert term("GPUs needed, at most", "gpus-needed") in page
    others = client.get(reverse("run-fleet", args=[run.id]), {"users": 300, "fee": "250000"}).content.decode()
    assert 'name="users" value="300"' in others
    for part in ("at one load, promise or not: 4", "A fee of $250,000 is paid back after ", "Before misses a promise"):
        assert part in others
    document = sample_results.stage_input()
    asked = document.workload.model_copy(update={"load": run.workload.sla.load})
    assert message in render(document.model_copy(update={"workload": asked, "results": sample_loads.results()}))


def test_a_run_on_which_no_load_holds_says_that_no_fleet_can_be_calculated(browser, engineer, organisation):
    run = sample_runs.run(organisation, engineer, load=True)
    load, price = run.stages.get(stage="load"), run.stages.get(stage="price")
    for side in ("before", "after"):
        load.result[side]["limit"]["users"] = 0
    price.result["economics"] = None
    load.save()
    price.save()
    client, address = browser(engineer), reverse("run-fleet", args=[run.id])
    assert address in client.get(reverse("run-result", args=[run.id])).content.decode()
    page = client.get(address, {"users": 300}).content.decode()
    assert all(words in page for words in ("nor the plan met the promise at any load.", "Saved in a month"))
    price.result["same_load"] = None
    load.result["before"]["limit"]["loads"] = []
    load.save()
    price.save()
    page = client.get(address)
    assert page.status_code == 200
    assert "No fleet can be calculated: neither side has a load" in page.content.decode()
    result = client.get(reverse("run-result", args=[run.id])).content.decode()
    followed = re.findall(r'/result/#([a-z-]+)"', page.content.decode())
    assert followed == ["load", "any-load"]
    assert all(f'id="{item}"' in result for item in followed)


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
    results = sample_endpoint.measured(sample_results.results())
    run, client = beside(results), browser(engineer)
    page = client.get(f"/runs/{run.pk}/result/").content.decode()
    words = text(page)
    for part in (
        "TTF64 p50 at your endpoint190 ms",
        "The median TTF64 there is 190 ms, 2.35x the plan's 81.0 ms here (2.21 to 2.53 by the ends of both",
        "Its hardware 2 A100 of the test stated",
        "21 requests in 9.00 s, 1 failed; median TTF64 192 ms, 182 to 205",
        "TPOT p95 3.12 ms",
        "is the verdict From your endpoint to after. The SLA is missed at the endpoint and met after. The median",
        "The run's verdict is that of the plan.",
        *results.server.caveats,
    ):
        assert part in words
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
    limit = results.load.endpoint.limit
    limit.users, limit.loads[2].verdict = 4, "met"
    *_, loads, prices = against_endpoint.sentences(results, sample_results.workload())
    assert loads.startswith("The endpoint holds every objective up to 4 requests at once, 1,202 tokens/s; after, ")
    assert loads.endswith("20 requests at once, 13,342 tokens/s, 11.10x.")
    sentence = (
        "At these loads a million output tokens costs 1.43 USD there, at 6.20 USD an hour as stated, and 0.087 USD"
    )
    assert prices == f"{sentence} after."
    results.verify.recommended = False
    assert against_endpoint.sentences(results, None) == []
    assert "2.35x the baseline runner's 81.0 ms here" in endpoint.words(results)
