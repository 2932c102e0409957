"""A plan's variants of linear and attention, installed where a model calls them."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from kernels import registry
from kernels.dtypes import DTYPE_NAMES
from kernels.hardware import Gpu
from kernels.model.bound_variants import BoundVariant, BoundVariants
from kernels.ops import AttentionCase, Epilogue, LinearCase, case_from
from kernels.plan import PlannedOp

UNCHANGED = ("torch_linear",)
"""Variants that change nothing: torch calls the same."""
PLAIN: tuple[Epilogue, Epilogue] = ("none", "bias")
"""Epilogues of a product that replaces a module's linear: without a bias, and with one."""


class PlannedLinear:
    """f(x [..., k], w [n, k], bias) by the variant planned for (n, k) at the nearest rows, or torch's linear where none
    can serve. Dynamo does not trace into it: variants are kernels already.
    """

    def __init__(self, ops: Iterable[PlannedOp], gpu: Gpu) -> None:
        planned: dict[tuple[int, int], list[PlannedOp]] = {}
        for op in ops:
            if op.op == "linear" and op.case["epilogue"] in PLAIN and op.variant not in UNCHANGED:
                planned.setdefault((op.case["n"], op.case["k"]), []).append(op)
        self._shapes = set(planned)
        self.variants = BoundVariants(
            (planned_op for group in planned.values() for planned_op in _for_both(group)), gpu
        )
        self._at: dict[tuple[int, int, int, bool], BoundVariant | None] = {}

    def __bool__(self) -> bool:
        return bool(self._shapes)

    def has(self, n: int, k: int) -> bool:
        """Whether a variant is planned for weights of this shape."""
        return (n, k) in self._shapes

    @torch.compiler.disable
    def __call__(self, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
        rows, (n, k) = x.numel() // x.shape[-1], w.shape
        at = (rows, n, k, bias is not None)
        if at not in self._at:
            dtype = DTYPE_NAMES[x.dtype]
            epilogue = PLAIN[bias is not None]
            case = LinearCase(m=rows, n=n, k=k, dtype=dtype, weights=dtype, epilogue=epilogue)
            self._at[at] = self.variants.planned(case) if rows else None
        bound = self._at[at]
        if bound is None:
            return F.linear(x, w, bias)
        out: Tensor = bound.function(x.reshape(rows, k), self.variants.pack(bound, w), bias)
        return out.reshape(*x.shape[:-1], n)


def _for_both(ops: list[PlannedOp]) -> list[PlannedOp]:
    """Ops planned for one matrix. If only products with a bias are planned, or only those without, they serve both."""
    both = list(ops)
    for epilogue in PLAIN:
        if all(op.case["epilogue"] != epilogue for op in ops):
            both += [op.model_copy(update={"case": op.case | {"epilogue": epilogue}}) for op in ops]
    return both


class PlannedAttention:
    """The variants planned for attention. `pick` finds one for given shapes and any lengths."""

    def __init__(self, ops: Iterable[PlannedOp], gpu: Gpu) -> None:
        self._gpu = gpu
        self._chosen: dict[str, tuple[registry.Variant, dict[str, Any]]] = {}
        self._built: dict[str, Callable[..., Tensor] | None] = {}
        for op in ops:
            case = case_from.validate_python(op.case | {"op": op.op}) if op.op == "attention" else None
            if isinstance(case, AttentionCase):
                self._chosen[case.kind] = registry.variant(op.variant), op.params

    def __bool__(self) -> bool:
        return bool(self._chosen)

    def pick(self, q: Tensor, k: Tensor, window: int | None = None) -> Callable[..., Tensor] | None:
        """The callable for q [b, q, h, d] and k [b, kv, kv_h, d], or None when none is planned or it cannot serve."""
        kind = "decode" if q.shape[1] == 1 else "prefill"
        if kind not in self._chosen or (kind == "prefill" and q.shape[1] != k.shape[1]):
            return None
        case = AttentionCase(
            kind=kind,
            head_dim=q.shape[3],
            heads=q.shape[2],
            kv_heads=k.shape[2],
            batch=q.shape[0],
            q_len=q.shape[1],
            kv_len=k.shape[1],
            dtype=DTYPE_NAMES[q.dtype],
            kv_dtype=DTYPE_NAMES[k.dtype],
            window=window if window is not None and window < k.shape[1] else None,
        )
        if case.key not in self._built:
            variant, params = self._chosen[kind]
            self._built[case.key] = None if variant.serves(case, self._gpu) else variant.build(case, params)
        return self._built[case.key]

    @torch.compiler.disable
    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
        """The planned attention of a whole prompt; None if torch's has to compute it."""
        call = self.pick(q, k)
        return None if call is None else call(q, k, v)


def install(model: Any, linear: PlannedLinear, attention: PlannedAttention) -> None:
    """Puts the variants into transformers' own modules, in place."""
    if linear:
        for module in model.modules():
            if type(module) is torch.nn.Linear:
                module.forward = _linear_forward(module, linear)  # type: ignore[method-assign, assignment]
    if attention and model.config._attn_implementation == "sdpa":
        name = f"planned-{id(attention):x}"
        AttentionInterface.register(name, _attention_forward(attention))
        AttentionMaskInterface.register(name, sdpa_mask)
        model.set_attn_implementation(name)


def _linear_forward(module: torch.nn.Linear, linear: PlannedLinear) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        return linear(x, module.weight, module.bias)

    return forward


def _attention_forward(planned: PlannedAttention) -> Any:
    def forward(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **keywords: Any
    ) -> tuple[Tensor, Tensor | None]:
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        plain = keywords.get("scaling") in (None, q.shape[-1] ** -0.5) and getattr(module, "is_causal", False)
        call = planned.pick(q, k) if plain and attention_mask is None else None
        if call is None:
            return sdpa_attention_forward(module, query, key, value, attention_mask, **keywords)
        return call(q, k, v), None

    return forward
