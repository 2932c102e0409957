"""Addresses of the pages of reports."""

from django.urls import path

from workbench.reports.views import logos, reports, shares

urlpatterns = [
    path("runs/<uuid:run_id>/freeze/", reports.create, name="report-create"),
    path("reports/logo/", logos.logo, name="logo"),
    path("reports/logo/remove/", logos.remove, name="logo-remove"),
    path("reports/", reports.report_list, name="report-list"),
    path("reports/<uuid:report_id>/", reports.report_page, name="report"),
    path("reports/<uuid:report_id>/<str:file>", reports.report_file, name="report-file"),
    path("reports/<uuid:report_id>/review/", reports.review, name="report-review"),
    path("reports/<uuid:report_id>/reopen/", reports.reopen, name="report-reopen"),
    path("reports/<uuid:report_id>/publish/", reports.publish, name="report-publish"),
    path("reports/<uuid:report_id>/share/", shares.share, name="report-share"),
    path("shares/<uuid:share_id>/revoke/", shares.revoke, name="share-revoke"),
    path("shared/<str:secret>/", shares.shared, name="shared"),
    path("shared/<str:secret>/<str:file>", shares.shared, name="shared-file"),
]
