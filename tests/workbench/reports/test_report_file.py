"""What the customer downloads is the frozen report with everything that the account team added."""

import html
import re

import pytest

from workbench.reports import notes, services

NOTE = (
    "Safe to promise, **for this prompt length**.\n\n- risk: <script>alert(1)</script>\n- [plan](https://voice.test/p)"
)


@pytest.fixture
def published(report, account):
    return services.publish(services.review(report, account, NOTE, "Acme"), account)


def test_the_download_has_customer_note_people_dates_and_prices(browser, engineer, published, done):
    done.stages.filter(stage="verify").update(result=None, state="pending")
    answer = browser(engineer).get(f"/reports/{published.id}/report.html?download")
    page = answer.content.decode()
    assert answer["Content-Disposition"] == 'attachment; filename="voice-agent-test-data-on-llama-32-1b.html"'
    assert "sandbox" in answer["Content-Security-Policy"]
    assert "<strong>for this prompt length</strong>" in page
    assert "<strong>For Acme</strong> · Published on 20" in page
    assert "by Account · reviewed on 20" in page
    assert "Reviewed by Account on 20" in page
    assert f"<h1>{published.title}</h1>" in page
    assert "TTF64 p50 is 81.0 ms against a limit of 100 ms" in page, "the results are the frozen ones"
    assert published.document.prices.source in html.unescape(page)
    assert str(done.id) not in page
    assert not re.search(r"<script|<link(?! rel=\"icon\" href=\"data:,\">)|(src)=\"http|@import|url\(", page)


def test_later_prices_and_names_do_not_change_it(report, organisation, account):
    organisation.name = "Renamed"
    organisation.save()
    assert "For Voice" in services.page(report)
    assert "Draft" in services.page(report)


def test_the_api_gives_the_same_file(api, engineer, published):
    assert api(engineer).get(f"/api/v1/reports/{published.id}/file").content.decode() == services.page(published)


def test_what_a_run_wrote_by_itself_says_that_it_is_a_draft(browser, engineer, done):
    client = browser(engineer)
    page = b"".join(client.get(f"/runs/{done.id}/report.html").streaming_content).decode()
    assert "Draft: nobody has reviewed these results." in page
    assert str(done.id) not in page
    assert "Report to share" not in client.get(f"/runs/{done.id}/result/").content.decode()


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>",
        "![seen](https://track.test/pixel.png)",
        "[go](javascript:alert(1))",
        "<a href='javascript:alert(1)'>go</a>",
        "[go](data:text/html;base64,PHNjcmlwdD4=)",
        "<style>p{display:none}</style>",
    ],
)
def test_a_hostile_note_is_only_text(hostile):
    page = notes.html(hostile)
    assert not re.search(r"<(img|script|style|svg|iframe)|href=\"(?!https?:)|\son\w+=\"", page)
