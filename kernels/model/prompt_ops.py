"""The ops of a prompt's pass when no plan names any, by its size alone, as measured in models on an H200."""

from collections.abc import Collection, Iterable, Iterator

from kernels import registry
from kernels.attention import flash_triton
from kernels.hardware import Gpu
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.prompts import bucket
from kernels.ops import TORCH_VARIANTS, AttentionCase, Case, GroupedCase, LinearCase, LmHeadCase, RmsNormCase, case_from
from kernels.plan import PlannedOp
from kernels.tune.plan_search import planned_op
from kernels.tune.plan_search import usable as in_pass

FEW, LONG = 192, 1024
"""Numbers of rows. Up to FEW, `small_gemm` is fastest in a chain of dependent launches. From LONG on, the large Hopper
kernels are: SwiGLU within the product, and attention. Between them it is cuBLAS with Triton's kernels as dependent
launches."""
ANY_SIZE = {
    "rmsnorm": ("rmsnorm_triton",),
    "gated": ("gated_triton",),
    "rope": ("rope_triton",),
    "lm_head": ("lm_head_skinny",),
    "grouped": ("grouped_hopper", "grouped_blackwell"),
}
"""The ops beside the dense products, and the streamed head, at any size."""
SMALL_TILE = {"block_m": 64, "block_n": 64, "warps": 4, "stages": 2}
"""Tiles of `flash_triton` for head_dim up to SMALL_HEADS, where tiles of LARGE_ROWS queries would not reach all SMs."""
SMALL_HEADS, LARGE_ROWS = 128, 128
ROW_WARPS = {"warps": 8}
"""Params of `rmsnorm_triton` up to FEW rows, where only the next product waits for it."""
ONE_TILE = {"tokens": 1}
"""The tile config of a product with residual up to LARGE_ROWS rows: the fastest in the chain, not alone."""

PACKS_HEAD = ("lm_head_skinny",)
"""A variant of the prompt's LM head that several GPUs do without: it holds the head once more, on the first of them."""


def prompt_ops(
    layer_ops: LayerOps, gpu: Gpu, exclude: Collection[str] = (), *, sharded: bool = False
) -> list[PlannedOp]:
    """The ops for the traffic's prompts, without the variants in `exclude`. Where no other variant serves, torch's own
    does. Of a rank of a `sharded` model neither a product nor a norm adds to the residual stream.
    """
    usable = {variant.name for variant in registry.variants() if variant.name not in exclude}
    rows = layer_ops.traffic.batch * bucket(layer_ops.traffic.prompt)
    small = gpu.sm == 90 and rows <= FEW and "small_gemm" in usable
    many = gpu.sm == 90 and rows >= LONG and "gemm_hopper" in usable
    fused = ({"swiglu"} if small or many else set()) | ({"residual"} if small and not sharded else set())
    cases = dict.fromkeys([*_layer(layer_ops, fused), *layer_ops.final_ops()])
    if sharded:
        cases = dict.fromkeys(_without_residual(case) for case in cases)
    ops = [op for op in (_op(case, gpu, usable) for case in cases) if op is not None]
    return [
        *(ops if small and not sharded else map(_without_pdl, ops)),
        *last_rows(layer_ops, gpu, exclude, sharded=sharded),
    ]


def last_rows(
    layer_ops: LayerOps, gpu: Gpu, exclude: Collection[str] = (), *, sharded: bool = False
) -> list[PlannedOp]:
    """The products of each prompt's last token after the last attention, by streaming variants; [] if no variant
    serves. They are not dependent launches, which were never faster in the prompts measured.
    """
    variant = registry.variant("skinny")
    forms = (cases for cases in layer_ops.arrangements(1) if not sharded or "residual" not in _epilogues(cases))
    linear = [case for case in next(forms) if isinstance(case, LinearCase)]
    served = [case for case in linear[1:] if variant.name not in exclude and variant.serves(case, gpu) is None]
    return [PlannedOp(op=case.op, case=case.model_dump(), variant=variant.name) for case in served]


def of_prompts(ops: Collection[PlannedOp], traffic: BatchShape) -> list[PlannedOp]:
    """The ops of a whole plan that its prompts run, including the head, which every pass runs."""
    return [op for op in ops if is_of_prompts(case_from.validate_python(op.case), traffic)]


def is_of_prompts(case: Case, traffic: BatchShape) -> bool:
    """Whether a prompt's pass runs the case, or the head. Experts and norms of heads have several rows a token."""
    queries = bucket(traffic.prompt)
    if isinstance(case, LmHeadCase):
        return True
    if hasattr(case, "q_len"):
        return bool(case.q_len == queries)
    rows = case.rows if isinstance(case, GroupedCase) else getattr(case, "m", 0)
    return rows > 0 and rows % (traffic.batch * queries) == 0


def _without_pdl(op: PlannedOp) -> PlannedOp:
    """Triton's ops as ordinary launches: dependent ones are safe only beside dependent neighbours."""
    if not op.variant.endswith("_triton"):
        return op
    return op.model_copy(update={"params": {**op.params, "pdl": False}})


def _without_residual(case: Case) -> Case:
    return case.model_copy(update={"residual": False}) if isinstance(case, RmsNormCase) else case


def _layer(layer_ops: LayerOps, fused: Collection[str]) -> Iterator[Case]:
    """The cases of one layer. Its products have no epilogues but those in `fused`."""
    queries = bucket(layer_ops.traffic.prompt)
    allowed = {"none", "bias", *fused}
    cases = next(cases for cases in layer_ops.arrangements(queries) if _epilogues(cases) <= allowed)
    yield from cases
    yield from layer_ops.head_norms(queries)


def _epilogues(cases: Iterable[Case]) -> set[str]:
    return {case.epilogue for case in cases if isinstance(case, LinearCase)}


def _op(case: Case, gpu: Gpu, usable: set[str]) -> PlannedOp | None:
    for name in (*_preferred(case), *TORCH_VARIANTS):
        variant = registry.variant(name)
        if name in usable and variant.op == case.op and variant.serves(case, gpu) is None and in_pass(case, name):
            return planned_op(case, name, _params(case, name, gpu))
    return None


def _preferred(case: Case) -> tuple[str, ...]:
    if isinstance(case, LinearCase):
        if case.m <= FEW:
            return ("small_gemm",)
        return ("gemm_hopper",) if case.gates else ()
    if isinstance(case, AttentionCase):
        return ("flash_hopper", "flash_triton") if case.q_len >= LONG else ("flash_triton",)
    return ANY_SIZE.get(case.op, ())


def _params(case: Case, name: str, gpu: Gpu) -> dict[str, int]:
    if name == "small_gemm" and isinstance(case, LinearCase):
        return ONE_TILE if case.epilogue == "residual" and case.m <= LARGE_ROWS else {}
    if name == "rmsnorm_triton" and isinstance(case, RmsNormCase):
        return ROW_WARPS if case.m <= FEW else {}
    if name == "flash_triton" and isinstance(case, AttentionCase):
        return _tile(case, gpu)
    return {}


def _tile(case: AttentionCase, gpu: Gpu) -> dict[str, int]:
    tiles = case.batch * case.heads * -(-case.q_len // LARGE_ROWS)
    if case.head_dim > SMALL_HEADS or tiles >= gpu.sms:
        return {}
    short = flash_triton.all_keys(case)
    return SMALL_TILE if short is None else dict(zip(flash_triton.PARAMS, short, strict=True))
