"""Reports from draft to published."""

import pytest
import sample_runs

from workbench.audit.models import Action, Entry
from workbench.reports import services
from workbench.reports.models import Report
from workbench.reports.schemas import MAX_NOTE_LENGTH


def test_a_report_is_frozen_reviewed_and_published(browser, engineer, account, done):
    assert browser(engineer).post(f"/runs/{done.id}/freeze/").status_code == 302
    report = Report.objects.get()
    address = f"/reports/{report.id}/"
    assert b"Mark as reviewed" not in browser(engineer).get(address).content
    assert browser(engineer).post(f"{address}review/", {"note": ""}).status_code == 403
    report.refresh_from_db()
    assert report.state == "draft"
    client = browser(account)
    assert b"Mark as reviewed" in client.get(address).content
    client.post(f"{address}review/", {"note": "A first word."})
    assert b"Back to draft" in client.get(address).content
    client.post(f"{address}reopen/")
    client.post(f"{address}review/", {"note": "Safe <b>to</b> promise."})
    done.stages.filter(stage="verify").update(result=None, state="pending")
    page = client.get(address).content.decode()
    assert 'TTF64 p50 is <span class="nowrap">81.0 ms</span> against a limit' in page, "it keeps what was frozen"
    assert ("Safe &lt;b&gt;to&lt;/b&gt; promise." in page, "A first word." in page) == (True, False)
    assert page.index('id="verdict"') < page.index('id="comments"')
    client.post(f"{address}publish/")
    report.refresh_from_db()
    assert (report.state, report.published_by) == ("published", account)
    assert b"Publish" not in client.get(address).content.replace(b"Published", b"")


def test_transitions_are_compare_and_swap(report, account):
    stale = Report.objects.get(id=report.id)
    services.review(report, account, "first")
    with pytest.raises(services.ReportError, match="is reviewed, not draft"):
        services.review(stale, account, "second")
    assert Report.objects.get().note == "first"
    services.publish(report, account)
    with pytest.raises(services.ReportError, match="is published, not reviewed"):
        services.reopen(stale, account)


@pytest.mark.parametrize(("publish", "remedy"), [(False, "choose Back to draft"), (True, "does not change")])
def test_a_note_that_somebody_else_was_faster_than_is_shown_and_not_lost(browser, account, report, publish, remedy):
    services.review(report, account, "First.")
    if publish:
        services.publish(report, account)
    answer = browser(account).post(f"/reports/{report.id}/review/", {"note": "Second, <long>."})
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "not draft; somebody else may have changed it." in page
    assert "Your note was not taken" in page
    assert ("Second, &lt;long&gt;." in page, remedy in page) == (True, True)
    report.refresh_from_db()
    assert report.note == "First."


def test_where_four_eyes_are_asked_for_who_freezes_does_not_publish(browser, admin, account, done, organisation):
    client = browser(admin)
    assert client.post("/members/four-eyes/", {"four_eyes": "on"}).status_code == 302
    client.post(f"/runs/{done.id}/freeze/")
    report = Report.objects.get()
    client.post(f"/reports/{report.id}/review/", {"note": ""})
    page = client.post(f"/reports/{report.id}/publish/", follow=True).content.decode()
    assert "somebody else publishes it" in page
    assert Report.objects.get().state == "reviewed"
    browser(account).post(f"/reports/{report.id}/publish/")
    assert Report.objects.get().state == "published"
    assert Entry.objects.filter(action=Action.FOUR_EYES_CHANGED).count() == 1
    assert browser(account).post("/members/four-eyes/").status_code == 403


def test_the_api_freezes_reviews_and_publishes(api, engineer, account, organisation, done):
    def post(client, path, **body):
        return client.post(f"/api/v1/reports{path}", body)

    response = post(api(engineer), "", run=str(done.id))
    assert response.status_code == 201
    report = response.json()
    assert (report["state"], report["verdict"], report["run"]) == ("draft", "met", str(done.id))
    client, address = api(account), f"/{report['id']}"
    assert post(client, f"{address}/publish").status_code == 409
    long = post(client, f"{address}/review", note="x" * (MAX_NOTE_LENGTH + 1))
    assert long.status_code == 422, "the page would not show it in its form again"
    wide = post(client, f"{address}/review", note=f"{'|a' * 300}\n{'|-' * 300}\n" + "|\n" * 1000)
    assert (wide.status_code, "tables may have 2,000 cells" in wide.json()["detail"]) == (409, True)
    assert post(client, f"{address}/review", note="ok").json()["note"] == "ok"
    assert post(client, f"{address}/publish").json()["state"] == "published"
    assert [row["id"] for row in client.get("/api/v1/reports").json()["items"]] == [report["id"]]
    snapshot = client.get(f"/api/v1/reports{address}").json()["snapshot"]
    assert snapshot["results"]["verify"]["verdict"] == "met"
    unfinished = post(api(engineer), "", run=str(sample_runs.run(organisation, engineer, "running", "verify").id))
    assert (unfinished.status_code, unfinished["Content-Type"]) == (409, "application/problem+json")
    assert "Only a finished run" in unfinished.json()["detail"]
