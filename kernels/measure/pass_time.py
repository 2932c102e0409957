"""How long a runner takes for one pass over a model: a prompt's, a decode step's, or an encoder's. Without torch.

A pass takes the bytes that it reads by the bandwidth, and its FLOPs by the matrix rate: both, since a kernel with few
tiles for each SM hides little of one behind the other. In each layer the memory also stands idle, wherever a kernel or
an exchange between SMs waits for the one before. How often that is, is counted; how long it takes, was measured on
H200s. `docs/method.md`, *prediction*, has the formula, benchmarks/predictions.md how far it was off.
"""

from dataclasses import dataclass
from math import inf, prod
from typing import Any, Literal

from kernels.model_files.config import value
from kernels.model_files.families import (
    FAMILIES,
    ExpertSizes,
    attention_shape,
    expert_sizes,
    head_shape,
    normed_over_heads,
)
from kernels.model_files.memory import kv_bytes_per_token

KERNEL_US = 2.4
"""What a kernel in a CUDA graph that waits for the one before takes beside its bytes and FLOPs: launch, filling and
draining the SMs. Of eager torch's kernels in CUDA graphs: their step less its bytes, by the launches that a profile
counted (`decode-vllm-f357c07.json`, `llama-3.2-1b.json`, `qwen2.5-1.5b.json`)."""
EXCHANGE_US = 0.52
"""A word's way from one SM to another through the L2, beside a stream of weights (`chain-study.json`)."""
SMALL_LAYER_US, UNHIDDEN = 7.8, 0.45
"""A megakernel's layer of few weights takes so long, and this share of the time in which they are read: the line
through the steps of SmolLM2-135M and -360M (`megakernel-turns.json`). More weights hide the chain of exchanges."""
EXCHANGES = 5
"""Exchanges of a megakernel's layer: q, k, v; attention; output; gate and up; down. A mixture's router adds one."""
ROUTED_US = 8.6
"""What the exchanges of a mixture's layer take beside its bytes. No expert is read before the router has chosen, and
attention has too few bytes for so long: OLMoE-1B-7B and Qwen3-30B-A3B, one sequence (`experts.json`)."""
GPU_EXCHANGES = 2
"""Exchanges of a layer among all GPUs that shard the model: output; down."""
GPU_EXCHANGE_US = {1: EXCHANGE_US, 2: 1.1, 4: 1.8}
"""One of these by the number of GPUs, until every SM has added the partial sums: flagged words of 1,024 to 8,192
float32 over NVLink between H200s (`docs/kernels/megakernel-gpus.md`)."""
PROMPT_SUM_US = {1: 0.0, 2: 20.0, 4: 32.0}
"""What each all-reduce of a prompt of 128 tokens takes, by the number of GPUs. A layer has GPU_EXCHANGES of them.

The measured TTFT of Llama-3.2-1B and Llama-3.1-8B in bf16 exceeds the predicted one without all-reduces by 20 and 20 µs
each on two GPUs, and by 41 and 30 on four. One GPU's error, divided by the number of GPUs, is taken off before
(`h200x4/decode-1b.json`, `h200x4/decode-8b.json`)."""
STEP_SUM_SHARE = 0.5
"""The share of PROMPT_SUM_US that a sum of a server's step takes: Llama-3.1-8B with 32 users on two H200s
(`h200x2/serve-llama-3.1-8b.json`), the only such figure."""
SEQUENCE_US = 1.2
"""What each further sequence adds to a megakernel's layer, words and products: its steps of Llama-3.2-1B with one and
with eight sequences (`serve-megakernel.json`, `change_over`)."""
LOSSY_LAYER_US = 17.7
"""The least time of a megakernel's layer that unpacks its weights, from `decode.json`; GPUs divide it."""
UNPACKED = {"int8": 4.0, "fp8": 4.2, "nvfp4": 6.1, "mxfp4": 4.7}
"""So many 10¹² weights a second the SMs of an H200 or H100 unpack at most, whatever they could read. fp8 and NVFP4:
Llama-3.1-70B's shape on two H200s, whose layers take 110 and 77 µs (`h200x2/decode-70b.json`). int8, whose codes the
tensor cores multiply as they are: the steps of Llama-3.2-1B and of six layers of Llama-3.1-8B less their exchanges, 3.9
and 4.0 (`int8-variants.json`, "four"). mxfp4, of experts alone: gpt-oss-20b's steps less those in bf16 and the bytes of
the rest, 5.5 with one sequence and 4.1 with eight (`decode-gpt-oss.json`, `-8.json`)."""
UNPACK_US = 3.0
"""What unpacking fp8 or NVFP4 adds to a megakernel's layer beside that, the beginning and end of each product: the mean
of the 8B and the 70B's shape in fp8 on one, two and four H200s (`h200x2/decode-8b.json`, `h200x4/decode-8b-fp8.json`,
`h200x4/decode-70b-fp8.json`)."""
KERNELS = {"kernels": (5, 8), "compiled": (15, 13), "cuda_graphs": (44, 45)}
"""Dependent kernels of a layer, in a decode step and in a prompt. `kernels`: `docs/kernels/whole-model.md`; the others
as profiles of Llama-3.2-1B counted launches (`llama-3.2-1b.json`)."""
MIXTURE_KERNELS = {"kernels": (13, 14), "compiled": (26, 26), "cuda_graphs": (78, 74)}
"""The same of a layer with experts, whose norms of q and k are left out. `kernels`: `docs/kernels/whole-model.md`. The
others run transformers' modules: as torch's dispatcher counts their calls (`cuda_graphs`) and as Inductor fuses them,
on a CPU, with two kernels each where a GPU has two (best, histogram, sum, grouped product, masked copy)."""
HEAD_NORMS = {
    "each": {"kernels": (0, 2), "compiled": (0, 0), "cuda_graphs": (16, 16)},
    "all": {"kernels": (3, 2), "compiled": (0, 0), "cuda_graphs": (16, 16)},
}
"""Kernels of a layer that norms of q and k add, of each head or of all together: two norms, which a step's attention
does itself for each head; with those of all heads its rotation is a kernel of its own too. Inductor fuses them with the
rotation; torch has eight kernels a norm."""
MEGAKERNEL = "megakernel"
"""It reads prompts by the same kernels as the runner `kernels`."""


