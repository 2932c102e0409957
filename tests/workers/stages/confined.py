"""A stage in a process of its own, confined as the worker has it, with the stand-in for vLLM."""

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kernels.engine import vllm_stand_in
from workers import child, stage_process
from workers.child_environment import stage_environment
from workers.confinement.bounds import Bounds, ResourceLimits
from workers.documents.stages import StageInput
from workers.scratch import scratch
from workers.stage_files import code_folder, readable, user_of


def confined(outside: Path, document: StageInput) -> bytes:
    """The stage's result. `outside`: a folder that every user reaches."""
    vllm_stand_in.environment(outside / "vllm")
    outer = os.environ | {"WORKER_VLLM": str(outside / "vllm")}
    command = ["-m", f"workers.stages.{document.stage}", "in.json", "out.json", "--artifacts", "."]
    return confined_python(
        outside, command, document.model_dump_json(), stage_process.starts_vllm(document, outer), outer
    )


def confined_python(
    outside: Path, arguments: Sequence[str], given: str, loopback: bool, outer: Mapping[str, str] = os.environ
) -> bytes:
    """What Python with these arguments wrote to `out.json`; `in.json` is what it is given."""
    caches, packages = outside / "caches", ["benchmarks"]
    with scratch() as directory:
        (directory / "in.json").write_text(given)
        env = stage_environment(outer, directory, caches, code_folder(directory, packages))
        ended = child.run(
            child.ChildCommand([sys.executable, *arguments], env, cwd=directory, log_file=directory / "stage.log"),
            limits=ResourceLimits(300, memory_bytes=8 * 2**30),
            bounds=Bounds(
                readable=readable(outer, packages, [caches]),
                writable=(str(directory), str(caches)),
                user=user_of("ours"),
                loopback=loopback,
            ),
            on_line=lambda line: None,
            on_start=lambda protection: None,
            stop=threading.Event(),
        )
        assert ended.code == 0, (directory / "stage.log").read_text()
        return (directory / "out.json").read_bytes()
