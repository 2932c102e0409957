"""Addresses of the pages about the REST API."""

from django.urls import path

from workbench.api_docs import views

urlpatterns = [
    path("api/v1/docs", views.overview, name="api-docs"),
    path("api/v1/docs/schemas", views.schemas, name="api-docs-schemas"),
    path("api/v1/docs/<slug:name>", views.part, name="api-docs-part"),
]
