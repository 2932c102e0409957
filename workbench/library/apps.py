"""Pages about the kernels of the library."""

from django.apps import AppConfig


class LibraryConfig(AppConfig):
    name = "workbench.library"
    label = "library"
