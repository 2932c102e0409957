"""Names the kernels that a CUDA graph replays, which no host operation launched.

A replay keeps the order in which the kernels were captured, so its matrix kernels follow the model's own sequence of
linear layers, which an eager pass counted. Between two of them, the neighbours and the kernel's own name (Inductor
writes the fused operations into it) tell what it is.
"""

import re
from collections.abc import Sequence
from itertools import groupby

from kernels.runners.modules import GROUPS
from workers.traces.attribution import DeviceWork
from workers.traces.labels import CONVOLUTION, COPIES, ELEMENTWISE, EXPERTS, ROUTING, UNATTRIBUTED
from workers.traces.op_counter import CountedOp

_MATRIX = re.compile(r"gemm|gemv|nvjet|cutlass|cublas|wgmma|splitk(?!reduce)|_mm(_|\b)|dot_kernel", re.IGNORECASE)
_ATTENTION = re.compile(r"fmha|flash|attention|sdpa", re.IGNORECASE)
_HELPERS = re.compile(r"splitkreduce|reduce_1block|splitk_reduce", re.IGNORECASE)


def _word(*words: str) -> re.Pattern[str]:
    """Finds any of the words where no letter stands beside it: `neg` in `fused_neg_1`, not in `renegotiate`."""
    return re.compile(rf"(?<![a-z])(?:{'|'.join(words)})(?![a-z])", re.IGNORECASE)


_NAMED = (
    (_ATTENTION, "attention"),
    (re.compile("softmax", re.IGNORECASE), "attention"),
    (_word("argmax", "sampling", "sample", "multinomial"), "sampling"),
    (_word("rsqrt", "norm", "layernorm", "rmsnorm"), "norm and residual"),
    (_word("place_tokens", "route_tokens", "order_rows", "combine_rows"), ROUTING),
    (_word("silu", "gelu", "sigmoid"), "gated activation"),
    (_word("index_copy", "index_put", "scatter", "rope", "rotary", "cos", "sin", "neg"), "rope and kv cache update"),
    (_word("embedding", "index_select"), "embedding"),
    (_word("memcpy", "memset", "copy", "fill", "arange", "gather"), COPIES),
    (re.compile(r"^triton_(?:poi|red|per)_fused_|vectorized_elementwise|elementwise_kernel"), ELEMENTWISE),
)
"""What a kernel's name tells. The last two are kinds of kernels, Inductor's and torch's own among them: they tell no
operation, so their time is not attributed."""


def name_replays(work: Sequence[DeviceWork], counted: Sequence[CountedOp]) -> list[DeviceWork]:
    """The work with the labels and phases of graph kernels filled in; what runs between replays counts as decoding.

    `work` is that of one request, in the order it ran: the first replay is the prompt's, the others are decode steps.
    Of a model that does not generate, all of it is the forward pass.
    Kernels that cannot be placed in the sequence get a name of their kind, such as "linear" or "attention"; kernels
    whose names tell nothing are unattributed.
    """
    first, later = ("forward",) * 2 if any(op.phase == "forward" for op in counted) else ("prefill", "decode")
    named = [piece._replace(phase=later) for piece in work if not piece.graph]
    steps = max(1, sum(op.label == "lm_head" and op.phase == "decode" for op in counted))
    for index, replay in enumerate(_replays(work)):
        phase = first if index == 0 else later
        sequence = [op for op in counted if op.phase == phase and _is_matrix_label(op.label)]
        sequence_once = sequence[: len(sequence) // steps] if phase == "decode" else sequence
        named += _named(replay, [op.label for op in sequence_once], phase)
    return sorted(named)


def _is_matrix_label(label: str) -> bool:
    return label.startswith(("linear ", "lm_head", CONVOLUTION, EXPERTS))


def _replays(work: Sequence[DeviceWork]) -> list[list[DeviceWork]]:
    """Graph kernels grouped by the launch that replayed them (`DeviceWork.launch`), in order."""
    graph = sorted(piece for piece in work if piece.graph)
    return [list(group) for _, group in groupby(graph, key=lambda piece: piece.launch)]


def _named(replay: list[DeviceWork], sequence: list[str], phase: str) -> list[DeviceWork]:
    matrix = [index for index, piece in enumerate(replay) if _is_matrix(piece.kernel)]
    labels = _fitting(sequence, len(matrix))
    placed = dict(zip(matrix, labels, strict=True)) if labels else {}
    named, last = [], ""
    for index, piece in enumerate(replay):
        label = placed.get(index) or operation_of_name(piece.kernel, last)
        if index in matrix:
            last = label
        named.append(piece._replace(label=label, phase=phase))
    return named


def _is_matrix(kernel: str) -> bool:
    return bool(_MATRIX.search(kernel)) and not _HELPERS.search(kernel) and not _ATTENTION.search(kernel)


def _fitting(sequence: list[str], count: int) -> list[str]:
    """The products, linear layers either single or with q, k, v and gate, up packed, so that there are `count` of them.

    The kernels of convolutions and of experts' products may have names that tell no product: then these are left out.
    """
    for without in ((), (CONVOLUTION, EXPERTS)):
        names = [name for name in sequence if not name.startswith(without)]
        for candidate in (names, join_neighbours(names)):
            if len(candidate) == count:
                return candidate
    return []


def join_neighbours(sequence: Sequence[str]) -> list[str]:
    """The sequence with neighbours that one matrix can hold joined: q, k, v and gate, up."""
    labels: list[str] = []
    rest = list(sequence)
    while rest:
        for group in GROUPS:
            if rest[: len(group)] == [f"linear {name}" for name in group]:
                labels.append("linear " + ", ".join(group))
                rest = rest[len(group) :]
                break
        else:
            labels.append(rest.pop(0))
    return labels


def operation_of_name(kernel: str, last: str = "") -> str:
    """The operation that a kernel's name tells, or UNATTRIBUTED; `last` is the product before it in the graph."""
    if _HELPERS.search(kernel) and last:
        return last
    if _is_matrix(kernel):
        return "linear"
    return next((label for pattern, label in _NAMED if pattern.search(kernel)), UNATTRIBUTED)
