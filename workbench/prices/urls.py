"""The address of the price book."""

from django.urls import path

from workbench.prices import views

urlpatterns = [path("prices/", views.prices, name="prices")]
