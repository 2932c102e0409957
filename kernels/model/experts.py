"""Layers of experts: a router chooses some of the experts for each token, and what these give is added up.

    x ─► router, softmax, best ─► rows sorted by expert ─► gate and up, SwiGLU ─► down ─► times their weights, summed
                                  └────────── products of all experts: one each ──────┘

All shapes depend on the number of tokens alone, and the host reads nothing, so that a CUDA graph can hold it. Here are
torch's products; `kernels.model.products` takes the plan's.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.model_files.config import ALIASES
from kernels.ops.gated import swigluoai

MODEL_TYPES = ("qwen3_moe", "mixtral", "olmoe", "gpt_oss")
NORMALISED = ("mixtral", "gpt_oss")
"""Families whose weights always sum to 1; the others' configurations say it by `norm_topk_prob`."""
FLOAT_WEIGHTS = ("mixtral",)
"""Families whose weights stay float32; the others round them to the dtype of the activations."""

FEW = 3
"""A weight that is copied is moved so many times: read, written and read again."""

Grouped = Callable[[Tensor, Tensor, Tensor], Tensor]
"""f(x [rows, k], w [experts, n, k], offs [experts] int32) -> [rows, n]: the rows of expert e end at offs[e]."""


class Experts(NamedTuple):
    """The weights of one layer's experts: `router` [experts, hidden], `gate_up` [experts, 2 · inner, hidden] with the
    gate first, and `down` [experts, hidden, inner]; or the latter two as tiles (expert_tiles.py). A token goes to
    `top_k` of them. Weights that are `normalised` sum to 1; `rounded` ones are rounded to the dtype of the activations.

    gpt-oss's have biases, of the router [experts], of gate and up [experts, 2 · inner] and of down [experts, hidden];
    their activation is `swigluoai`, for which rows of gate and up alternate.
    """

    router: Tensor
    gate_up: Tensor
    down: Tensor
    top_k: int
    normalised: bool
    rounded: bool
    router_bias: Tensor | None = None
    gate_up_bias: Tensor | None = None
    down_bias: Tensor | None = None
    activation: Literal["silu", "swigluoai"] = "silu"

    @property
    def tiled(self) -> bool:
        """Whether gate_up and down are tiles."""
        return self.gate_up.dim() == 4

    @property
    def inner(self) -> int:
        """The intermediate size of an expert."""
        return self.down.numel() // self.router.numel()


class Order(NamedTuple):
    """Tokens' rows sorted by expert: `token` [m · top_k] of each sorted row, `offs` [experts] int32 of the experts'
    rows, and `inverse` [m, top_k] of each token's rows among them.
    """

    token: Tensor
    offs: Tensor
    inverse: Tensor


def has_experts(config: Any) -> bool:
    """Whether the tokens of a transformers configuration use only some of the model's weights."""
    return any(getattr(config, name, None) for name in ALIASES["experts"])


def is_sparse(layer: Any) -> bool:
    """Whether a layer of a transformers model has experts."""
    return hasattr(layer.mlp, "experts")


def router_of(mlp: Any) -> Any:
    """The router's module of a layer's `mlp` in a transformers model."""
    return mlp.router if hasattr(mlp, "router") else mlp.gate


def experts_of(config: Any, mlp: Any) -> Experts:
    """The experts of a layer's `mlp` in a transformers model, without a copy: where the model has them as [experts, in,
    out], its parameters become views of [experts, out, in].
    """
    family, router, experts = config.model_type, router_of(mlp), mlp.experts
    turned = getattr(experts, "is_transposed", False)
    return Experts(
        router=router.weight,
        gate_up=_turned(experts.gate_up_proj) if turned else experts.gate_up_proj,
        down=_turned(experts.down_proj) if turned else experts.down_proj,
        top_k=config.num_experts_per_tok,
        normalised=family in NORMALISED or bool(getattr(config, "norm_topk_prob", False)),
        rounded=family not in FLOAT_WEIGHTS,
        router_bias=getattr(router, "bias", None),
        gate_up_bias=getattr(experts, "gate_up_proj_bias", None),
        down_bias=getattr(experts, "down_proj_bias", None),
        activation="swigluoai" if family == "gpt_oss" else "silu",
    )


def _turned(parameter: Tensor) -> Tensor:
    """A parameter [experts, in, out] as [experts, out, in], contiguous, of which it becomes a view."""
    turned = parameter.detach().transpose(1, 2).contiguous()
    parameter.data = turned.transpose(1, 2)
    return turned


def unchosen_parameters(config: Any, mlp: Any) -> int:
    """The parameters of the experts of a layer's `mlp` in a transformers model that multiply nothing of one token."""
    experts = len(router_of(mlp).weight)
    size = sum(parameter.numel() for parameter in mlp.experts.parameters()) // experts
    return size * (experts - config.num_experts_per_tok)


def route(logits: Tensor, w: Experts) -> tuple[Tensor, Tensor]:
    """Weights [m, top_k] float32 and ids [m, top_k] int64 that the router's logits [m, experts] choose."""
    chances = torch.softmax(logits, dim=-1, dtype=torch.float32)
    topk_weights, topk_ids = chances.topk(w.top_k, dim=-1)
    if w.normalised:
        topk_weights = topk_weights / topk_weights.sum(-1, keepdim=True)
    return topk_weights.to(logits.dtype).float() if w.rounded else topk_weights, topk_ids