@dataclass(frozen=True)
class ModelSizes:
    """Sizes of a model: parameters of all layers that multiply a token and of the head, KV bytes a token in 16 bits,
    width of q, the experts of a mixture, what heads of q and k are normed together, and the bytes of a weight of
    experts, and of the head, over those of others.
    """

    layers: int
    body: int
    head: int
    kv_bytes: int
    q_width: int
    experts: ExpertSizes | None = None
    head_norms: Literal["each", "all"] | None = None
    expert_share: float = 1.0
    head_share: float = 1.0

    def read(self, rows: float) -> float:
        """Parameters of the layers that `rows` tokens read: of a mixture each chosen expert once."""
        of = self.experts
        if of is None:
            return self.body
        return self.body + of.parameters * (self.expert_share * distinct(of, rows) - of.top_k)


@dataclass(frozen=True)
class PassWork:
    """`rows` tokens go through the layers and `answered` of them through the head; keys and values of `cached` tokens
    are read, and `pairs` of a query and a key are multiplied."""

    rows: float
    answered: float
    cached: float
    pairs: float


@dataclass(frozen=True)
class LayerTime:
    """A layer's `idle_us`, the `least_us` of few weights, the `unhidden` share of reading them, and the most `unpacked`
    weights in 10¹² a second of all GPUs.
    """

    idle_us: float
    least_us: float = 0.0
    unhidden: float = 0.0
    unpacked: float = inf


def distinct(sizes: ExpertSizes, tokens: float) -> float:
    """How many experts so many tokens have between them, in the mean, where each chooses evenly and by itself."""
    return sizes.experts * (1 - (1 - sizes.top_k / sizes.experts) ** tokens)


