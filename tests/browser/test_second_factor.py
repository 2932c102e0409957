"""An authenticator app and a passkey, set up and used in a real browser with a virtual security key."""

import re
import time
from dataclasses import replace

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from playwright.sync_api import Page, expect

from tests.browser.conftest import PASSWORD, Site, complaints_of, enter, log_in

pytestmark = [pytest.mark.browser, pytest.mark.slow]
KEY = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
NAMELESS = """() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a[href]')]
  .filter((e) => !(e.labels?.length || e.getAttribute('aria-label') || e.title || e.textContent.trim()))
  .map((e) => e.outerHTML)"""


@pytest.fixture
def person(site, gallery):
    """A person of their own, at a host name: browsers refuse passkeys for a bare address."""
    url = site.url.replace("127.0.0.1", "localhost")
    return replace(site, url=url, email="factor@gallery.test", password=PASSWORD)


@pytest.fixture
def page(chromium, person):
    context = chromium.new_context(base_url=person.url, viewport={"width": 390, "height": 844})
    complaints: list[str] = []
    yield complaints_of(context.new_page(), complaints)
    context.close()
    assert complaints == []


def _virtual_key(page: Page) -> None:
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": KEY})


def _check(page: Page, heading: str) -> None:
    """The page under this heading names its controls and fits a phone."""
    expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    page.wait_for_load_state()
    assert page.evaluate(NAMELESS) == []
    wide, seen = page.locator("html").evaluate("(root) => [root.scrollWidth, root.clientWidth]")
    assert wide <= seen


def _confirm(page: Page, person: Site) -> None:
    _check(page, "Is it you?")
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Go on").click()


def _code(secret: str, step: int) -> str:
    """The app's code of this half minute, or of one `step` away; at least ten seconds of the half minute are left."""
    while time.time() % 30 > 20:
        time.sleep(0.5)
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + step))


def _log_out(page: Page) -> None:
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Email")).to_be_visible()
    page.wait_for_load_state()


def test_an_app_and_a_passkey(page, person, site):
    page.goto(f"{site.url}/login/")
    page.get_by_role("button", name="Log in with a passkey").click()
    expect(page.get_by_role("alert")).to_contain_text("Passkeys need HTTPS and a host name")
    log_in(page, person)
    _virtual_key(page)
    page.goto("/security/")
    _check(page, "Your login")
    page.get_by_role("link", name="Set up an app").click()
    _confirm(page, person)
    _check(page, "Set up an authenticator app")
    secret = re.fullmatch("[A-Z2-7]{32}", page.locator("main code").inner_text())[0]
    assert page.get_by_alt_text("QR code").evaluate("image => image.complete && image.naturalWidth > 0")
    page.get_by_label("Code").fill(_code(secret, -1))
    page.get_by_role("button", name="Set it up").click()
    expect(page.locator(".codes code")).to_have_count(10)
    _check(page, "Recovery codes")

    page.get_by_role("link", name="Done").click()
    page.get_by_role("link", name="Add a passkey").click()
    _check(page, "Add a passkey")
    page.get_by_label("Name").fill("Virtual key")
    page.get_by_label("Log in with it alone").check()
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("cell", name="by itself")).to_be_visible()
    _check(page, "Your login")

    _log_out(page)
    page.get_by_role("button", name="Log in with a passkey").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()

    for answer in (None, lambda: _code(secret, 0)):
        _log_out(page)
        enter(page, person)
        _check(page, "Second factor")
        if answer:
            page.get_by_label("Code").fill(answer())
        page.get_by_role("button", name="Log in" if answer else "Use a passkey", exact=True).click()
        expect(page.get_by_role("button", name="Log out")).to_be_visible()
