"""The ops of packed passes when no plan names them. They depend on the number of rows alone; nothing is timed here.

Up to MAX_ROWS rows the streamed products, up to FEW `small_gemm`, both with their neighbours in them and as dependent
launches; beyond it cuBLAS, from LONG on with SwiGLU within the product: as `kernels.model.prompt_ops` has measured it
for prompts. The norms are within `small_gemm` up to NORMED rows only. Products that hold int8, fp8 or int4 weights are
streamed up to MAX_ROWS rows, and multiplied up to WIDENED_ROWS by `small_gemm_fp8` or `small_gemm_int8`, which takes
half of bf16's bytes and, of int4's codes, all but those with minimums as they are; beyond it the model's own weights
are multiplied.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Literal

from kernels import registry
from kernels.dtypes import DTYPE_NAMES
from kernels.gemm.skinny import MAX_ROWS
from kernels.gemm.small import MIN_ROWS
from kernels.hardware import Gpu
from kernels.model import decoder
from kernels.model.layer_cases import attention_case, fits_step, rope_case, step_case
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.prompt_ops import FEW, LARGE_ROWS, LONG, ONE_TILE, ROW_WARPS
from kernels.ops import (
    Case,
    Epilogue,
    GatedCase,
    GroupedCase,
    LinearCase,
    LmHeadCase,
    RmsNormCase,
    RopeCase,
    StepAttentionCase,
)
from kernels.plan import PlannedOp
from kernels.quant.formats import EXPERTS, dense_precision, served_head_precision
from kernels.server.execution.heads import head_case, head_kinds
from kernels.server.execution.shapes import PassShape


class Copies(IntEnum):
    """The copies of a model's weights that passes may hold beside the model's own, by what they take together."""

    NONE = 0
    STREAMED = 1
    """Packed as `skinny` streams them. Without them torch's products take passes of a few rows."""
    ALL = 2
    """And, of the products that `small_gemm` normalises, times the norm's weights. Else norms are separate kernels. In
    int8 and fp8: as `small_gemm_int8` and `small_gemm_fp8` multiply them."""


WIDENED_ROWS = 64
"""The most rows for which `small_gemm_int8` was measured faster than `small_gemm` (benchmarks/small-gemm.md).
`small_gemm_fp8` widens about as many weights in a µs and was not measured."""
VOCABULARY = 1 << 15
"""A product with so many outputs is an LM head's: cuBLAS takes it beyond MAX_ROWS rows."""
NORMED = 64
"""The most rows that `small_gemm` normalises itself. A separate norm runs while the product fetches its weights, which
hides most of it, and sums of squares of more rows take longer (benchmarks/serving.md)."""
UNTUNED = ("decode_split",)
"""Variants that take no params here."""
STREAMED = {"pdl": True, "l2_prefetch": 64}
PREFERRED = {
    "rmsnorm": "rmsnorm_triton",
    "gated": "gated_triton",
    "rope": "rope_triton",
    "attention": "decode_split",
    "step_attention": "step_hopper",
}


@dataclass(frozen=True)
class Usable:
    """What passes may use: a GPU, at most so many copies of the weights, and all variants but those in `exclude`.

    With `weights` products hold them in that precision, int8, fp8 or a form of int4, where a variant does; experts in
    int8 or mxfp4. Unless it
    `folds`, no product takes the weights of a norm in, so that a weight that was stored so has the codes that it was
    stored in. The products that end the halves of a layer are `partial` sums where a model is sharded over several
    GPUs. Experts may be `tiled`. KV pages are in `kv_dtype`, None: in that of the activations.
    """

    gpu: Gpu
    most_copies: Copies = Copies.ALL
    exclude: Collection[str] = ()
    weights: str = ""
    folds: bool = True
    partial: bool = False
    tiled: bool = False
    kv_dtype: Literal["fp8"] | None = None

    @property
    def copies(self) -> Copies:
        """The copies of the weights, without those that only excluded variants read."""
        few, more = (f"_{self.dense}", f"_{self.widened}") if self.dense else ("", "")
        readers = {f"skinny{few}": Copies.NONE, f"small_gemm{more}": Copies.STREAMED}
        return min([self.most_copies, *(left for name, left in readers.items() if name in self.exclude)])

    @property
    def dense(self) -> str:
        """`weights` of all matrices but experts."""
        return dense_precision(self.weights)

    @property
    def widened(self) -> str:
        """The precision of the same for more than MAX_ROWS rows, where products hold a lower one."""
        return "fp8" if self.dense == "fp8" else "int8"

    @property
    def of_head(self) -> "Usable":
        """The same for the LM head, whose precision may be another one."""
        return replace(self, weights=served_head_precision(self.weights))


