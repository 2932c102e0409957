"""The portfolio: what each role sees first, filters, several customers, the archive and the newest run."""

import re

import pytest
from django.urls import reverse
from django.utils import timezone

from tests import sample_runs
from workbench.accounts.models import Membership
from workbench.intake.models import Model, Workload
from workbench.reports.services import freeze
from workbench.runs import deletion
from workbench.runs.models import Run
from workbench.runs.services import create_run

pytestmark = pytest.mark.django_db
PORTFOLIO = "/workloads/"


def _names(response) -> list[str]:
    return [workload.name for workload, *_ in response.context["rows"]]


def test_a_newcomer_reaches_a_result_from_an_h200_by_two_clicks(browser, organisation, engineer):
    client = browser(engineer)
    first = client.get("/", follow=True)
    assert reverse("example").encode() in first.content
    start = first.content.decode()
    assert "what you promise your users" in start
    before, after = re.search(r">([\d.,]+) ms →</span> ([\d.,]+) ms", start).groups()
    assert float(before.replace(",", "")) > 10 * float(after), "one figure before and after"
    shown = client.get(reverse("example")).content.decode()
    assert "NVIDIA H200" in shown
    assert "Nothing of it was measured on your machines." in shown


def test_an_account_is_not_offered_what_it_may_not_do(browser, organisation, account):
    page = browser(account).get(PORTFOLIO).content.decode()
    assert reverse("sample") not in page
    assert "Engineers hand in models" in page
    assert browser(account).post(reverse("sample")).status_code == 403


def test_the_sample_starts_by_one_click_and_is_stored_once(browser, organisation, engineer):
    client = browser(engineer)
    for _ in range(2):
        response = client.post(reverse("sample"))
        run = Run.objects.filter(organisation=organisation).first()
        assert response["Location"] == reverse("run", args=[run.id])
        assert run.workload.name == "voice agent sample"
    assert Model.objects.filter(organisation=organisation).count() == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"done", "queued"}),
        ("state=met", {"done"}),
        ("state=open", {"queued"}),
        ("state=missed", set()),
        ("q=DON", {"done"}),
        ("q=nothing-like-it", set()),
        ("gpu=h200&sort=name", {"done", "queued"}),
        ("state=nonsense&sort=nonsense", {"done", "queued"}),
        ("stat=met", {"done", "queued"}),
        ("archived=on&page=1", {"archived"}),
    ],
)
def test_filters(browser, organisation, engineer, query, found):
    for name, state in (("done", "done"), ("queued", "queued"), ("archived", "done")):
        run = sample_runs.run(organisation, engineer, state, "report" if state == "done" else "admit")
        at = timezone.now() if name == "archived" else None
        Workload.objects.filter(pk=run.workload_id).update(name=name, archived_at=at)
    answer = browser(engineer).get(f"{PORTFOLIO}?{query}")
    assert set(_names(answer)) == found
    assert ("is left out." in answer.content.decode()) == ("nonsense" in query or "stat=" in query)


def test_several_customers_in_one_portfolio(browser, make_user, organisation, engineer, foreigner):
    other = foreigner.memberships.get().organisation
    mine, theirs = sample_runs.run(organisation, engineer), sample_runs.run(other, foreigner)
    Membership.objects.create(user=engineer, organisation=other, role="account")
    client = browser(engineer)
    page = client.get(PORTFOLIO)
    assert len(_names(page)) == 2
    assert _names(client.get(f"{PORTFOLIO}?customer={other.pk}")) == [theirs.workload.name]
    address = reverse("workload", args=[theirs.workload_id])
    away = client.get(address)
    assert away.status_code == 404, "the session acts for the first customer"
    assert f"Switch to {other.name} and open it" in away.content.decode()
    assert "Switch to" not in browser(make_user("stranger@x.test")).get(address).content.decode(), (
        "nobody else is told whose it is"
    )
    switched = client.post(reverse("switch-organisation"), {"organisation": other.pk, "next": address}, follow=True)
    assert switched.status_code == 200
    assert client.get(reverse("workload", args=[mine.workload_id])).status_code == 404


def test_a_stranger_sees_none_of_it(browser, organisation, engineer, foreigner):
    sample_runs.run(organisation, engineer)
    page = browser(foreigner).get(PORTFOLIO)
    assert page.context["newcomer"]
    assert page.context["counts"]["all"] == 0


def test_what_runs_and_what_awaits_review(browser, organisation, engineer, account):
    freeze(sample_runs.run(organisation, engineer), engineer)
    sample_runs.run(organisation, engineer, "running", "compose")
    page = browser(account).get(PORTFOLIO)
    assert [each.run.stage for each in page.context["open_runs"]] == ["compose"]
    assert page.context["open_runs"][0].seconds is not None, "a run of this class has ended before"
    assert page.context["review_count"] == 1
    assert page.context["counts"] | {"all": 2, "open": 1, "met": 1} == page.context["counts"]


