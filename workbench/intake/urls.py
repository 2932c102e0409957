"""Addresses of the pages of models, and of the checks of a workload."""

from django.urls import path

from workbench.intake.views import models, workload_form

urlpatterns = [
    path("models/", models.model_list, name="model-list"),
    path("models/upload/", models.model_upload, name="model-upload"),
    path("models/<uuid:model_id>/", models.model_page, name="model"),
    path("workloads/new/check/", workload_form.workload_check, name="workload-check"),
]
