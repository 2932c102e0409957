"""The application of the audit log."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "workbench.audit"
    label = "audit"

    def ready(self) -> None:
        from workbench.audit import sign_ins

        sign_ins.connect()
