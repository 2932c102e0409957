"""The frame of the REST API: who may call, problems, pages of lists, repeated requests, rate limits."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "workbench.api"
    label = "api"
