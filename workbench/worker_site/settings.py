"""The workbench's settings, less everything that only people need.

Workers call this site by whatever name their network knows; no link is made from that name, and one token opens it.
"""

from workbench import settings as pages
from workbench.settings import *  # noqa: F403

ROOT_URLCONF = "workbench.worker_site.urls"
WSGI_APPLICATION = "workbench.worker_site.wsgi.application"
INSTALLED_APPS = [app for app in pages.INSTALLED_APPS if not app.startswith("allauth")]
ALLOWED_HOSTS = ["*"]
SECURE_SSL_REDIRECT = False
MIDDLEWARE = [
    "workbench.web.health.HealthMiddleware",
    "workbench.web.metrics.MetricsMiddleware",
    "workbench.web.middleware.RequestIdMiddleware",
    "workbench.api.problems.ProblemMiddleware",
]
METRICS_COLLECTORS = ["workbench.runs.metrics.PipelineCollector"]
MAX_REQUEST_BYTES = 2**32  # an artifact of a stage
