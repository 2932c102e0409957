"""Addresses of the pages about bring-ups."""

from django.urls import path

from workbench.bring_ups import views

urlpatterns = [
    path("bring-ups/", views.bring_up_list, name="bring-up-list"),
    path("bring-ups/compare/", views.compare, name="bring-up-compare"),
    path("bring-ups/<uuid:bring_up_id>/", views.bring_up_page, name="bring-up"),
    path("bring-ups/<uuid:bring_up_id>/delete/", views.delete, name="bring-up-delete"),
]
