"""A stage in a process of its own, confined as the worker has it, with the stand-in for vLLM."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kernels.runners import vllm_stand_in
from tests.workers import one_command
from workers.confinement.bounds import Bounds, ResourceLimits
from workers.documents.stages import StageInput
from workers.host import stage_process
from workers.host.child import ChildCommand
from workers.host.child_environment import stage_environment
from workers.host.stage_files import code_folder, readable, user_of
from workers.host.template_process import Template
from workers.shared.scratch import scratch


def confined(outside: Path, document: StageInput, template: Template) -> bytes:
    """The stage's result. `outside`: a folder that every user reaches."""
    vllm_stand_in.environment(outside / "vllm")
    outer = os.environ | {"WORKER_VLLM": str(outside / "vllm")}
    command = [f"workers.stages.{document.stage}", "in.json", "out.json", "--artifacts", "."]
    files = {"in.json": document.model_dump_json()}
    return confined_python(outside, command, files, stage_process.starts_vllm(document, outer), outer, template)


def confined_python(
    outside: Path,
    command: Sequence[str],
    files: Mapping[str, str],
    loopback: bool,
    outer: Mapping[str, str] = os.environ,
    template: Template | None = None,
) -> bytes:
    """What the command, a module and its arguments, wrote to `out.json`; `files` lie in its directory."""
    caches, packages = outside / "caches", ["benchmarks"]
    with scratch(outside / "stages") as directory:
        for name, text in files.items():
            (directory / name).write_text(text)
        env = stage_environment(outer, directory, caches, code_folder(directory, packages))
        ended = one_command.run(
            ChildCommand(command[0], command[1:], env, cwd=directory, log_file=directory / "stage.log"),
            ResourceLimits(memory_bytes=8 * 2**30),
            Bounds(
                readable=readable(outer, packages, [caches]), writable=(str(directory), str(caches)),
                user=user_of("ours"), loopback=loopback,
            ),
            lambda line: None, template=template,
        )  # fmt: skip
        assert ended.code == 0, (directory / "stage.log").read_text()
        return (directory / "out.json").read_bytes()
