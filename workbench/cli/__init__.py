"""The `workbench` command: submit a model, follow its run, take the report and the plan."""

from workbench.cli.commands import app

__all__ = ["app"]
