"""A small API inside the product's frame, for what no endpoint of the product does on purpose."""

import itertools
from typing import Any

from django.urls import path
from ninja import Query, Router

from workbench.accounts.models import Invitation
from workbench.api import problems
from workbench.api.auth import caller_auth, worker_auth
from workbench.api.pagination import PageQuery, page
from workers.documents.workload import Sla

router = Router()
done = itertools.count(1)


@router.post("/sla")
def take_sla(request: Any, sla: Sla) -> dict[str, Any]:
    return {"name": sla.name, "number": next(done)}


@router.post("/refuse")
def refuse(request: Any) -> None:
    raise problems.Problem(409, "It is taken.", [{"field": "name", "reason": "is taken"}])


@router.get("/crash")
def crash(request: Any) -> None:
    raise RuntimeError("the password is hunter2")


@router.get("/wrong", response=Sla)
def wrong(request: Any) -> dict[str, Any]:
    return {"objectives": []}


@router.post("/crash")
def crash_post(request: Any) -> None:
    raise RuntimeError(f"number {next(done)}")


@router.get("/invitations")
def invitations(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    return page(Invitation.objects.for_user(request.user), query, lambda row: row.email)


@router.get("/worker", auth=worker_auth)
def worker(request: Any) -> dict[str, bool]:
    return {"ok": True}


api = problems.ProblemAPI(urls_namespace="frame", auth=caller_auth)
api.add_router("", router)
urlpatterns = [path("api/frame/", api.urls)]
