"""Version 1 of the API: the frame, and the routers of every app."""

import importlib.util

from workbench.api.auth import caller_auth, worker_auth
from workbench.api.endpoints import router as account_router
from workbench.api.problems import ProblemAPI
from workbench.api.throttle import CallerThrottle

api = ProblemAPI(
    title="Kernel workbench",
    version="1",
    urls_namespace="api",
    description=(
        "Submit a model and an SLA, follow the run, read the verdict and take the plan.\n\n"
        "Send `Authorization: Bearer <token>`; make tokens on the page /tokens/. Errors are "
        "`application/problem+json`. Lists are paged by `cursor`. A POST with an `Idempotency-Key` may be repeated."
    ),
    auth=caller_auth,
    throttle=[CallerThrottle()],
    docs_url="/docs",
)
api.add_router("", account_router)
for prefix, module in (
    ("", "workbench.intake.api"),
    ("", "workbench.runs.api"),
    ("", "workbench.reports.api"),
    ("/worker", "workbench.runs.worker_api"),
):
    if importlib.util.find_spec(module):
        if prefix:
            api.add_router(prefix, f"{module}.router", auth=worker_auth, throttle=[], tags=["worker"])
        else:
            api.add_router(prefix, f"{module}.router")
