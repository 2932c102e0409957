"""Every address of the site."""

from django.contrib.auth.decorators import login_not_required
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from workbench.api_v1 import api

handler404 = "workbench.web.error_pages.not_found"
handler500 = "workbench.web.error_pages.server_error"
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="workload-list"), name="home"),
    path("", include("workbench.api_docs.urls")),
    path("favicon.ico", login_not_required(RedirectView.as_view(url=static("workbench/icon.svg")))),
    path("api/v1/", api.urls),
    path("", include("workbench.accounts.urls")),
    path("", include("workbench.intake.urls")),
    path("", include("workbench.prices.urls")),
    path("", include("workbench.notifications.urls")),
    path("", include("workbench.runs.urls")),
    path("", include("workbench.results.urls")),
    path("", include("workbench.reports.urls")),
    path("", include("workbench.comments.urls")),
    path("", include("workbench.bring_ups.urls")),
    path("", include("workbench.library.urls")),
    path("", include("workbench.home.urls")),
]
