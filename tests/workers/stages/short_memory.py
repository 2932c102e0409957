"""Verify in a process whose memory holds its model once."""

import json
import resource
from pathlib import Path

import psutil
import pytest

from kernels.model_files import catalogue
from kernels.runners import by_name
from tests.workers.conftest import manifest
from tests.workers.stages.test_confirmed_plans import SlowRunner, document_of, slow_down
from workers.harness import fresh_processes
from workers.harness.context import Context
from workers.stages import verify

CONFIG = catalogue.entry("tiny-qwen3-moe")[0] | {"num_hidden_layers": 1, "num_experts": 128, "num_experts_per_tok": 1}
CONFIG["moe_intermediate_size"] = 1024
ROOM = 1.75
"""Of the model's bytes, what the process may take beside what it has when it starts."""
PROMISE = {"metric": "ttf_n", "n": 8, "limit": 6000}


def run(folder: Path) -> None:
    """Writes the result beside the model, what came of a plan for a GPU, and the result where time is short. The
    process, and those that it starts, can take no more memory from then.
    """
    model, patch, megakernel = manifest(CONFIG), pytest.MonkeyPatch(), by_name.RUNNERS["megakernel"]
    slow_down(patch)
    patch.setitem(by_name.RUNNERS, "megakernel", megakernel)
    patch.setattr(SlowRunner, "PAUSE", 6.0)
    document = document_of(1, ("compiled", "fp32", 6000), ("eager", "fp32", 60), model=model, objectives=[PROMISE])
    taken = psutil.Process().memory_info().data
    resource.setrlimit(resource.RLIMIT_DATA, (int(taken + ROOM * model.weight_bytes),) * 2)
    fresh_processes.prepare()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    result = verify.run(document, Context(folder, folder, seconds=60, startup_seconds=1.0))
    (folder / "result.json").write_text(result.model_dump_json())

    objectives = [PROMISE | {"limit": 9000}]
    refused = document_of(1, ("compiled", "fp32", 6000), ("megakernel", "fp32", 60), model=model, objectives=objectives)
    (folder / "refused").mkdir()
    result = verify.run(refused, Context(folder, folder / "refused", seconds=60, startup_seconds=1.0))
    (folder / "refused.json").write_text(result.model_dump_json())

    (folder / "short").mkdir()
    result = verify.run(document, Context(folder, folder / "short", seconds=0, startup_seconds=30.0))
    (folder / "short.json").write_text(result.model_dump_json())
