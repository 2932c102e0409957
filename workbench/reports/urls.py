"""Addresses of runs' pages, reports and prices."""

from django.urls import path

from workbench.reports import kernel_pages, price_views, report_views, run_views

urlpatterns = [
    path("runs/<uuid:run_id>/", run_views.run_page, name="run"),
    path("runs/<uuid:run_id>/cancel/", run_views.cancel, name="run-cancel"),
    path("runs/<uuid:run_id>/result/", run_views.result, name="run-result"),
    path("runs/<uuid:run_id>/plan.json", run_views.plan, name="run-plan"),
    path("runs/<uuid:run_id>/report.html", run_views.report_file, name="run-report"),
    path("runs/<uuid:run_id>/artifacts/<str:sha256>/", run_views.artifact, name="run-artifact"),
    path("runs/<uuid:run_id>/freeze/", report_views.create, name="report-create"),
    path("reports/", report_views.report_list, name="report-list"),
    path("reports/<uuid:report_id>/", report_views.report_page, name="report"),
    path("reports/<uuid:report_id>/review/", report_views.review, name="report-review"),
    path("reports/<uuid:report_id>/reopen/", report_views.reopen, name="report-reopen"),
    path("reports/<uuid:report_id>/publish/", report_views.publish, name="report-publish"),
    path("kernels/", kernel_pages.kernel_list, name="kernel-list"),
    path("kernels/<slug:name>/", kernel_pages.kernel_page, name="kernel"),
    path("prices/", price_views.prices, name="prices"),
]
