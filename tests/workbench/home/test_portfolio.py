"""The portfolio: what each role sees first, filters and the archive; activity, the command palette and first steps."""

import re
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from tests import sample_runs
from workbench.accounts.models import Membership
from workbench.comments import services as comments
from workbench.home import activity
from workbench.intake.models import Model, Workload
from workbench.reports import services as reports
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


def test_the_sample_starts_by_one_click_but_not_for_an_account(browser, organisation, engineer, account):
    page = browser(account).get(PORTFOLIO).content.decode()
    assert (reverse("sample") in page, "Engineers hand in models" in page) == (False, True)
    assert browser(account).post(reverse("sample")).status_code == 403
    client = browser(engineer)
    for _ in range(2):
        response = client.post(reverse("sample"))
        run = Run.objects.filter(organisation=organisation).first()
        assert response["Location"] == reverse("run", args=[run.id])
        assert run.workload.name == "voice agent sample"
    assert Model.objects.filter(organisation=organisation).count() == 1


FILTERS = {
    "state=met": {"done"},
    "state=open": {"queued"},
    "state=missed": set(),
    "q=DON": {"done"},
    "q=nothing-like-it": set(),
    "gpu=h200&sort=name": {"done", "queued"},
    "state=nonsense&sort=nonsense": {"done", "queued"},
    "stat=met": {"done", "queued"},
    "archived=on&page=1": {"archived"},
}


def test_filters(browser, organisation, engineer):
    for name, state in (("done", "done"), ("queued", "queued"), ("archived", "done")):
        run = sample_runs.run(organisation, engineer, state, "report" if state == "done" else "admit")
        at = timezone.now() if name == "archived" else None
        Workload.objects.filter(pk=run.workload_id).update(name=name, archived_at=at)
    for query, names in FILTERS.items():
        answer = browser(engineer).get(f"{PORTFOLIO}?{query}")
        assert set(_names(answer)) == names, query
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
    stranger = browser(make_user("stranger@x.test"))
    assert "Switch to" not in stranger.get(address).content.decode(), "nobody else is told whose it is"
    switched = client.post(reverse("switch-organisation"), {"organisation": other.pk, "next": address}, follow=True)
    assert switched.status_code == 200
    assert client.get(reverse("workload", args=[mine.workload_id])).status_code == 404


def test_what_runs_and_awaits_review_and_a_stranger_sees_none(browser, organisation, engineer, account, foreigner):
    freeze(sample_runs.run(organisation, engineer), engineer)
    sample_runs.run(organisation, engineer, "running", "compose")
    page = browser(account).get(PORTFOLIO)
    assert [item.run.stage for item in page.context["open_runs"]] == ["compose"]
    assert page.context["open_runs"][0].seconds is not None, "a run of this class has ended before"
    assert page.context["review_count"] == 1
    assert page.context["counts"] | {"all": 2, "open": 1, "met": 1} == page.context["counts"]
    page = browser(foreigner).get(PORTFOLIO)
    assert (page.context["newcomer"], page.context["counts"]["all"]) == (True, 0)


