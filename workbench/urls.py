"""Every address of the site."""

from django.urls import include, path

from workbench.api.v1 import api

urlpatterns = [
    path("api/v1/", api.urls),
    path("", include("workbench.accounts.urls")),
    path("", include("workbench.intake.urls")),
    path("", include("workbench.reports.urls")),
]
