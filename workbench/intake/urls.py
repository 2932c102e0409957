"""Addresses of the pages of models."""

from django.urls import path

from workbench.intake import views

urlpatterns = [
    path("models/", views.model_list, name="model-list"),
    path("models/upload/", views.model_upload, name="model-upload"),
    path("models/<uuid:model_id>/", views.model_page, name="model"),
]
