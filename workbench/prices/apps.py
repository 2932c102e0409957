"""Dated price books, one per organisation or the default of all."""

from django.apps import AppConfig


class PricesConfig(AppConfig):
    name = "workbench.prices"
    label = "prices"
