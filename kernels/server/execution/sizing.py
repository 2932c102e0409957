"""The size of a server: chosen from the model's context and the device's memory where the operator does not say."""

import sys
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.hardware import Gpu
from kernels.measure import host_memory
from kernels.model import decoder
from kernels.model.experts import Experts
from kernels.ops import MODEL_BYTES
from kernels.plan import KvCacheDtype
from kernels.quant.formats import EXPERTS, dense_precision, served_head_precision
from kernels.runners.sessions import LIMITS, positions
from kernels.server.execution.backend import block_of
from kernels.server.execution.ops import Copies
from kernels.server.scheduler.batching import STEP_TOKENS, SchedulerLimits

PAGE_SIZE = 16
LONGEST_CONTEXT = 8192
"""The default limit of a sequence in tokens; a model with a shorter context has its own."""
SHARE_OF_FREE = 0.8
"""The share of free memory, without `packed_bytes`, that KV pages take; the rest is for graphs and passes."""
CPU_KV_BYTES = 4 * 2**30
"""KV pages take no more on a CPU, where an operator who does not say has other programs too; as many as vLLM's."""
STEP_TOKENS_ON = {"cuda": STEP_TOKENS, "cpu": 256, "meta": STEP_TOKENS}
"""The tokens that a step with chunks has at most, by type of device. torch's meta device stands for a GPU."""


@dataclass(frozen=True)
class RequestedSize:
    """The size that an operator asks for, None where chosen here: tokens of a sequence, requests at once, bytes and
    dtype of KV pages, and `pause_ms` by which a step with prompts may delay others' tokens.
    """

    max_model_len: int | None = None
    max_num_seqs: int = 256
    kv_bytes: int | None = None
    pause_ms: float | None = None
    kv_cache_dtype: KvCacheDtype = "auto"


def page_bytes(model: decoder.Decoder, kv_cache_dtype: KvCacheDtype = "auto") -> int:
    """The bytes of one KV page: keys and values of PAGE_SIZE tokens in all layers."""
    width = sum(shape.kv_heads * shape.head_dim for shape in model.shapes)
    return 2 * PAGE_SIZE * width * (1 if kv_cache_dtype == "fp8" else model.embedding.itemsize)


def packed_bytes(model: decoder.Decoder, gpu: Gpu, copies: Copies = Copies.ALL, weights: str = "") -> int:
    """The bytes of the `copies` of weights, perhaps in lower precision, that passes hold beside the model's own."""
    if gpu.sm != 90 or not copies:
        return 0
    packed = [model.lm_head, *(weight for w in model.layers for weight in w.streamed)]
    if weights in EXPERTS and (own := [w.mlp for w in model.layers if isinstance(w.mlp, Experts)]):
        experts = MODEL_BYTES[weights] * sum(weight.gate_up.numel() + weight.down.numel() for weight in own)
        return int(experts) + _packed_of_dense(model, packed, copies, dense_precision(weights))
    return _packed_of_dense(model, packed, copies, weights)


def _packed_of_dense(model: decoder.Decoder, packed: list[Tensor], copies: Copies, weights: str) -> int:
    """The same of the `packed` matrices, which every token multiplies, the head first."""
    if weights:
        head, *layers = packed
        in_head, widened = served_head_precision(weights), "fp8" if weights == "fp8" else "int8"
        streamed = MODEL_BYTES[in_head] * head.numel() if in_head else head.nbytes
        small = [weight for weight in (packed if in_head else layers) if len(weight) % 8 == 0]
        more = MODEL_BYTES[widened] * sum(weight.numel() for weight in small) if copies is Copies.ALL else 0
        return int(streamed + MODEL_BYTES[weights] * sum(weight.numel() for weight in layers) + more)
    normed = [weight for w in model.layers for weight in w.normed] if copies is Copies.ALL else []
    return sum(weight.nbytes for weight in (*packed, *normed))


def free_bytes(device: torch.device) -> int:
    """The device's free memory; without an end on torch's meta device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return host_memory.free_bytes() if device.type == "cpu" else sys.maxsize


def copies_beside(
    model: decoder.Decoder, config: object, gpu: Gpu, requested: RequestedSize, reserved: int = 0, weights: str = ""
) -> Copies:
    """The most copies of weights that leave memory for the KV pages wanted, or one sequence, and `reserved` bytes."""
    device = model.embedding.device
    if device.type != "cuda":
        return Copies.ALL
    pages = 1 + -(-context_of(config, requested) // PAGE_SIZE)
    needed = pages * page_bytes(model, requested.kv_cache_dtype) if requested.kv_bytes is None else requested.kv_bytes
    free = free_bytes(device) - reserved
    sizes = ((copies, packed_bytes(model, gpu, copies, weights)) for copies in reversed(Copies))
    return next((each for each, size in sizes if needed <= (free - size) * SHARE_OF_FREE), Copies.NONE)


def context_of(config: object, requested: RequestedSize) -> int:
    """The most tokens of a sequence, by the operator's wish and the model's own limit. Without a wish no more than the
    model was first trained for: `longrope` rotates all sequences otherwise where longer ones are served.
    """
    if requested.max_model_len is None:
        return min(positions(config), LONGEST_CONTEXT)
    return min(positions(config, LIMITS[:1]), requested.max_model_len)


def limits_for(model: decoder.Decoder, config: object, requested: RequestedSize, reserved: int = 0) -> SchedulerLimits:
    """The limits of a backend of the model, whose transformers configuration is `config`. `reserved` bytes of the
    device's free memory are left for others.

    Raises MemoryError when the memory does not hold one sequence of a page, or the pages that the operator asks for,
    and ValueError when these are none.
    """
    device = model.embedding.device
    free = free_bytes(device)
    context = context_of(config, requested)
    block, page = block_of(model, requested.kv_cache_dtype), page_bytes(model, requested.kv_cache_dtype)
    most = 1 + requested.max_num_seqs * -(-context // PAGE_SIZE)
    if requested.kv_bytes is not None:
        most = min(most, requested.kv_bytes // page)
        if (needed := most * page) > free:
            raise MemoryError(
                f"KV pages of {needed / 2**30:,.1f} GiB do not fit in the {free / 2**30:,.1f} GiB that are free beside "
                "the model"
            )
    else:
        available = int((free - reserved) * SHARE_OF_FREE)
        most = min(most, (min(available, CPU_KV_BYTES) if device.type == "cpu" else available) // page)
        most -= device.type == "cuda" and most % 16 == 0  # for multiples of 16 Triton compiles other kernels
        if most < 2:
            raise MemoryError(
                f"it holds no KV page: {free / 2**30:,.1f} GiB are free beside the model, and packed "
                f"copies of its weights take {reserved / 2**30:,.1f} GiB"
            )
    if most < 2:
        raise ValueError(f"kv_bytes: {requested.kv_bytes} hold no KV page of {page} bytes beside the scratch page")
    max_num_batched_tokens = max(
        block, min(STEP_TOKENS_ON[device.type], -(-context // block) * block * requested.max_num_seqs)
    )
    return SchedulerLimits(
        pages=most,
        page_size=PAGE_SIZE,
        max_num_seqs=requested.max_num_seqs,
        max_model_len=context,
        max_num_batched_tokens=max_num_batched_tokens,
        chunk_rows=block,
        kv_cache_dtype=requested.kv_cache_dtype,
    )