def test_only_what_was_served_several_at_once_makes_tokens_cheaper(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer)
    stage = run.stages.get(stage="price")
    sample_runs.run(organisation, engineer)
    none = "no run has served several at once on both sides"
    for users, ratio, found, words in (
        (None, 3.5, (0, None), none),
        (1, 3.5, (0, None), none),
        (8, None, (0, None), none),
        (8, 0.5, (0, None), "0 <small>of 1</small>"),
        (8, 4.0, (1, 4.0), "1 <small>of 1</small>"),
    ):
        Run.objects.filter(id=run.id).update(usd_before=ratio and 2 * ratio, usd_after=2)
        stage.result["same_load"] = {"before": {"users": users}}
        stage.save()
        page = browser(engineer).get(PORTFOLIO)
        assert (page.context["cheaper"], page.context["factor"]) == found
        assert words in page.content.decode()


def test_prices_stand_in_the_portfolio_and_sort_it(browser, organisation, engineer):
    client = browser(engineer)
    for name, before, after in (("dear", 9.0, 8.0), ("saving", 30.0, 3.0), ("cheap", 2.0, 1.0), ("none", None, None)):
        run = sample_runs.run(organisation, engineer)
        Run.objects.filter(pk=run.pk).update(usd_before=before, usd_after=after)
        Workload.objects.filter(pk=run.workload_id).update(name=name)
    assert _names(client.get(f"{PORTFOLIO}?sort=price")) == ["cheap", "saving", "dear", "none"]
    page = client.get(f"{PORTFOLIO}?sort=saving")
    assert _names(page) == ["saving", "cheap", "dear", "none"]
    assert "$30.00 → <strong>$3.00</strong>" in page.content.decode()


def test_an_archived_workload_returns(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer)
    client, address = browser(engineer), reverse("workload-archive", args=[run.workload_id])
    client.post(address)
    assert _names(client.get(PORTFOLIO)) == []
    client.post(address)
    assert _names(client.get(PORTFOLIO)) == [run.workload.name]


def test_the_newest_run_is_kept_beside_the_workload(organisation, engineer, admin):
    first = sample_runs.run(organisation, engineer)
    second = create_run(first.workload, engineer)
    assert Workload.objects.get(pk=first.workload_id).newest_run_id == second.id
    Run.objects.filter(pk=second.pk).update(state="done")
    deletion.delete(second, admin.memberships.get(), with_dependents=True)
    assert Workload.objects.get(pk=first.workload_id).newest_run_id == first.id


def test_a_kept_row_shows_what_has_changed_since(browser, organisation, engineer):
    client, run = browser(engineer), sample_runs.run(organisation, engineer)
    first = client.get(PORTFOLIO).content.decode()
    assert client.get(PORTFOLIO).content.decode().count("badge-met") == first.count("badge-met") > 0
    Run.objects.filter(id=run.id).update(verdict="missed")
    Workload.objects.filter(id=run.workload_id).update(name="Another name")
    later = client.get(PORTFOLIO).content.decode()
    assert later.count("badge-met") == 0
    assert "Another name" in later


def test_workloads_are_found_by_project_and_by_the_tags_of_their_runs(browser, organisation, engineer, account):
    runs = [sample_runs.run(organisation, engineer) for _ in range(2)]
    for number, run in enumerate(runs):
        Workload.objects.filter(pk=run.workload_id).update(name=f"w{number}", newest_run=run)
    client = browser(engineer)
    assert "Project" not in client.get(PORTFOLIO).content.decode()
    assert client.post(f"/runs/{runs[0].id}/tags/", {"tags": "nightly, candidate,nightly , "}).status_code == 302
    assert client.post(f"/workloads/{runs[1].workload_id}/project/", {"project": "Voice"}).status_code == 302
    assert _names(client.get(PORTFOLIO, {"tag": "nightly"})) == ["w0"]
    assert _names(client.get(PORTFOLIO, {"project": "Voice"})) == ["w1"]
    page = client.get(PORTFOLIO).content.decode()
    assert page.count('<span class="tag">candidate</span>') == 1
    assert 'value="candidate, nightly"' in client.get(f"/runs/{runs[0].id}/").content.decode()
    client.post(f"/runs/{runs[0].id}/tags/", {"tags": "candidate"})
    assert not organisation.tags.filter(name="nightly").exists(), "a tag goes with its last run"
    refused = client.post(f"/runs/{runs[0].id}/tags/", {"tags": ",".join(map(str, range(11)))}, follow=True)
    assert "A run has at most 10 tags; these are 11." in refused.content.decode()
    assert browser(account).post(f"/runs/{runs[0].id}/tags/", {"tags": "x"}).status_code == 403


def test_a_view_is_saved_for_its_person_and_forgotten(browser, organisation, engineer, admin):
    sample_runs.run(organisation, engineer)
    client = browser(engineer)
    page = client.get(PORTFOLIO, {"state": "met", "sort": "name"})
    query = page.context["view_form"].initial["query"]
    saved = client.post(reverse("view-save"), {"name": "Kept promises", "query": query}, follow=True)
    assert saved.redirect_chain == [(f"{PORTFOLIO}?state=met&sort=name", 302)]
    assert '<a href="?state=met&amp;sort=name">Kept promises</a>' in saved.content.decode()
    client.post(reverse("view-save"), {"name": "Kept promises", "query": "state=missed"})
    view = engineer.saved_views.get()
    assert view.query == "state=missed", "of one name there is one"
    assert browser(admin).post(reverse("view-delete", args=[view.pk])).status_code == 404
    assert "Kept promises" not in browser(admin).get(PORTFOLIO).content.decode()
    client.post(reverse("view-delete", args=[view.pk]))
    assert not engineer.saved_views.exists()
