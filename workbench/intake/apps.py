"""Intake: models, uploads and workloads."""

from django.apps import AppConfig


class IntakeConfig(AppConfig):
    name = "workbench.intake"
    label = "intake"
    verbose_name = "Intake"
