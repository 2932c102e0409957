"""Addresses of the pages of reports."""

from django.urls import path

from workbench.reports import views

urlpatterns = [
    path("runs/<uuid:run_id>/freeze/", views.create, name="report-create"),
    path("reports/logo/", views.logo, name="logo"),
    path("reports/logo/remove/", views.remove_logo, name="logo-remove"),
    path("reports/", views.report_list, name="report-list"),
    path("reports/<uuid:report_id>/", views.report_page, name="report"),
    path("reports/<uuid:report_id>/<str:file>", views.report_file, name="report-file"),
    path("reports/<uuid:report_id>/review/", views.review, name="report-review"),
    path("reports/<uuid:report_id>/reopen/", views.reopen, name="report-reopen"),
    path("reports/<uuid:report_id>/publish/", views.publish, name="report-publish"),
    path("reports/<uuid:report_id>/share/", views.share, name="report-share"),
    path("shares/<uuid:share_id>/revoke/", views.revoke, name="share-revoke"),
    path("shared/<str:secret>/", views.shared, name="shared"),
    path("shared/<str:secret>/<str:file>", views.shared, name="shared-file"),
]
