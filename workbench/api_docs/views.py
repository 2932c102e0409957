"""Pages about the REST API."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from workbench.api.problems import ProblemDocument, Reason
from workbench.api_docs import document

WRONG = Reason(field="objectives[0].limit", reason="should be greater than 0, not -5")
PROBLEM = ProblemDocument(
    title="Unprocessable Entity", status=422, detail=f"{WRONG.field}: {WRONG.reason}", errors=[WRONG]
).model_dump_json(indent=2)


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """How to call it, and every operation by name."""
    return render(request, "api_docs/overview.html", {"parts": document.parts(), "problem": PROBLEM})


@require_safe
def part(request: HttpRequest, name: str) -> HttpResponse:
    """The operations of one part, with examples."""
    operations = document.parts().get(name)
    if operations is None:
        raise Http404("There is no such page.")
    return render(request, "api_docs/part.html", {"name": name, "operations": operations, "parts": document.parts()})


@require_safe
def schemas(request: HttpRequest) -> HttpResponse:
    """What is sent and answered, field by field."""
    return render(request, "api_docs/schemas.html", {"schemas": document.schemas(), "parts": document.parts()})
