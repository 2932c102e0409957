"""Reports: frozen snapshots of a run's results, their review, and the price books behind them."""

from django.apps import AppConfig


class ReportsConfig(AppConfig):
    name = "workbench.reports"
    label = "reports"
