"""A layer's matrix products, fused with the ops before and after them wherever the plan has such a variant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from kernels.model.bound_variants import BoundVariants
from kernels.model.experts import (
    TORCH_ROUTING,
    Experts,
    Grouped,
    Order,
    Products,
    Routing,
    activated,
    apply_experts,
    biased,
    gathering,
    of_sorted,
    torch_grouped,
)
from kernels.model.layer_cases import expert_cases, few_expert_cases
from kernels.model.layer_weights import Dense, Weights
from kernels.ops import Case, DType, Epilogue, GatedCase, GroupedCase, LinearCase, RmsNormCase


@dataclass
class Stream:
    """The residual stream [m, hidden]. `delta` is an output that is not yet added to it."""

    x: Tensor
    delta: Tensor | None = None

    def summed(self) -> Tensor:
        """The stream with `delta` added."""
        if self.delta is not None:
            self.x, self.delta = self.x + self.delta, None
        return self.x


@dataclass(frozen=True)
class Rows:
    """What all products of one pass share."""

    variants: BoundVariants
    m: int
    dtype: DType
    eps: float

    def linear(self, shape: Sequence[int], epilogue: Epilogue) -> LinearCase:
        """The case of a product by shape (n, k), in the model's own precision."""
        n, k = shape
        return LinearCase(m=self.m, n=n, k=k, dtype=self.dtype, weights=self.dtype, epilogue=epilogue)

    def norm(self, stream: Stream, weight: Tensor) -> Tensor:
        """The normed stream; the norm also adds `delta`."""
        case = RmsNormCase(m=self.m, n=weight.shape[0], residual=stream.delta is not None, dtype=self.dtype)
        function = self.variants.bound(case).function
        if stream.delta is None:
            return function(stream.x, weight, eps=self.eps)
        y, stream.x = function(stream.x, weight, residual=stream.delta, eps=self.eps)
        stream.delta = None
        return y

    def head_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """x [..., heads, head_dim], normed over as many elements as the weight has: the norm of q and k that some
        families have for each head, and some for all heads together.
        """
        rows = x.reshape(-1, len(weight))
        case = RmsNormCase(m=len(rows), n=rows.shape[1], dtype=self.dtype)
        return self.variants.bound(case).function(rows, weight, eps=self.eps).view(x.shape)


Product = Callable[[Stream], Tensor]


def normed_product(rows: Rows, norm: Tensor | None, w: Tensor, bias: Tensor | None) -> Product:
    """stream ↦ rmsnorm(stream) · wᵀ + bias, in one kernel or two. Without a norm stream · wᵀ + bias."""
    plain: Epilogue = "none" if bias is None else "bias"
    if norm is None:
        alone = _product(rows, rows.linear(w.shape, plain), w, bias)
        return lambda stream: alone(stream.summed())
    fused = rows.linear(w.shape, "rmsnorm_scale" if bias is None else "rmsnorm_scale_bias")
    if _nearer(rows.variants, fused, rows.linear(w.shape, plain)):
        return _scaled(rows, fused, norm, w, bias)
    product = _product(rows, rows.linear(w.shape, plain), w, bias)
    return lambda stream: product(rows.norm(stream, norm))


def gated_product(rows: Rows, norm: Tensor | None, mlp: Dense) -> Product:
    """stream ↦ activation(gate) · up of rmsnorm(stream) · wᵀ, gate first; in one to three kernels."""
    w, bias = mlp.gate_up[0], mlp.gate_up_bias[0]
    n, k = w.shape[0] // 2, w.shape[1]
    if bias is None and mlp.activation == "silu":
        scaled, gated = rows.linear((n, k), "rmsnorm_scale_swiglu"), rows.linear((n, k), "swiglu")
        separate = rows.linear((2 * n, k), "none")
        if norm is not None and _nearer(rows.variants, scaled, gated, separate):
            return _scaled(rows, scaled, norm, w, None)
        if _nearer(rows.variants, gated, separate):
            both = _product(rows, gated, w, None)
            return lambda stream: both(stream.summed() if norm is None else rows.norm(stream, norm))
    product = normed_product(rows, norm, w, bias)
    activate = rows.variants.bound(GatedCase(m=rows.m, n=n, activation=mlp.activation, dtype=rows.dtype)).function
    return lambda stream: activate(product(stream))


def added_product(
    rows: Rows, w: Tensor, bias: Tensor | None, partial: bool = False, norm: Tensor | None = None
) -> Callable[[Tensor, Stream], None]:
    """(y, stream) ↦ stream + y · wᵀ + bias, or `delta` for the next op; with a norm stream + rmsnorm(y · wᵀ + bias). A
    `partial` product is always left: it is a rank's part of a sum.
    """
    added = rows.linear(w.shape, "residual")
    plain = rows.linear(w.shape, "none" if bias is None else "bias")
    if bias is None and not partial and norm is None and _nearer(rows.variants, added, plain):
        bound = rows.variants.bound(added)
        packed = rows.variants.pack(bound, w)

        def add(y: Tensor, stream: Stream) -> None:
            stream.x = bound.function(y, packed, residual=stream.summed())

        return add
    product = _product(rows, plain, w, bias)

    def leave(y: Tensor, stream: Stream) -> None:
        stream.summed()
        stream.delta = product(y) if norm is None else rows.norm(Stream(product(y)), norm)

    return leave


