"""What engineers found out about GPUs: the documents of `python -m kernels bring-up`."""

from django.apps import AppConfig


class BringUpsConfig(AppConfig):
    name = "workbench.bring_ups"
    label = "bring_ups"
