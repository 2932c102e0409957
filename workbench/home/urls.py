"""Addresses of the portfolio, the sample and the example."""

from django.urls import path

from workbench.home import views

urlpatterns = [
    path("workloads/", views.portfolio, name="workload-list"),
    path("sample/", views.sample, name="sample"),
    path("example/", views.example, name="example"),
]
