"""A model sharded over several GPUs, which run it together: tensor parallelism. Imports without torch.

Each GPU has some heads with their rows of q, k, v and their columns of the output projection, some columns of the MLP
or of every expert, and some rows of the LM head. Embedding, norms, routers and the residual are replicated. A rank's
partial sums of the two projections, its candidates for the next token and its words of a search go into the memory of
every rank (`exchange.EXCHANGED`), and every rank adds the same words in the same order. So all residuals stay equal,
and all ranks choose the same token. Equal residuals make equal logits of a router, so all ranks choose the same experts
too: no rank reads another's choice.

Where q and k are normed over all heads, each GPU has all heads. The output projection of all but the first is zeros.
"""

from dataclasses import replace

from kernels.megakernel.program import Program, build_program
from kernels.megakernel.program.layout import Layout, check_precision
from kernels.megakernel.program.shape import ModelShape, Unsupported
from kernels.megakernel.program.weights import format_of_dense
from kernels.model.divisible import indivisible

TENSOR_PARALLEL_SIZES = (1, 2, 4)
"""The numbers of GPUs that may run a model together."""


def shard_of(shape: ModelShape, tensor_parallel_size: int, weights: str = "bf16") -> ModelShape:
    """What each of so many GPUs has of a model in a precision. The vocabulary stays whole: HEAD's instructions name its
    rows.

    Raises Unsupported as `check_precision`, or naming the first size that does not divide. Columns of the output and
    the down projection that share a scale stay on one GPU.
    """
    check_precision(shape, weights)
    size = f"tensor_parallel_size {tensor_parallel_size}"
    if tensor_parallel_size not in TENSOR_PARALLEL_SIZES:
        *first, last = map(str, TENSOR_PARALLEL_SIZES)
        raise Unsupported(f"{size}: the megakernel runs on {', '.join(first)} or {last}")
    scaled, of_heads = 16 * format_of_dense(weights).together, 1 if shape.whole_norm else tensor_parallel_size
    heads = (
        ("num_key_value_heads", shape.kv_heads, 1),
        ("num_attention_heads", shape.heads, 1),
        ("num_attention_heads x head_dim", shape.heads * shape.head_dim, scaled),
    )
    inner = ("intermediate size of an expert" if shape.experts else "intermediate_size", shape.expert_size, scaled)
    if problem := indivisible(heads, of_heads) or indivisible([inner], tensor_parallel_size):
        raise Unsupported(problem)
    return replace(
        shape,
        heads=shape.heads // of_heads,
        kv_heads=shape.kv_heads // of_heads,
        intermediate=shape.intermediate // tensor_parallel_size,
    )


def max_served_batch(shape: ModelShape, tensor_parallel_size: int) -> int:
    """The most sequences of a server's instances. The time of a proof, for which a start waits, grows with the groups
    of experts over all ranks: over several GPUs a mixture's instances are for fewer.
    """
    return shape.batch_most // (tensor_parallel_size if shape.experts else 1)


def programs(shape: ModelShape, layout: Layout) -> list[Program]:
    """The program of every rank, in their order. `shape` is the shard of the model that each has."""
    return [build_program(shape, layout, rank) for rank in range(layout.tensor_parallel_size)]
