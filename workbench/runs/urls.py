"""Addresses of runs: of the form that starts one, the live page, and the files."""

from django.urls import path

from workbench.runs.views import runs, workloads

urlpatterns = [
    path("workloads/new/", workloads.workload_new, name="workload-new"),
    path("workloads/<uuid:workload_id>/archive/", workloads.archive, name="workload-archive"),
    path("workloads/<uuid:workload_id>/run/", workloads.run_again, name="workload-run"),
    path("workloads/<uuid:workload_id>/project/", runs.set_project, name="workload-project"),
    path("runs/<uuid:run_id>/tags/", runs.set_tags, name="run-tags"),
    path("models/<uuid:model_id>/delete/", runs.delete, {"kind": "model"}, name="model-delete"),
    path("workloads/<uuid:workload_id>/delete/", runs.delete, {"kind": "workload"}, name="workload-delete"),
    path("runs/<uuid:run_id>/delete/", runs.delete, {"kind": "run"}, name="run-delete"),
    path("runs/<uuid:run_id>/", runs.run_page, name="run"),
    path("runs/<uuid:run_id>/cancel/", runs.cancel, name="run-cancel"),
    path("runs/<uuid:run_id>/go-on/", runs.go_on, name="run-go-on"),
    path("runs/<uuid:run_id>/timeline/before.json", runs.timeline, {"side": "before"}, name="run-timeline-before"),
    path("runs/<uuid:run_id>/timeline/after.json", runs.timeline, {"side": "after"}, name="run-timeline-after"),
    path("runs/<uuid:run_id>/plan.json", runs.plan, name="run-plan"),
    path("runs/<uuid:run_id>/artifacts/<str:sha256>/", runs.artifact, name="run-artifact"),
    path("runs/<uuid:run_id>/<str:file>", runs.report_file, name="run-report"),
]
