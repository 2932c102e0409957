"""Version 1 of the API: the frame, and the routers of every app."""

from workbench.api.account import router as account_router
from workbench.api.auth import caller_auth
from workbench.api.problems import ProblemAPI
from workbench.bring_ups.api import router as bring_ups_router
from workbench.intake.api import router as intake_router
from workbench.notifications.api import router as notifications_router
from workbench.prices.api import router as prices_router
from workbench.reports.api import router as reports_router
from workbench.results.api import router as results_router
from workbench.runs.api import router as runs_router

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
    docs_url=None,  # workbench/api_docs shows it
)
for router in (
    account_router,
    intake_router,
    prices_router,
    runs_router,
    results_router,
    reports_router,
    notifications_router,
    bring_ups_router,
):
    api.add_router("", router)
