"""A site for the browser, with its own processes and data."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.migrated import copy_database
from workbench.embedded import Workbench
from workbench.embedded.devices import Device

DISTURBING = (
    "AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,"
    "LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,OptimizationHints,NetworkTimeServiceQuerying,"
    "AimEnabled,PreconnectToSearch"
)
"""Features of Chromium that Playwright leaves out; this list takes the place of its own."""
WINDOWS_OWN = (
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess,PreloadTopChromeWebUI,InitialWebUI,"
    "WebUIReloadButton"
)
"""Processes and pages that each window starts beside its own: 0.7 CPU seconds."""
CHROMIUM = ("--no-sandbox", f"--disable-features={DISTURBING},{WINDOWS_OWN}")
"""Its arguments."""


@dataclass(frozen=True)
class Site:
    """A running workbench with the login of its admin."""

    url: str
    email: str
    password: str
    manage: Callable[..., str]
    """`manage("create_login", …)`: runs `manage.py` on the site's data and returns what it prints."""
    environment: dict[str, str] = field(repr=False)
    """Of a process that works on the site's data."""


@contextmanager
def serving(data: Path) -> Iterator[Site]:
    """Redis, web and one CPU worker, as `workbench up` starts them, with their data in this folder."""
    copy_database(data)
    with Workbench(data=data, port=0, devices=[Device("cpu")], login=("--json",)) as workbench:
        login = json.loads(workbench.login)
        yield Site(workbench.url, login["email"], login["password"], workbench.manage, workbench.env)
