"""The page after the login, and the example result."""

from django.apps import AppConfig


class HomeConfig(AppConfig):
    name = "workbench.home"
    label = "home"
