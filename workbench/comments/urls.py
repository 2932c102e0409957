"""Addresses of comments."""

from django.urls import path

from workbench.comments import views

urlpatterns = [
    path("runs/<uuid:run_id>/comments/", views.on_run, name="run-comment"),
    path("reports/<uuid:report_id>/comments/", views.on_report, name="report-comment"),
    path("comments/<uuid:comment_id>/delete/", views.delete, name="comment-delete"),
]
