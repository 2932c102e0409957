"""Every address of the site."""

import importlib.util

from django.urls import include, path

from workbench.api.v1 import api

urlpatterns = [
    path("api/v1/", api.urls),
    path("", include("workbench.accounts.urls")),
    path("", include("workbench.reports.urls")),
]
urlpatterns += [path("", include("workbench.intake.urls"))] if importlib.util.find_spec("workbench.intake.urls") else []
