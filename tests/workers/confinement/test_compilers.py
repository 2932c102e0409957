"""The compilers of a stage work confined: torch.compile with its caches, in a process forked as a worker does."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from kernels.cuda.nvrtc import PREBUILT
from kernels.cuda.occupancy import EMPTY_BUILD
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.proof.validate import Proof
from kernels.model_files.catalogue import entry
from tests.workers import one_command
from tests.workers.templates import ready_template
from workers.confinement.bounds import Bounds, Protection, ResourceLimits
from workers.host.child_environment import stage_environment
from workers.host.stage_files import code_folder, readable, user_of
from workers.host.template_process import VEC_ISA_OK
from workers.shared.scratch import scratch

CODE = """
import torch
from kernels.measure.environment import current_device
from kernels.measure.telemetry import TelemetrySampler
compiled = torch.compile(lambda x: x.sin() * 2 + 1)
with TelemetrySampler("cpu") as telemetry:
    assert torch.allclose(compiled(torch.ones(1000)), torch.ones(1000).sin() * 2 + 1)
print(current_device()[2]["commit"], flush=True)
import os
print(os.environ["TORCHINDUCTOR_VEC_ISA_OK"], torch._inductor.config.cpp.vec_isa_ok, flush=True)
from kernels.cuda.occupancy import EMPTY_BUILD
print(EMPTY_BUILD.binary(), flush=True)
from pathlib import Path
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.ranks import programs
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.proof.validate import check_programs_once
from kernels.model_files.catalogue import entry
config = entry("smollm2-135m")[0] | {"num_hidden_layers": 2}
check_programs_once(*programs(shape_of(config), Layout(sms=6)))
print(len(list(Path(os.environ["KERNELS_CACHE"]).glob("proof-*"))), flush=True)
"""


def test_torch_compiles_into_its_organisations_cache(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A CUDA kernel that was compiled ahead is found, and programs that were proven ahead are not proven again."""
    ahead = EMPTY_BUILD.make_into(tmp_path_factory.mktemp("prebuilt"))
    config = entry("smollm2-135m")[0] | {"num_hidden_layers": 2}
    Proof(shape_of(config), Layout(sms=6)).make_into(ahead.parent)
    ahead.parent.chmod(0o755)
    outer = {**os.environ, PREBUILT: str(ahead.parent)}
    outer.pop(VEC_ISA_OK)  # what the compiler builds is tried by the template, once for all forks
    lines: list[str] = []
    protections: list[Protection] = []
    caches = tmp_path / "caches/ours"
    with closing(ready_template("torch")) as template, scratch(tmp_path / "stages") as directory:
        env = stage_environment(outer, directory, caches, code_folder(directory, []))
        ended = one_command.run(
            one_command.code_command(CODE, env, directory), ResourceLimits(memory_bytes=8 * 2**30),
            Bounds(
                readable=readable(outer, [], [tmp_path]), writable=(str(directory), str(caches)), user=user_of("ours")
            ),
            lines.append, protections.append, template=template,
        )  # fmt: skip
        log = (directory / "log").read_text()
    assert (ended.code, ended.why) == (0, "exit"), log
    assert lines == [f"{env['WORKBENCH_COMMIT']}\n", "1 True\n", f"{ahead}\n", "0\n"]
    assert list((caches / "inductor").rglob("*.so")), "nothing was compiled"
    assert list((caches / "inductor").rglob("*.gch")), "the next run compiles the headers again"
    assert len(protections) == 1
