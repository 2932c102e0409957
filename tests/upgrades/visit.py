"""Upgrades the database that WORKBENCH_DATA or DATABASE_URL names, opens all that can be read in it, and prints it.

The output is a JSON object: an address, and whether it answered: its status, and its content as text. An address with
parameters is opened for every row that they can name.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import URLPattern, URLResolver, get_resolver, reverse  # noqa: E402

from workbench.accounts.models import ApiToken, Invitation, Membership, User  # noqa: E402
from workbench.accounts.tokens import issue  # noqa: E402
from workbench.api_v1 import api  # noqa: E402
from workbench.bring_ups.models import BringUpRow  # noqa: E402
from workbench.comments.models import Comment  # noqa: E402
from workbench.home.models import SavedView  # noqa: E402
from workbench.intake.models import Model, StoredFile, Upload, UploadFile, Workload  # noqa: E402
from workbench.notifications.models import Delivery, Webhook  # noqa: E402
from workbench.reports.models import Report, Share  # noqa: E402
from workbench.runs.models import Run, StoredArtifact  # noqa: E402
from workers.documents.stages import STAGES  # noqa: E402

LEAVES_OUT = ("logout", "invitation", "shared", "unsubscribe", "kernel", "api-docs-part", "mfa_")
"""Beginnings of names: what changes something, what no row names, and what depends on a person's second factor."""


def ids(rows: Any, field: str = "id") -> list[str]:
    """The column as text, each value once."""
    return list({str(value): None for value in rows.objects.values_list(field, flat=True)})


def values() -> dict[str, list[str]]:
    """What each parameter of an address may be."""
    tables = {
        "run": Run, "workload": Workload, "model": Model, "report": Report, "share": Share, "upload": Upload,
        "membership": Membership, "invitation": Invitation, "token": ApiToken, "webhook": Webhook,
        "delivery": Delivery, "bring_up": BringUpRow, "comment": Comment, "view": SavedView,
    }  # fmt: skip
    columns = {"sha256": (StoredArtifact, "sha256"), "name": (StoredArtifact, "name"), "path": (StoredFile, "path")}
    columns["number"] = (UploadFile, "number")
    known = {f"{name}_id": ids(rows) for name, rows in tables.items()}
    known |= {name: ids(*column) for name, column in columns.items()}
    return known | {"stage": list(STAGES), "file": ["report.html", "tables.json"]}


def pages() -> Iterator[str]:
    """Every address of a page."""
    known, queue = values(), [*get_resolver().url_patterns]
    while queue:
        pattern = queue.pop(0)
        if isinstance(pattern, URLResolver):
            queue += pattern.url_patterns if pattern.namespace is None else []
        elif isinstance(pattern, URLPattern) and pattern.name and not pattern.name.startswith(LEAVES_OUT):
            names = list(pattern.pattern.converters)
            for chosen in itertools.product(*(known[name] for name in names)):
                yield reverse(pattern.name, kwargs=dict(zip(names, chosen, strict=True)))


def _queries(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """What the operation is asked in its query."""
    return [item for item in operation.get("parameters", []) if item["in"] == "query"]


def operations() -> Iterator[str]:
    """Every address of the API that can be read, but for those that name a second object in their query."""
    known = values()
    for path, methods in api.get_openapi_schema(path_prefix="/api/v1")["paths"].items():
        if "get" in methods and not any(query.get("required") for query in _queries(methods["get"])):
            names = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
            for chosen in itertools.product(*(known[name] for name in names)):
                yield path.format(**dict(zip(names, chosen, strict=True)))


def opened(client: Client, address: str) -> tuple[int, str]:
    """Status and content."""
    answer = client.get(address)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return answer.status_code, content.decode("utf-8", "replace")


call_command("migrate", verbosity=0)
admin = User.objects.get(email="admin@voice.test")
person = Client()
person.force_login(admin)
_, secret = issue(admin.memberships.get().organisation, admin, "upgrade", "read")
script = Client(headers={"Authorization": f"Bearer {secret}"})
seen = {address: opened(person, address) for address in pages()}
seen |= {address: opened(script, address) for address in operations()}
print(json.dumps(seen))
