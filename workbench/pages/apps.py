"""Template filters and tags that every page shares."""

from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "workbench.pages"
    label = "pages"