def order_by_expert(topk_ids: Tensor, experts: int) -> Order:
    """The order of the rows of `topk_ids` [m, top_k] by expert, and by token where the expert is the same."""
    sorted_experts, order = topk_ids.flatten().sort(stable=True)
    offs = torch.searchsorted(sorted_experts, torch.arange(experts, device=topk_ids.device), right=True, out_int32=True)
    inverse = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=topk_ids.device))
    return Order(order // topk_ids.shape[1], offs, inverse.view_as(topk_ids))


def combine_experts(y: Tensor, topk_weights: Tensor, inverse: Tensor) -> Tensor:
    """[m, hidden] in y's dtype: each token's rows of y [m · top_k, hidden] times weights, summed in float32."""
    return (y[inverse].float() * topk_weights[..., None]).sum(1).to(y.dtype)


def route_and_order(logits: Tensor, w: Experts) -> tuple[Tensor, Order]:
    """The weights of `route`, and the order of the rows that it chooses."""
    topk_weights, topk_ids = route(logits, w)
    return topk_weights, order_by_expert(topk_ids, len(w.router))


class Routing(NamedTuple):
    """`route_and_order` and `combine_experts`, or kernels in their place."""

    placed: Callable[[Tensor, Experts], tuple[Tensor, Order]]
    combined: Callable[[Tensor, Tensor, Tensor], Tensor]


class Products(NamedTuple):
    """What a layer of experts multiplies by: `router` x ↦ logits [m, experts]; `gated`, of x [m, hidden], the product
    of gate and up with its activation, in the order of the sorted rows; and `down` of what that gives.
    """

    router: Callable[[Tensor], Tensor]
    gated: Callable[[Tensor, Order], Tensor]
    down: Callable[[Tensor, Order], Tensor]


def apply_experts(x: Tensor, w: Experts, by: Products, routing: Routing) -> Tensor:
    """y [m, hidden] of x [m, hidden]."""
    topk_weights, order = routing.placed(by.router(x), w)
    return routing.combined(by.down(by.gated(x, order), order), topk_weights, order.inverse)


def gathering(product: Grouped, w: Tensor) -> Callable[[Tensor, Order], Tensor]:
    """The product of each token's rows of x [m, hidden]."""
    return lambda x, order: product(x[order.token], w, order.offs)


def of_sorted(product: Grouped, w: Tensor) -> Callable[[Tensor, Order], Tensor]:
    """The product of rows that are sorted already."""
    return lambda x, order: product(x, w, order.offs)


def activated(product: Grouped, activate: Callable[[Tensor], Tensor]) -> Grouped:
    """The product, and the activation of what it gives."""
    return lambda x, w, offs: activate(product(x, w, offs))


def biased(product: Grouped, bias: Tensor | None) -> Grouped:
    """The product, with the bias [experts, n] of each row's expert added to what it gives."""
    if bias is None:
        return product
    return lambda x, w, offs: product(x, w, offs) + bias[_expert_of_rows(x, offs)]


def torch_experts(x: Tensor, w: Experts) -> Tensor:
    by = products_of(w, torch_grouped)
    return apply_experts(x, w, by, TORCH_ROUTING)


def products_of(w: Experts, product: Grouped) -> Products:
    """torch's router and activation around a product."""
    activate = swiglu if w.activation == "silu" else swigluoai
    return Products(
        lambda rows: F.linear(rows, w.router, w.router_bias),
        gathering(activated(biased(product, w.gate_up_bias), activate), w.gate_up),
        of_sorted(biased(product, w.down_bias), w.down),
    )


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) · up of gate_up [..., 2n], the gate first."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def torch_grouped(x: Tensor, w: Tensor, offs: Tensor) -> Tensor:
    """A `Grouped` by torch alone. On a GPU the host reads nothing: a Hopper GPU runs torch's grouped product in bf16.
    Otherwise few rows copy the weights of their experts, and of more rows every expert multiplies all.
    """
    if x.is_meta:
        return x.new_empty(len(x), w.shape[1])
    if not x.is_cuda:
        return _by_expert(x, w, offs)
    if x.dtype == torch.bfloat16 and torch.cuda.get_device_capability(x.device) == (9, 0) and x.shape[1] % 8 == 0:
        return torch._grouped_mm(x, w.transpose(-2, -1), offs=offs)
    return _by_gathered_weights(x, w, offs) if FEW * len(x) <= len(w) else _by_masking(x, w, offs)


def _by_expert(x: Tensor, w: Tensor, offs: Tensor) -> Tensor:
    """A product for each expert that has rows; the host reads `offs`."""
    y, begin = x.new_empty(len(x), w.shape[1]), 0
    for expert, end in enumerate(offs.tolist()):
        if end > begin:
            torch.mm(x[begin:end], w[expert].t(), out=y[begin:end])
        begin = end
    return y


def _expert_of_rows(x: Tensor, offs: Tensor) -> Tensor:
    """The expert of each row, int64."""
    at = torch.searchsorted(offs, torch.arange(len(x), device=x.device, dtype=offs.dtype), right=True)
    return at.clamp_max(len(offs) - 1)


def _by_gathered_weights(x: Tensor, w: Tensor, offs: Tensor) -> Tensor:
    """Each row times its expert's weights, which are copied for it."""
    gathered = w[_expert_of_rows(x, offs)]
    return torch.bmm(gathered, x[..., None])[..., 0]


def _by_masking(x: Tensor, w: Tensor, offs: Tensor) -> Tensor:
    """Every expert's product with all rows: as many times the FLOPs as there are experts, but of fixed shapes."""
    expert = _expert_of_rows(x, offs)
    y = x.new_zeros(len(x), w.shape[1])
    for number, matrix in enumerate(w):
        y = torch.where((expert == number)[:, None], F.linear(x, matrix), y)
    return y


TORCH_ROUTING = Routing(route_and_order, combine_experts)
