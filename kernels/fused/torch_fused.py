"""What torch offers for the small ops between the matrix products: RMSNorm, gated activation, RoPE, LM head."""

from collections.abc import Callable
from typing import Any

from kernels.hardware import Gpu
from kernels.ops import GatedCase, LmHeadCase, RmsNormCase, RopeCase
from kernels.registry import Refusal, Variant, register


def _no_params(name: str, params: dict[str, Any]) -> None:
    if params:
        raise ValueError(f"{name} takes no params, not {', '.join(sorted(params))}")


@register
class TorchRmsNorm(Variant):
    """torch's rms_norm, after an addition when there is a residual."""

    name = "torch_rmsnorm"
    op = "rmsnorm"
    summary = "torch's rms_norm, the residual added before it"
    peer = True

    def serves(self, case: RmsNormCase, gpu: Gpu) -> Refusal | None:
        return None

    def build(self, case: RmsNormCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(x, w, residual=None, eps=1e-6) -> y or (y, x + residual)."""
        import torch.nn.functional as F

        _no_params(self.name, params)

        def norm(x: Any, w: Any, residual: Any = None, eps: float = 1e-6) -> Any:
            if residual is None:
                return F.rms_norm(x, (case.n,), w, eps)
            total = x + residual
            return F.rms_norm(total, (case.n,), w, eps), total

        return norm


@register
class TorchGated(Variant):
    """Two slices, an activation and a product."""

    name = "torch_gated"
    op = "gated"
    summary = "torch's activation and product, one after the other"
    peer = True

    def serves(self, case: GatedCase, gpu: Gpu) -> Refusal | None:
        return None

    def build(self, case: GatedCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(gate_up) -> y."""
        from kernels import reference

        _no_params(self.name, params)
        return lambda gate_up: reference.gated(case, gate_up)


@register
class TorchRope(Variant):
    """Rotation by halves, as transformers writes it."""

    name = "torch_rope"
    op = "rope"
    summary = "torch's rotation by halves"
    peer = True

    def serves(self, case: RopeCase, gpu: Gpu) -> Refusal | None:
        if case.append or case.paged:
            return Refusal("append or paged is true: torch has no rotation that also writes the cache")
        if case.head_dim % 2:
            return Refusal(f"head_dim is {case.head_dim}: a rotation by halves needs an even one")
        return None

    def build(self, case: RopeCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(q, k, cos, sin) -> (q, k)."""
        from kernels import reference

        _no_params(self.name, params)
        return reference.rope


@register
class TorchLmHead(Variant):
    """The whole logits, then an argmax."""

    name = "torch_lm_head"
    op = "lm_head"
    summary = "torch's product with the whole vocabulary, then argmax"
    peer = True

    def serves(self, case: LmHeadCase, gpu: Gpu) -> Refusal | None:
        if case.sampling != "argmax":
            return Refusal(f"sampling is {case.sampling}: this variant takes the largest logit only")
        if case.weights != case.dtype:
            return Refusal(f"weights is {case.weights} and dtype {case.dtype}: torch wants them equal")
        return None

    def build(self, case: LmHeadCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(x, w) -> ids [m] int64."""
        import torch.nn.functional as F

        _no_params(self.name, params)
        return lambda x, w: F.linear(x, w).argmax(dim=-1)
