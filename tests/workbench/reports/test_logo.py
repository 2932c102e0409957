"""A customer's logo stands on reports frozen since; of the file that was uploaded nothing but pixels is kept."""

import base64
import io

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from PIL import Image

from workbench.audit.models import Action, Entry
from workbench.reports import logos, services
from workbench.reports.models import Logo


def _picture(kind="PNG", size=(900, 300), **kwargs):
    kept = io.BytesIO()
    Image.new("RGB", size, (200, 30, 40)).save(kept, kind, **kwargs)
    return SimpleUploadedFile("logo", kept.getvalue())


@pytest.mark.parametrize("kind", logos.FORMATS)
def test_a_picture_is_drawn_anew_as_a_small_png(kind):
    uri = logos.draw(_picture(kind, **({"comment": b"<script>alert(1)</script>"} if kind == "JPEG" else {})))
    assert b"<script" not in base64.b64decode(uri.removeprefix(logos.START))
    drawn = Image.open(io.BytesIO(base64.b64decode(uri.removeprefix(logos.START))))
    assert (drawn.format, drawn.size) == ("PNG", (480, 160))
    red, green, blue, _ = drawn.convert("RGBA").getpixel((100, 50))
    assert red > 150 > green + blue


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "is no PNG, JPEG or WebP picture"),
        (b"GIF89a" + bytes(100), "is no PNG, JPEG or WebP picture"),
        (bytes(logos.MAX_BYTES + 1), "a logo may have 524,288"),
        (_picture().read()[:200], "damaged"),
        (_picture(size=(4001, 1)).read(), "4,001 × 1 pixels"),
    ],
)
def test_what_is_no_logo_is_refused_with_a_sentence(browser, organisation, account, content, sentence):
    page = browser(account).post("/reports/logo/", {"picture": SimpleUploadedFile("logo.png", content)})
    assert (page.status_code, sentence in page.content.decode()) == (422, True)
    assert not Logo.objects.exists()


def test_reports_frozen_since_carry_it(browser, account, engineer, done, client):
    before = services.freeze(done, engineer)
    team = browser(account)
    assert browser(engineer).post("/reports/logo/", {"picture": _picture()}).status_code == 403
    assert team.post("/reports/logo/", {"picture": _picture()}).status_code == 302
    uri = Logo.objects.get().image
    assert uri in team.get("/reports/logo/").content.decode()
    report = services.freeze(done, engineer)
    team.post("/reports/logo/remove/")
    assert not Logo.objects.exists()
    team.post(f"/reports/{report.id}/review/", {"note": ""})
    team.post(f"/reports/{report.id}/publish/")
    shared = team.post(f"/reports/{report.id}/share/", {"days": 7}, follow=True).content.decode()
    link = "/shared/" + shared.split("/shared/")[1].split("/")[0] + "/"
    assert f'src="{uri}" alt="Voice"' in client.get(link).content.decode()
    assert "img-src data:" in client.get(link)["Content-Security-Policy"]
    assert 'class="logo"' not in team.get(f"/reports/{before.id}/report.html").content.decode()
    text = Entry.objects.filter(action__startswith="organisation.logo").order_by("id").values_list("action", flat=True)
    assert list(text) == [Action.LOGO_CHANGED, Action.LOGO_REMOVED]