def packed_ops(
    model: decoder.Decoder, shape: PassShape, page_size: int, capacity: int, usable: Usable
) -> list[PlannedOp]:
    """The ops of such a pass over sequences of up to `capacity` tokens; torch's own serve what is not named."""
    cases, heads = packed_cases(model, shape, page_size, capacity, usable), set(_head(model, shape.sampled, usable))
    ops = (_op(case, usable.of_head if case in heads else usable) for case in cases)
    return [op for op in ops if op is not None]


def head_ops(model: decoder.Decoder, shape: PassShape, usable: Usable) -> list[PlannedOp]:
    """The LM heads that can end such a pass, and the sampling one's norm; they read the logits' packed weight."""
    ops = (
        [(case, _op(case, usable.of_head)) for case in head_cases(model, shape)]
        if usable.copies and usable.folds
        else []
    )
    return [op for case, op in ops if op is not None] if ops and ops[0][1] else []


def head_cases(model: decoder.Decoder, shape: PassShape) -> list[Case]:
    hidden, dtype = model.lm_head.shape[1], DTYPE_NAMES[model.embedding.dtype]
    norm = RmsNormCase(m=shape.sampled, n=hidden, dtype=dtype)
    return [] if shape.blocks else [*(head_case(model, shape.sampled, kind) for kind in head_kinds(model)), norm]


def packed_cases(model: decoder.Decoder, shape: PassShape, page_size: int, capacity: int, usable: Usable) -> list[Case]:
    """The cases of such a pass, with the fusions that suit its number of rows and what it may use."""
    layer = _layer(model, shape.rows, usable)
    head = _head(model, shape.sampled, usable)
    return list(dict.fromkeys([*layer, *_paged(model, shape, page_size, capacity, usable.kv_dtype), *head]))


def fused(rows: int, usable: Usable) -> Collection[str]:
    """The epilogues that are fused into a layer's products of `rows` rows."""
    normed = MAX_ROWS if usable.dense else NORMED
    if usable.folds and rows <= {Copies.NONE: 0, Copies.STREAMED: MAX_ROWS, Copies.ALL: normed}[usable.copies]:
        return {"rmsnorm_scale", "rmsnorm_scale_bias", "rmsnorm_scale_swiglu", "swiglu", "residual"}
    if rows <= FEW:
        return {"swiglu", "residual"} if rows >= MIN_ROWS or (usable.dense and usable.copies) else ()
    return {"swiglu"} if rows >= LONG else ()


def _layer(model: decoder.Decoder, rows: int, usable: Usable) -> Iterator[Case]:
    """Norms, products and activation of one layer of `rows` rows, with the epilogues of `fused`. A norm is a kernel of
    its own where no variant serves the product that would normalise. Fusions with a norm go before equally many others.
    """
    layer_ops = LayerOps(model, BatchShape(rows, 1, 1))
    fusions = set(fused(rows, usable)) - ({"residual"} if usable.partial else set())

    def fuses(case: Case) -> bool:
        if isinstance(case, LinearCase):
            return case.epilogue in fusions and (not case.normalises or _op(case, usable) is not None)
        return _op(case, usable) is not None

    def is_fused(case: Case) -> bool:
        if isinstance(case, LinearCase):
            return case.epilogue not in {"none", "bias"}
        return isinstance(case, GroupedCase) and bool(case.gathers)

    def rank(cases: tuple[Case, ...]) -> tuple[int, int]:
        good = [fuses(case) for case in cases if is_fused(case)]
        return good.count(False), -good.count(True)

    chosen = min(layer_ops.arrangements(1), key=rank)
    yield from (case for case in chosen if isinstance(case, LinearCase | RmsNormCase | GatedCase | GroupedCase))
    yield from layer_ops.head_norms(1)


