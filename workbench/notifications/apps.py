"""Notifications by webhook and e-mail: who wants which, the outbox, and the log of what was delivered."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "workbench.notifications"
    label = "notifications"
