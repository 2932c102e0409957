"""Addresses of the pages of results."""

from django.urls import path

from workbench.results.views import compare, result, workload

urlpatterns = [
    path("workloads/<uuid:workload_id>/", workload.workload_page, name="workload"),
    path("compare/", compare.compare, name="compare"),
    path("runs/<uuid:run_id>/result/", result.result, name="run-result"),
    path("runs/<uuid:run_id>/fleet/", result.fleet, name="run-fleet"),
]