def _paged(
    model: decoder.Decoder, shape: PassShape, page_size: int, capacity: int, kv_dtype: Literal["fp8"] | None
) -> Iterator[Case]:
    """Attention, in one kernel too where pages are in the precision of the activations."""
    dtype = DTYPE_NAMES[model.embedding.dtype]
    for heads in dict.fromkeys(model.shapes):
        if not shape.blocks and kv_dtype is None and fits_step(model.layers[0], heads):
            yield step_case(model.layers[0], heads, shape.rows, capacity, dtype, page_size)
        yield rope_case(heads, shape.rows, 1, dtype, page_size, kv_dtype=kv_dtype)
        for batch, queries in ((shape.decodes, 1), (shape.blocks, shape.block)):
            if batch:
                yield attention_case(heads, "decode", batch, queries, capacity, dtype, page_size, kv_dtype)


def _head(model: decoder.Decoder, rows: int, usable: Usable) -> Iterator[Case]:
    """Few rows are normed within the product, as everywhere else; the norm's weight is folded into the head's."""
    vocab, hidden = model.lm_head.shape
    dtype = DTYPE_NAMES[model.embedding.dtype]
    epilogue: Epilogue = "rmsnorm_scale" if rows <= MAX_ROWS and usable.copies and usable.folds else "none"
    if epilogue == "none":
        yield RmsNormCase(m=rows, n=hidden, dtype=dtype)
    yield LinearCase(m=rows, n=vocab, k=hidden, dtype=dtype, weights=dtype, epilogue=epilogue)


def _op(case: Case, usable: Usable) -> PlannedOp | None:
    for own, name, params in (*_lowered(case, usable), (case, *_preferred(case, usable.copies, usable.tiled))):
        if name is None or name in usable.exclude or registry.variant(name).serves(own, usable.gpu) is not None:
            continue
        return PlannedOp(op=own.op, case=own.model_dump(), variant=name, params=params)
    return None


def _lowered(case: Case, usable: Usable) -> Iterator[tuple[Case, str, dict[str, Any]]]:
    """The case with weights in a lower precision, and the variant and params for it; none where it has no such."""
    if isinstance(case, GroupedCase) and usable.most_copies and usable.weights in EXPERTS:
        yield case.model_copy(update={"weights": usable.weights}), f"grouped_{usable.weights}", {}
    if not usable.dense or not usable.copies or not isinstance(case, LinearCase | LmHeadCase):
        return
    if case.m <= MAX_ROWS:
        name, params = _preferred(case, usable.copies, usable.tiled)
        yield case.model_copy(update={"weights": usable.dense}), f"{name}_{usable.dense}", params
    elif isinstance(case, LinearCase) and case.m <= WIDENED_ROWS and usable.copies is Copies.ALL:
        yield case.model_copy(update={"weights": usable.widened}), f"small_gemm_{usable.widened}", {"pdl": True}


def _preferred(case: Case, copies: Copies, tiled: bool) -> tuple[str | None, dict[str, Any]]:
    if isinstance(case, LinearCase):
        if case.m <= MAX_ROWS and copies:
            return "skinny", STREAMED
        if case.m <= FEW and case.n < VOCABULARY:
            tile = ONE_TILE if case.epilogue == "residual" and case.m <= LARGE_ROWS else {}
            return "small_gemm", {"pdl": True, **tile}
        return ("gemm_hopper", {}) if case.gates and case.m >= LONG else (None, {})
    if isinstance(case, LmHeadCase):
        return "lm_head_skinny", {"pdl": True, "dynamic": case.m == 1 and case.sampling == "argmax"}
    if isinstance(case, GroupedCase):
        return "grouped_hopper", {"tiled": True} if tiled else {}
    name = PREFERRED.get(case.op)
    if name in UNTUNED:
        return name, {}
    rows = case.batch if isinstance(case, RopeCase | StepAttentionCase) else getattr(case, "m", 0)
    warps = ROW_WARPS if name == "rmsnorm_triton" and rows <= FEW else {}
    return name, {"pdl": rows <= FEW, **warps}
