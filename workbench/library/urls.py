"""Addresses of the pages about kernels, and of the method."""

from django.urls import path

from workbench.library import views

urlpatterns = [
    path("method/", views.method, name="method"),
    path("method/meanings/", views.meanings, name="meanings"),
    path("kernels/", views.kernel_list, name="kernel-list"),
    path("kernels/<slug:name>/", views.kernel_page, name="kernel"),
]
