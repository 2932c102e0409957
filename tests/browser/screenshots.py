"""Screenshots of a site that it starts: `make screenshots`.

`python -m tests.browser.screenshots` writes those of the README. `--tour FOLDER` writes every page of
`tests.browser.gallery` instead, wide in the light and on a phone in the dark, to be looked at.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.serving import CHROMIUM
from tests.programs import ROOT, python
from workbench.embedded import Workbench

OF_README = {"example": "screenshot.png", "report-of-run": "report-h200.png"}
"""Pages of the gallery, both of the committed run on an H200, and their files in docs/."""
README_SIZE = {"width": 1280, "height": 1600}
VIEWS: list[tuple[str, int, str]] = [("wide", 1280, "light"), ("phone", 390, "dark")]
OPEN = """(most) => [...document.querySelectorAll("details.question")].slice(0, most)
  .forEach((question) => { question.open = true; })"""
CHARTS = "section.card > figure > [data-figure]:visible"


def seeded(environment: dict[str, str]) -> dict[str, Any]:
    """Fill the site of these settings; what `tests.browser.gallery` prints."""
    made: dict[str, Any] = json.loads(python("-m", "tests.browser.gallery", env=environment))
    return made


def open_page(chromium: Browser, url: str, cookie: str, width: int, scheme: Any) -> Page:
    """A page of who has this session; "" is nobody's. A report file forbids scripts, also those that scroll."""
    height = README_SIZE["height"] if width == README_SIZE["width"] else 844
    size: Any = {"width": width, "height": height}
    context = chromium.new_context(base_url=url, viewport=size, color_scheme=scheme, bypass_csp=True)
    if cookie:
        context.add_cookies([{"name": "sessionid", "value": cookie, "url": url}])
    return context.new_page()


def shoot(page: Page, address: str, file: Path, whole: bool) -> None:
    """Open the address and write what is seen, the whole page or the window."""
    page.goto(address)
    page.evaluate(OPEN, 99 if whole else 1)
    for area in page.locator(CHARTS).all():  # each is drawn when it comes into view
        area.scroll_into_view_if_needed()
        area.locator("svg.main-svg").first.wait_for()
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=file, full_page=whole, animations="disabled")
    print(file)


def for_readme(chromium: Browser, url: str, made: dict[str, Any]) -> None:
    """The two images of README.md."""
    page = open_page(chromium, url, made["sessions"]["admin"], README_SIZE["width"], "light")
    for name, _, address in made["pages"]:
        if name in OF_README:
            shoot(page, address, ROOT / "docs" / OF_README[name], whole=False)


def tour(chromium: Browser, url: str, made: dict[str, Any], folder: Path) -> None:
    """Every page in every state."""
    folder.mkdir(parents=True, exist_ok=True)
    for view, width, scheme in VIEWS:
        pages = {
            person: open_page(chromium, url, made["sessions"].get(person, ""), width, scheme)
            for person in {item[1] for item in made["pages"]}
        }
        for name, person, address in made["pages"]:
            shoot(pages[person], address, folder / f"{name}-{view}.png", whole=True)


def main() -> None:
    """Start a site on empty data, fill it, take the pictures, stop it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tour", type=Path, metavar="FOLDER", help="every page in every state, into this folder")
    chosen = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with (
        tempfile.TemporaryDirectory(prefix="workbench-screenshots-") as data,
        Workbench(data=Path(data), port=0, devices=[]) as workbench,
        sync_playwright() as playwright,
    ):
        seeds = seeded(workbench.env)
        chromium = playwright.chromium.launch(executable_path=program, args=CHROMIUM)
        if chosen.tour:
            tour(chromium, workbench.url, seeds, chosen.tour)
        else:
            for_readme(chromium, workbench.url, seeds)
        chromium.close()


if __name__ == "__main__":
    main()
