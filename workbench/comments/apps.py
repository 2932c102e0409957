"""Comments of members on runs and reports."""

from django.apps import AppConfig


class CommentsConfig(AppConfig):
    name = "workbench.comments"
    label = "comments"
