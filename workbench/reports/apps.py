"""Reports: frozen snapshots of a run's results, their review and publication, and the links that share them."""

from django.apps import AppConfig


class ReportsConfig(AppConfig):
    name = "workbench.reports"
    label = "reports"
