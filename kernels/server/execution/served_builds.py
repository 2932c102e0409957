"""All that a server of a model compiles and proves on a GPU, found on a machine that needs none, and made while the
engine reads its weights.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from kernels.cuda.nvrtc import Build
from kernels.cuda.triton_build import TritonBuild
from kernels.hardware import Gpu
from kernels.megakernel.proof.validate import Proof
from kernels.model import all_reduce
from kernels.model.decoder import Decoder, refusal
from kernels.model.expert_tiles import can_tile, check_builds, tile_experts
from kernels.model.loading import skeleton
from kernels.model.tensor_parallel import part_of_config
from kernels.model_files.families import stored_experts
from kernels.plan import Plan
from kernels.runners.plan_files import PlanRefused, read_plan
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.compiling import compile_together, megakernels, pass_builds
from kernels.server.execution.megakernel_backend import BATCHES, capacity_of
from kernels.server.execution.served_plans import MEGAKERNEL, of_server, weights_of
from kernels.server.execution.sizing import RequestedSize, context_of, limits_for
from kernels.server.spec import Spec, configuration

Wanted = Build | TritonBuild | Proof


def served_builds(
    config: dict[str, Any],
    gpu: Gpu,
    wanted: RequestedSize,
    plan: Plan | None = None,
    dtype: str = "bf16",
    weights: str = "",
    exclude: Collection[str] = (),
    tensor_parallel_size: int = 1,
) -> Iterator[Wanted]:
    """What a server compiles whose GPU holds all copies of the weights. What takes the longest comes first: products of
    experts, then the megakernel.

    Raises ValueError for a model that the compact decoder does not run, and for a number of GPUs that does not divide
    it.
    """
    size, serving = tensor_parallel_size, plan.serving if plan else None
    model = skeleton(part_of_config(config, size) if size > 1 else config, dtype)
    if reason := refusal(model):
        raise ValueError(f"the compact decoder cannot run the model: {reason}")
    if size > 1:
        yield all_reduce.build_of(size)
    else:
        weights = weights or stored_experts(config)
    if not weights and "grouped_hopper" not in exclude and can_tile(model, gpu):
        yield from check_builds(model, gpu)
        tile_experts(model)
    if dtype == "bf16" and MEGAKERNEL not in exclude:
        up_to = serving.megakernel_up_to if serving else None
        most = min(wanted.max_num_seqs, BATCHES[-1] if up_to is None else up_to)
        batches, capacity = [each for each in BATCHES if each < 2 * most], capacity_of(context_of(model.config, wanted))
        given = capacity, batches, weights or "bf16", size
        yield from chain.from_iterable(megakernels(config, gpu, *given, served=True))
    decoder = Decoder(model)
    rows = serving.graph_rows if serving else ()
    ops = plan.ops if plan and plan.runner == "kernels" else ()
    limits = limits_for(decoder, model.config, wanted)
    yield from pass_builds(KernelsBackend([decoder] * size, gpu, limits, rows, ops, exclude=exclude, weights=weights))


def make_ahead(spec: Spec, gpu: Gpu) -> None:
    """Makes what the engine of this server will need. What it refuses ends this without a word: the engine says why."""
    with suppress(ValueError, OSError, PlanRefused):
        plan = read_plan(Path(spec.plan)) if spec.plan else None
        serving = plan.serving if plan else None
        builds = served_builds(
            configuration(spec)[1],
            gpu,
            RequestedSize(spec.max_model_len, spec.max_num_seqs),
            plan,
            spec.dtype or (plan.dtype if plan else "bf16"),
            spec.weights or (weights_of(plan) if plan else ""),
            of_server([*spec.exclude, *(serving.exclude if serving else ())]),
            spec.tensor_parallel_size or (plan.tensor_parallel_size if plan else 1),
        )
        compile_together(builds)