def test_only_what_was_served_several_at_once_makes_tokens_cheaper(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer)
    stage = run.stages.get(stage="price")
    sample_runs.run(organisation, engineer)
    none = "no run has served several at once on both sides"
    for users, ratio, result, words in (
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
        assert (page.context["cheaper"], page.context["factor"]) == result
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


def test_the_newest_run_is_kept_beside_the_workload(organisation, engineer, admin):
    first = sample_runs.run(organisation, engineer)
    second = create_run(first.workload, engineer)
    assert Workload.objects.get(pk=first.workload_id).newest_run_id == second.id
    Run.objects.filter(pk=second.pk).update(state="done")
    deletion.delete(second, admin.memberships.get(), with_dependents=True)
    assert Workload.objects.get(pk=first.workload_id).newest_run_id == first.id


def test_a_kept_row_shows_what_has_changed_since_and_an_archived_workload_returns(browser, organisation, engineer):
    client, run = browser(engineer), sample_runs.run(organisation, engineer)
    first = client.get(PORTFOLIO).content.decode()
    assert client.get(PORTFOLIO).content.decode().count("badge-met") == first.count("badge-met") > 0
    Run.objects.filter(id=run.id).update(verdict="missed")
    Workload.objects.filter(id=run.workload_id).update(name="Another name")
    later = client.get(PORTFOLIO).content.decode()
    assert (later.count("badge-met"), "Another name" in later) == (0, True)
    for names in ([], ["Another name"]):
        client.post(reverse("workload-archive", args=[run.workload_id]))
        assert _names(client.get(PORTFOLIO)) == names, "what is archived returns"


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


def test_members_read_what_was_done_newest_first_and_nothing_of_tokens(browser, engineer, account, foreigner, done):
    report = reports.freeze(done, engineer)
    comments.add(report, account, "Safe?")
    browser(account).post("/tokens/", {"name": "secret-token", "scope": "read"})
    page = browser(engineer).get("/activity/")
    rows = [(row.who, row.what, row.address) for row in page.context["rows"]]
    assert rows[0] == ("Account", "commented", f"/reports/{report.id}/")
    assert rows[1] == ("Engineer", "froze a report", f"/reports/{report.id}/")
    assert ("Engineer", "started a run of", f"/runs/{done.id}/") in rows
    assert ("", "A run ended:", f"/runs/{done.id}/") in rows
    assert "secret-token" not in page.content.decode()
    assert not browser(foreigner).get("/activity/").context["rows"]


def test_older_activity_goes_on_where_the_page_ended(browser, engineer, done, monkeypatch):
    monkeypatch.setattr(activity, "MAX_SHOWN", 2)
    other = sample_runs.run(done.organisation, engineer)
    Run.objects.filter(pk=other.pk).update(
        created_at=done.created_at - timedelta(days=1), finished_at=done.created_at - timedelta(hours=1)
    )
    client, seen, address = browser(engineer), [], "/activity/"
    for _ in range(2):
        page = client.get(address)
        seen += [row.at for row in page.context["rows"]]
        address = f"/activity/?before={page.context['older'].replace('+', '%2B')}"
    assert len(set(seen)) == 4
    assert seen == sorted(seen, reverse=True)
    for no_moment in ("nonsense", "2026-99-99T00:00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"):
        assert client.get(reverse("activity"), {"before": no_moment}).status_code == 200


def test_the_palette_finds_things_of_the_organisation_alone(browser, engineer, foreigner, done):
    reports.freeze(done, engineer)
    for words, kinds in (
        ("Voice agent", {"workload", "report"}),
        ("llama", {"model", "report"}),
        (str(done.id)[:6].upper(), {"run"}),
    ):
        matches = browser(engineer).get(reverse("palette"), {"q": words}).json()["matches"]
        assert {match["kind"] for match in matches} == kinds
        assert all(browser(engineer).get(match["address"]).status_code == 200 for match in matches)
        assert browser(foreigner).get(reverse("palette"), {"q": words}).json()["matches"] == []


def test_first_steps_remain_until_they_are_done_or_closed(browser, organisation, engineer, account, done):
    steps = browser(engineer).get("/workloads/").context["first_steps"]
    assert [step.done for step in steps] == [True, True, False]
    reports.freeze(done, engineer)
    assert browser(engineer).get("/workloads/").context["first_steps"] == [], "all that an engineer does is done"
    client = browser(account)
    assert [step.words for step in client.get("/workloads/").context["first_steps"]] == ["Review and publish a report"]
    client.post(reverse("first-steps-close"))
    assert "First steps" not in client.get("/workloads/").content.decode()


def test_a_demo_organisation_is_made_by_one_command(client, db, settings, tmp_path, capsys):
    settings.WORKBENCH_DATA = tmp_path
    call_command("seed_demo", runs=12)
    email, password = (line.split()[1] for line in capsys.readouterr().out.splitlines()[:2])
    client.post("/login/", {"username": email, "password": password})
    page = client.get("/workloads/")
    assert page.context["counts"]["all"] == 3
    copy = Run.objects.order_by("-created_at").first()
    shown = client.get(f"/runs/{copy.id}/result/").content.decode()
    assert "NVIDIA H200" in shown
    assert "data-timeline" not in shown, "what is drawn has its file"
    assert client.get(f"/runs/{copy.id}/report.html").status_code == 200
    assert client.get("/reports/").context["page"].paginator.count == 2
    for options, reason in (({"runs": 12}, "an organisation Demo already"), ({"runs": 0}, "a number from 1")):
        with pytest.raises(CommandError, match=reason):
            call_command("seed_demo", **options)
