"""Reports from draft to published."""

import pytest
import sample_runs

from workbench.audit.models import Action, Entry
from workbench.reports import services
from workbench.reports.models import Report


def test_a_report_is_frozen_reviewed_and_published(browser, engineer, account, done):
    assert browser(engineer).post(f"/runs/{done.id}/freeze/").status_code == 302
    report = Report.objects.get()
    client = browser(account)
    assert b"Mark as reviewed" in client.get(f"/reports/{report.id}/").content
    client.post(f"/reports/{report.id}/review/", {"note": "Safe <b>to</b> promise."})
    page = client.get(f"/reports/{report.id}/").content.decode()
    assert "Safe &lt;b&gt;to&lt;/b&gt; promise." in page
    assert page.index('id="verdict"') < page.index('id="comments"')
    client.post(f"/reports/{report.id}/publish/")
    report.refresh_from_db()
    assert (report.state, report.published_by) == ("published", account)
    assert b"Publish" not in client.get(f"/reports/{report.id}/").content.replace(b"Published", b"")


def test_an_engineer_does_not_review(browser, engineer, report):
    client = browser(engineer)
    assert b"Mark as reviewed" not in client.get(f"/reports/{report.id}/").content
    assert client.post(f"/reports/{report.id}/review/", {"note": ""}).status_code == 403
    report.refresh_from_db()
    assert report.state == "draft"


def test_a_report_keeps_what_was_frozen(browser, engineer, report, done):
    done.stages.filter(stage="verify").update(result=None, state="pending")
    page = browser(engineer).get(f"/reports/{report.id}/").content.decode()
    assert 'TTF64 p50 is <span class="nowrap">81.0 ms</span> against a limit' in page


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


def test_only_a_finished_run_is_frozen(organisation, engineer):
    run = sample_runs.run(organisation, engineer, "running", "explore")
    with pytest.raises(services.ReportError, match="Only a finished run"):
        services.freeze(run, engineer)


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
