"""What a model's runs compile on a GPU, found without it: torch's meta device has shapes and no memory."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import torch

from kernels import registry
from kernels.cases import GROUPS, check_cases
from kernels.cuda.nvrtc import Build
from kernels.cuda.occupancy import EMPTY_BUILD
from kernels.hardware import Gpu
from kernels.measure import limits as of_gpu
from kernels.model import all_reduce
from kernels.model.decoder import Decoder, refusal
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.loading import skeleton
from kernels.model.passes import Pass
from kernels.model.prompt_ops import PACKS_HEAD, prompt_ops
from kernels.model.prompts import CAPACITY_STEP, bucket, room_for
from kernels.model.state import State
from kernels.model.tensor_parallel import shard_config
from kernels.model_files.families import stored_rows
from kernels.ops import LinearCase, LmHeadCase
from kernels.quant.formats import dense_precision, megakernel_precision
from kernels.server.execution.compiling import AnyBuild, NotedVariants, megakernels, served_builds
from kernels.server.execution.server_config import ServerConfig
from kernels.server.execution.sizing import RequestedSize

META = torch.device("meta")


def model_builds(
    config: dict[str, Any],
    gpu: Gpu,
    traffics: Sequence[BatchShape],
    servers: Sequence[RequestedSize],
    weights: Sequence[str],
    tensor_parallel_sizes: Sequence[int] = (),
    explored: bool = True,
) -> Iterator[AnyBuild]:
    """Every build of a model in bf16 on the GPU: megakernel with proofs, prompts, where `explored` the trials, and
    servers, in lower `weights` too and over `tensor_parallel_sizes`. Raises ValueError for a model that the compact
    decoder does not run or a size that does not divide it.
    """
    model = skeleton(config, "bf16")
    if reason := refusal(model):
        raise ValueError(f"the compact decoder cannot run the model: {reason}")
    decoder, stored = Decoder(model), stored_rows(config)
    launches = ("bf16", *(megakernel_precision(weight) if weight == stored else weight for weight in weights))
    yield EMPTY_BUILD
    yield of_gpu.build_of(gpu.sm)
    for traffic in traffics:
        if explored:
            yield from _tuning_builds(decoder, gpu, traffic, weights)
        yield from _prompts(decoder, gpu, traffic)
        capacity = room_for(traffic.prompt, traffic.tokens)
        for traced in (False, True):  # a plan's profile takes the traced one, once the plan has been measured
            for precision in launches:
                yield from chain.from_iterable(
                    megakernels(config, gpu, capacity, [traffic.batch], precision, traced=traced)
                )
    for size in tensor_parallel_sizes:
        shard = Decoder(skeleton(shard_config(config, size), "bf16"))
        if size > 1:
            yield all_reduce.build_of(size)
        for traffic in traffics:
            yield from _prompts(shard, gpu, traffic, sharded=True)
            capacity = room_for(traffic.prompt, traffic.tokens)
            for precision in launches:
                yield from chain.from_iterable(megakernels(config, gpu, capacity, [traffic.batch], precision, size))
    for server in servers:
        yield from served_builds(config, gpu, ServerConfig(server))


def variant_builds(gpu: Gpu) -> Iterator[Build]:
    """Every build of the variants that `python -m kernels check` proves on the GPU."""
    for op in GROUPS["library"]:
        for case in check_cases(op, False):
            for variant in registry.offers(case, gpu)[0]:
                yield from variant.cuda_builds(case, {}, gpu)


def _tuning_builds(model: Decoder, gpu: Gpu, traffic: BatchShape, weights: Sequence[str]) -> Iterator[Build]:
    """Every variant with each of its params, also those that a plan adds, at the sizes of explore and of a session."""
    capacity = -(-traffic.longest // CAPACITY_STEP) * CAPACITY_STEP
    for case in LayerOps(model, traffic).cases():
        lower = filter(dense_precision, weights) if isinstance(case, LinearCase | LmHeadCase) else ()
        cases = [case, *(case.model_copy(update={"weights": precision}) for precision in lower)]
        if getattr(case, "kv_len", capacity) == traffic.longest:
            cases.append(case.model_copy(update={"kv_len": capacity}))
        for tuned in dict.fromkeys(cases):
            for variant in registry.offers(tuned, gpu)[0]:
                for params in variant.space(tuned):
                    for more in ({}, *variant.for_model(tuned)):
                        yield from variant.cuda_builds(tuned, {**params, **more}, gpu)


def _prompts(model: Decoder, gpu: Gpu, traffic: BatchShape, *, sharded: bool = False) -> Iterator[Build]:
    """The default ops of a megakernel's prompts, in every bucket. Of a `sharded` model, those of its first rank."""
    ops = prompt_ops(LayerOps(model, traffic), gpu, PACKS_HEAD if sharded else (), sharded=sharded)
    buckets = {bucket(length) for length in range(1, traffic.longest + 1)}
    for queries in sorted(buckets):
        cos, sin = model.rope_table(queries)
        token = torch.zeros(traffic.batch, 1, dtype=torch.int64, device=META)
        state = State(traffic.batch, queries, cos, sin, model.cache(traffic.batch, queries), token[0], token)
        noted = NotedVariants(ops, gpu)
        Pass(model, noted, state, queries, whole=False, rank=0 if sharded else None)
        yield from noted.builds
