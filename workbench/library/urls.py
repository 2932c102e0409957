"""Addresses of the pages about kernels."""

from django.urls import path

from workbench.library import views

urlpatterns = [
    path("kernels/", views.kernel_list, name="kernel-list"),
    path("kernels/<slug:name>/", views.kernel_page, name="kernel"),
]
