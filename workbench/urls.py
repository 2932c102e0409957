"""Every address of the site."""

import importlib.util

from django.urls import include, path

from workbench.api.v1 import api

urlpatterns = [path("api/v1/", api.urls), path("", include("workbench.accounts.urls"))]
urlpatterns += [
    path("", include(f"workbench.{app}.urls"))
    for app in ("intake", "runs", "reports")
    if importlib.util.find_spec(f"workbench.{app}.urls")
]
