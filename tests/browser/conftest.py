"""A whole workbench with real workers, and a real Chromium in front of it; both serve every test of this folder."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.screenshots import seeded
from tests.browser.serving import CHROMIUM, Site, serving

PASSWORD = "correct horse battery"
"""Of the gallery's people."""
PATIENCE_MS = 120_000
"""Of a click, a page or an expectation, on a machine that does other things as well."""
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site that the tests share."""
    with serving(tmp_path_factory.mktemp("workbench")) as served:
        yield served


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=CHROMIUM)
        made = launched.new_context

        def patient(**options: Any) -> BrowserContext:
            context = made(**options)
            context.set_default_timeout(PATIENCE_MS)
            return context

        launched.new_context = patient  # type: ignore[method-assign]
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def session(chromium: Browser, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cookies of a login, made once."""
    kept = tmp_path_factory.mktemp("session") / "state.json"
    context = chromium.new_context(base_url=site.url)
    log_in(context.new_page(), site)
    context.storage_state(path=kept)
    context.close()
    return kept


def enter(page: Page, site: Site) -> None:
    """Send the form of the login, as people do."""
    page.goto("/login/")
    page.get_by_label("Email").fill(site.email)
    page.get_by_label("Password").fill(site.password)
    page.get_by_role("button", name="Log in", exact=True).click()


def log_in(page: Page, site: Site) -> None:
    """By the form, with the password alone."""
    enter(page, site)
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def complaints_of(page: Page, complaints: list[str]) -> Page:
    """The page, of which the console's errors and warnings go to the list."""
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page


@pytest.fixture(scope="package")
def gallery(site: Site) -> dict[str, Any]:
    """The pages of `tests.browser.gallery` on the running site, with a worker of the class h200 that takes no run."""
    return seeded(site.environment)


def address_of(gallery: dict[str, Any], name: str) -> str:
    """The address of the gallery's page of this name."""
    return next(address for known, _, address in gallery["pages"] if known == name)


@pytest.fixture
def open_page(chromium: Browser, site: Site, session: Path) -> Iterator[Callable[..., Page]]:
    """`open_page(width=390, color_scheme="dark")`: logged in, or with this session's `cookie`; what the console
    complains of fails the test.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def opened(width: int = 1280, cookie: str = "", **kwargs: object) -> Page:
        size = {"width": width, "height": 844}
        contexts.append(chromium.new_context(base_url=site.url, storage_state=session, viewport=size, **kwargs))
        if cookie:
            contexts[-1].add_cookies([{"name": "sessionid", "value": cookie, "url": site.url}])
        return complaints_of(contexts[-1].new_page(), complaints)

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
