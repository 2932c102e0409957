"""Addresses of the pages of models and workloads."""

from django.urls import path
from django.views.generic import RedirectView

from workbench.intake import model_views, workload_views

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="workload-list"), name="home"),
    path("models/", model_views.model_list, name="model-list"),
    path("models/upload/", model_views.model_upload, name="model-upload"),
    path("models/<uuid:model_id>/", model_views.model_page, name="model"),
    path("models/<uuid:model_id>/delete/", model_views.model_delete, name="model-delete"),
    path("workloads/", workload_views.workload_list, name="workload-list"),
    path("workloads/new/", workload_views.workload_new, name="workload-new"),
    path("workloads/<uuid:workload_id>/", workload_views.workload_page, name="workload"),
    path("workloads/<uuid:workload_id>/run/", workload_views.run_again, name="workload-run"),
]
