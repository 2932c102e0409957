"""An authenticator app and a passkey, set up and used in a real browser with a virtual security key."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, log_in
from tests.browser.test_every_page import NAMELESS

pytestmark = [pytest.mark.browser, pytest.mark.slow]
KEY = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def person(site: Site) -> Site:
    """A person of their own, at a host name: browsers refuse passkeys for a bare address."""
    login = json.loads(site.manage("create_login", "--json", "--email", "second@factor.test"))
    return replace(site, url=site.url.replace("127.0.0.1", "localhost"), email=login["email"])


@pytest.fixture
def page(chromium, person) -> Iterator[Page]:
    context = chromium.new_context(base_url=person.url, viewport={"width": 390, "height": 844})
    complaints: list[str] = []
    opened = context.new_page()
    opened.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert complaints == []


def _virtual_key(page: Page) -> None:
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": KEY})


def _check(page: Page) -> None:
    assert page.evaluate(NAMELESS) == []
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= seen


def _confirm(page: Page, person: Site) -> None:
    _check(page)
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Go on").click()


def _code(secret: str, step: int) -> str:
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + step))


def _enter(page: Page, person: Site) -> None:
    page.goto("/login/")
    page.get_by_label("Email").fill(person.email)
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Log in", exact=True).click()


def test_an_app_a_passkey_and_a_recovery_code(page, person):
    log_in(page, person)
    _virtual_key(page)
    page.goto("/security/")
    _check(page)
    page.get_by_role("link", name="Set up an app").click()
    _confirm(page, person)
    _check(page)
    secret = re.fullmatch("[A-Z2-7]{32}", page.locator("main code").inner_text())[0]
    assert page.get_by_alt_text("QR code").evaluate("image => image.complete && image.naturalWidth > 0")
    page.get_by_label("Code").fill(_code(secret, -1))
    page.get_by_role("button", name="Set it up").click()
    codes = page.locator(".codes code").all_inner_texts()
    assert len(codes) == 10
    _check(page)

    page.get_by_role("link", name="Done").click()
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_label("Name").fill("Virtual key")
    page.get_by_label("Log in with it alone").check()
    _check(page)
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("cell", name="by itself")).to_be_visible()
    _check(page)

    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in with a passkey").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()

    page.get_by_role("button", name="Log out").click()
    _enter(page, person)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()

    for answer in (_code(secret, 0), codes[0]):
        page.get_by_role("button", name="Log out").click()
        _enter(page, person)
        _check(page)
        page.get_by_label("Code").fill(answer)
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_role("button", name="Log out")).to_be_visible()


def test_a_bare_address_is_said_to_take_no_passkeys(page, site):
    page.goto(f"{site.url}/login/")
    page.get_by_role("button", name="Log in with a passkey").click()
    expect(page.get_by_role("alert")).to_contain_text("Passkeys need HTTPS and a host name")
