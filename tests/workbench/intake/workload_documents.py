"""A good workload as a document and as the fields of the form."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

from django.test import Client

from workbench.intake.forms.workload import WorkloadForm

Clients = Callable[..., Client]

GOOD: dict[str, Any] = {
    "model": "llama-3.2-1b",
    "objectives": [{"metric": "ttf_n", "n": 64, "percentile": 50, "limit": 100}],
}


def post(client: Client, document: Any) -> Any:
    return client.post("/api/v1/workloads", document)


def fields(document: dict[str, Any]) -> dict[str, Any]:
    """What a browser sends for the document: the form's defaults, overwritten."""
    form = WorkloadForm.empty([])
    form.values |= {"model": document.get("model", "")}
    for name in [name for name in form.values if name.startswith("objectives[")]:
        del form.values[name]
    for index, objective in enumerate(document["objectives"]):
        form.values |= {f"objectives[{index}].{key}": str(value) for key, value in objective.items()}
    form.values["name"] = document.get("name", "")
    form.values["baseline_runner"] = document.get("baseline_runner", "eager")
    form.values["after_runner"] = document.get("after_runner", "workbench")
    for section in ("traffic", "constraints", "present"):
        form.values |= {f"{section}.{key}": value for key, value in document.get(section, {}).items()}
    return {name: value for name, value in form.values.items() if value is not False}


def shown_errors(page: str) -> list[str]:
    return [unescape(item).strip() for item in re.findall(r'<p class="error"[^>]*>(.*?)</p>', page, re.S)]
