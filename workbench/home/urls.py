"""Addresses of the portfolio, the sample and the example."""

from django.urls import path

from workbench.home import views

urlpatterns = [
    path("workloads/", views.portfolio, name="workload-list"),
    path("workloads/views/", views.save_view, name="view-save"),
    path("workloads/views/<int:view_id>/delete/", views.delete_view, name="view-delete"),
    path("activity/", views.activity, name="activity"),
    path("first-steps/close/", views.close_first_steps, name="first-steps-close"),
    path("palette/", views.palette, name="palette"),
    path("sample/", views.sample, name="sample"),
    path("example/", views.example, name="example"),
]