def mlp_half(rows: Rows, w: Weights, partial: bool = False) -> Callable[[Stream], None]:
    """stream ↦ stream + mlp(rmsnorm(stream)), of a dense layer or of one with experts; `partial` as `added_product`."""
    if isinstance(w.mlp, Experts):
        assert w.post_norm is not None
        return _experts(rows, w.post_norm, w.mlp)
    gate_up = gated_product(rows, w.post_norm, w.mlp)
    down = added_product(rows, w.mlp.down, w.mlp.down_bias, partial, w.mlp_norm)
    return lambda stream: down(gate_up(stream), stream)


def _experts(rows: Rows, norm: Tensor, w: Experts) -> Callable[[Stream], None]:
    """The experts' outputs are left as `delta`. Where no product is planned, torch's own runs without the host."""
    logits = rows.linear(w.router.shape, "none" if w.router_bias is None else "bias")
    by = Products(_product(rows, logits, w.router, w.router_bias), _gated_experts(rows, w), _down_of_experts(rows, w))
    routing = _routing(w.router)

    def run(stream: Stream) -> None:
        stream.delta = apply_experts(rows.norm(stream, norm), w, by, routing)

    return run


def _gated_experts(rows: Rows, w: Experts) -> Callable[[Tensor, Order], Tensor]:
    """Gate and up with the activation: in one kernel that also gathers rows and adds the bias, or one after the other.
    Only variants of weights in fewer bits are such a kernel.
    """
    wide, gate, _ = expert_cases(w, rows.m, rows.dtype)
    few_row_case, _ = few_expert_cases(w, rows.m, rows.dtype)
    if not w.tiled and _nearer(rows.variants, few_row_case, wide):
        function = _packed(rows, few_row_case, w.gate_up, w.gate_up_bias)
        return lambda x, order: function(x, order.offs, token=order.token)
    product = _grouped(rows, wide, w.gate_up, w.tiled)
    if gate is None:
        return gathering(product, w.gate_up)
    return gathering(activated(biased(product, w.gate_up_bias), rows.variants.bound(gate).function), w.gate_up)


def _down_of_experts(rows: Rows, w: Experts) -> Callable[[Tensor, Order], Tensor]:
    narrow = expert_cases(w, rows.m, rows.dtype)[-1]
    few_row_case = few_expert_cases(w, rows.m, rows.dtype)[-1]
    if few_row_case != narrow and _nearer(rows.variants, few_row_case, narrow):
        function = _packed(rows, few_row_case, w.down, w.down_bias)
        return lambda x, order: function(x, order.offs)
    return of_sorted(biased(_grouped(rows, narrow, w.down, w.tiled), w.down_bias), w.down)


def _packed(rows: Rows, case: GroupedCase, w: Tensor, bias: Tensor | None) -> Callable[..., Tensor]:
    """f(x, offs, token) of the planned variant, which holds its own form of w; an expert has a row a token at most."""
    bound = rows.variants.bound(case)
    packed = rows.variants.pack(bound, w)
    more = {"most": rows.m} | ({} if bias is None else {"bias": bias})
    return lambda x, offs, **kwargs: bound.function(x, packed, offs, **more, **kwargs)


def _routing(router: Tensor) -> Routing:
    """Triton's on a GPU, for which torch's meta device stands, else torch's."""
    if router.device.type == "cpu":
        return TORCH_ROUTING
    from kernels.model.experts_triton import ROUTING

    return ROUTING


def _grouped(rows: Rows, case: GroupedCase, w: Tensor, tiled: bool) -> Grouped:
    """The planned product, in fewer bits with its own form of w. Raises ValueError for tiles without one."""
    planned = rows.variants.planned(case)
    if tiled and (planned is None or not planned.params.get("tiled")):
        raise ValueError(f"{case.key}: no product of tiles is planned")
    if planned is None:
        return torch_grouped
    if not planned.variant.lossy:
        return planned.function
    function = _packed(rows, case, w, None)
    return lambda x, _, offs: function(x, offs)


def _scaled(rows: Rows, case: LinearCase, norm: Tensor, w: Tensor, bias: Tensor | None) -> Product:
    bound = rows.variants.bound(case)
    packed = rows.variants.pack(bound, w, norm)
    more = {} if bias is None else {"bias": bias}
    return lambda stream: bound.function(stream.summed(), packed, eps=rows.eps, **more)


def _product(rows: Rows, case: LinearCase, w: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    bound = rows.variants.bound(case)
    packed = rows.variants.pack(bound, w)
    more = {} if bias is None else {"bias": bias}
    return lambda x: bound.function(x, packed, **more)


def _nearer(variants: BoundVariants, case: Case, *others: Case) -> bool:
    """Whether the case is planned, and no other case is planned for a size nearer to its own."""
    planned = variants.planned(case)
    if planned is None:
        return False
    alternatives = [bound.distance for bound in map(variants.planned, others) if bound is not None]
    return all(planned.distance <= distance for distance in alternatives)
