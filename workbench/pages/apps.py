"""What every page of the site shares: template filters and tags."""

from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "workbench.pages"
    label = "pages"
