"""What a team has in common: activity, the command palette, and its first steps."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from tests import sample_runs
from workbench.comments import services as comments
from workbench.home import activity
from workbench.reports import services as reports
from workbench.runs.models import Run


def test_members_read_what_was_done_newest_first_and_nothing_of_tokens(browser, engineer, account, foreigner, done):
    report = reports.freeze(done, engineer)
    comments.add(report, account, "Safe?")
    browser(account).post("/tokens/", {"name": "secret-token", "scope": "read"})
    page = browser(engineer).get("/activity/")
    said = [(row.who, row.what, row.address) for row in page.context["rows"]]
    assert said[0] == ("Account", "commented", f"/reports/{report.id}/")
    assert said[1] == ("Engineer", "froze a report", f"/reports/{report.id}/")
    assert ("Engineer", "started a run of", f"/runs/{done.id}/") in said
    assert ("", "A run ended:", f"/runs/{done.id}/") in said
    assert "secret-token" not in page.content.decode()
    assert not browser(foreigner).get("/activity/").context["rows"]


def test_older_activity_goes_on_where_the_page_ended(browser, engineer, done, monkeypatch):
    monkeypatch.setattr(activity, "MOST_SHOWN", 2)
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


@pytest.mark.parametrize("words", ["Voice agent", "{id}", "llama"])
def test_the_palette_finds_things_of_the_organisation_alone(browser, engineer, foreigner, done, words):
    reports.freeze(done, engineer)
    asked = {"q": words.format(id=str(done.id)[:6].upper())}
    found = browser(engineer).get(reverse("palette"), asked).json()["matches"]
    kinds = {"Voice agent": {"workload", "report"}, "llama": {"model", "report"}}.get(words, {"run"})
    assert {each["kind"] for each in found} == kinds
    assert all(browser(engineer).get(each["address"]).status_code == 200 for each in found)
    assert browser(foreigner).get(reverse("palette"), asked).json()["matches"] == []


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