def decoder(config: dict[str, Any], parameters: int, tensor_parallel_size: int = 1) -> ModelSizes:
    """The sizes of a model that generates; `parameters` of its parameters multiply a token (`request_case`). Where no
    GPU can have some of the heads, all of them are counted once for each.
    """
    (heads, kv_heads, head_dim), layers = attention_shape(config), value(config, "layers") or 1
    head, family = prod(head_shape(config)), FAMILIES.get(config.get("model_type", ""))
    times = tensor_parallel_size if normed_over_heads(config) else 1
    attention = 2 * layers * (value(config, "hidden_size") or 0) * (heads + kv_heads) * head_dim
    normed: Literal["each", "all"] = "all" if normed_over_heads(config) else "each"
    return ModelSizes(
        layers=layers,
        body=parameters - head + (times - 1) * attention,
        head=head,
        kv_bytes=times * kv_bytes_per_token(config, 2),
        q_width=times * heads * head_dim,
        experts=expert_sizes(config),
        head_norms=normed if family is not None and family.qk_norm else None,
    )


def prompt(batch: float, tokens: int) -> PassWork:
    """Reading `batch` prompts of `tokens` each."""
    return PassWork(batch * tokens, batch, 0.0, batch * tokens * tokens / 2)


def step(batch: int, length: float) -> PassWork:
    """One token for each of `batch` sequences behind `length` tokens."""
    return PassWork(batch, batch, batch * length, batch * length)


def exchanges_us(tensor_parallel_size: int, mixture: bool = False) -> float:
    """What the exchanges of a megakernel's layer take on so many GPUs, 1, 2 or 4."""
    alone = ROUTED_US if mixture else EXCHANGES * EXCHANGE_US
    return alone + GPU_EXCHANGES * (GPU_EXCHANGE_US[tensor_parallel_size] - EXCHANGE_US)


def kernels_of(sizes: ModelSizes, runner: str, reads_prompt: bool) -> int:
    """Dependent kernels of a layer of a model that generates."""
    by = "kernels" if runner == MEGAKERNEL else runner
    counted = KERNELS if sizes.experts is None else MIXTURE_KERNELS
    return counted[by][reads_prompt] + (HEAD_NORMS[sizes.head_norms][by][reads_prompt] if sizes.head_norms else 0)


def megakernel_layer(weights: str, sequences: float, tensor_parallel_size: int, mixture: bool = False) -> LayerTime:
    """What a layer of the megakernel costs in a decode step beside bytes and FLOPs."""
    idle, extra_us = exchanges_us(tensor_parallel_size, mixture), SEQUENCE_US * (sequences - 1)
    unpacked = tensor_parallel_size * UNPACKED.get(weights, inf)
    if weights not in ("fp8", "nvfp4"):
        return LayerTime(idle + extra_us, SMALL_LAYER_US + extra_us, UNHIDDEN, unpacked)
    min_us = max(SMALL_LAYER_US, LOSSY_LAYER_US / tensor_parallel_size) + extra_us
    return LayerTime(idle + UNPACK_US + extra_us, min_us, unpacked=unpacked)


def kernels_layer(
    kernels: int, kernel_us: float, tensor_parallel_size: int = 1, reads_prompt: bool = True
) -> LayerTime:
    """The same of a layer of so many dependent kernels of `kernel_us`; on several GPUs with sums over them."""
    sum_us = PROMPT_SUM_US[tensor_parallel_size] * (1.0 if reads_prompt else STEP_SUM_SHARE)
    return LayerTime(kernels * kernel_us + GPU_EXCHANGES * sum_us)


def pass_ms(
    sizes: ModelSizes,
    work: PassWork,
    weight_bytes: float,
    kv_share: float,
    rates: tuple[float, float],
    layer: LayerTime,
) -> float:
    """Ms of a pass over `weight_bytes`, keys `kv_share` of 16 bits. `rates`: TB/s and TFLOP/s of all GPUs."""
    read, multiplied = rates[0] * 1e9, rates[1] * 1e9
    weight = max(weight_bytes / read, 1 / (layer.unpacked * 1e9))
    attention = 4.0 * sizes.q_width * sizes.layers * work.pairs
    weights, cached = sizes.read(work.rows) * weight, work.cached * sizes.kv_bytes * kv_share / read
    beside = cached + (2.0 * sizes.body * work.rows + attention) / multiplied
    head = (
        sizes.head * max(sizes.head_share * weight_bytes / read, weight) + 2.0 * sizes.head * work.answered / multiplied
    )
    idle, min_ms = (sizes.layers * us / 1e3 for us in (layer.idle_us, layer.least_us))
    return max(weights + idle, layer.unhidden * weights + min_ms) + beside + head
