"""`python -m kernels`: one sub-command per module; each is imported only when it is called for."""

import argparse
import gc
import importlib
import os
import signal
import sys

from kernels.measure.cpu_threads import thread_settings

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("kernels.cli.list", "variants, and what each serves"),
    "check": ("kernels.cli.check", "the accuracy gate over variants and cases"),
    "bench": ("kernels.cli.bench", "times over variants and cases, as a bench document"),
    "compile": ("kernels.cli.compile", "compile ahead, without a GPU, what models will ask NVRTC for"),
    "bring-up": ("kernels.bring_up.cli", "prove and time the library on a GPU that nobody prepared for"),
    "megakernel": ("kernels.megakernel.cli", "prove a megakernel program, describe it, draw its timeline"),
    "serve": ("kernels.cli.serve", "serve a model over HTTP, after OpenAI's API"),
    "run": ("kernels.cli.run", "run a plan on this machine and compare it with what the plan expects"),
}
"""Sub-command → module with `<command>_arguments(parser)` and `<command>(options) -> exit code`, and help."""


def main(argv: list[str] | None = None) -> int:
    """Runs one sub-command. Returns its exit code; 2 for a wrong call."""
    parser = argparse.ArgumentParser(prog="python -m kernels", description="GPU kernels: list, prove, time and run.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command, (_, summary) in COMMANDS.items():
        commands.add_parser(command, help=summary, add_help=False)
    arguments = sys.argv[1:] if argv is None else argv
    chosen, rest = parser.parse_known_args(arguments[:1])[0].command, arguments[1:]
    module_name, summary = COMMANDS[chosen]
    os.environ.update(thread_settings(os.environ))
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler would report on itself
    gc.disable()  # a sixth of the time of torch's import
    module = importlib.import_module(module_name)
    gc.enable()
    subcommand = argparse.ArgumentParser(prog=f"python -m kernels {chosen}", description=summary)
    name = chosen.replace("-", "_")
    getattr(module, f"{name}_arguments")(subcommand)
    return int(getattr(module, name)(subcommand.parse_args(rest)))


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # who reads the output, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    sys.exit(code)
