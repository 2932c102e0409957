"""The `workbench` command: submit a model, follow its run, take the report and the plan."""

import sys

from workbench.cli.server import start_server


def app() -> None:
    """Runs the command line. `workbench serve` starts the server before the other commands' packages are imported:
    where only the extra `serve` is installed, there are no others.
    """
    if sys.argv[1:2] == ["serve"]:
        start_server(sys.argv[2:])
    from workbench.cli.commands import app as commands

    commands()


__all__ = ["app"]
