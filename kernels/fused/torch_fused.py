"""torch's variants of the small ops between the matrix products: RMSNorm, gated activation, RoPE, LM head."""

from collections.abc import Callable
from typing import Any

from kernels.hardware import Gpu
from kernels.ops import GatedCase, LmHeadCase, RmsNormCase, RopeCase
from kernels.ops.gated import apply_gate
from kernels.ops.lm_head import TOP_K
from kernels.ops.paged_kv import scale_kv, slots
from kernels.ops.rope import AppendArguments, rope
from kernels.registry import Peer, Refusal, register
from kernels.torch_compiled import register_compiled


@register
class TorchRmsNorm(Peer):
    """torch's rms_norm, after the addition of a residual if given."""

    name = "torch_rmsnorm"
    op = "rmsnorm"
    summary = "torch's rms_norm, the residual added before it"

    def serves(self, case: RmsNormCase, gpu: Gpu) -> Refusal | None:
        return None

    def function(self, case: RmsNormCase) -> Callable[..., Any]:
        import torch.nn.functional as F

        from kernels.quant.scaled import of_x

        def norm(x: Any, w: Any, residual: Any = None, eps: float = 1e-6) -> Any:
            total = x if residual is None else x + residual
            y = F.rms_norm(total, (case.n,), w, eps)
            outputs = (*(of_x(y, "row") if case.quantise else (y,)), *(() if residual is None else (total,)))
            return outputs if len(outputs) > 1 else y

        return norm


@register
class TorchGated(Peer):
    """Two slices, an activation and a product."""

    name = "torch_gated"
    op = "gated"
    summary = "torch's activation and product, one after the other"

    def serves(self, case: GatedCase, gpu: Gpu) -> Refusal | None:
        return None

    def function(self, case: GatedCase) -> Callable[..., Any]:
        return lambda gate_up: apply_gate(case, gate_up)


def append_refusal(case: RopeCase) -> Refusal | None:
    """The refusal of a cache where nothing is appended to one."""
    if case.paged and not case.append:
        return Refusal("the cache is paged and nothing is appended: only an append writes pages")
    if case.kv_dtype is not None and not case.append:
        return Refusal(f"kv_dtype is {case.kv_dtype} and nothing is appended: only an append writes a cache")
    return None


@register
class TorchRope(Peer):
    """Rotation by halves, as transformers writes it; an append is an indexed assignment after it."""

    name = "torch_rope"
    op = "rope"
    summary = "torch's rotation by halves, then an indexed assignment to the cache"

    def serves(self, case: RopeCase, gpu: Gpu) -> Refusal | None:
        if case.head_dim % 2:
            return Refusal(f"head_dim is {case.head_dim}: a rotation by halves needs an even one")
        return append_refusal(case)

    def function(self, case: RopeCase) -> Callable[..., Any]:
        if not case.append:
            return rope

        def append(*arguments: Any, **named: Any) -> Any:
            given = AppendArguments(*arguments, **named)
            q, k = rope(given.q, given.k, given.cos, given.sin)
            at = slots(given.position, case.q_len, given.page_table, given.k_cache.shape[1])
            for cache, rows, scale in ((given.k_cache, k, given.k_scale), (given.v_cache, given.v, given.v_scale)):
                cache[at] = (rows if scale is None else scale_kv(rows, scale)).to(cache.dtype)
            return q

        return append


def _unequal(case: LmHeadCase) -> Refusal | None:
    if case.weights != case.dtype:
        return Refusal(f"weights is {case.weights} and dtype {case.dtype}: torch wants them equal")
    return None


@register
class TorchLmHead(Peer):
    """The whole logits, then an argmax."""

    name = "torch_lm_head"
    op = "lm_head"
    summary = "torch's product with the whole vocabulary, then argmax"

    def serves(self, case: LmHeadCase, gpu: Gpu) -> Refusal | None:
        if case.sampling != "argmax":
            return Refusal(f"sampling is {case.sampling}: this variant takes the largest logit only")
        return _unequal(case)

    def function(self, case: LmHeadCase) -> Callable[..., Any]:
        import torch.nn.functional as F

        return lambda x, w: F.linear(x, w).argmax(dim=-1)


@register
class TorchLmHeadSampling(Peer):
    """The whole logits, then top-k, softmax, top-p and a draw."""

    name = "torch_lm_head_sampling"
    op = "lm_head"
    summary = "torch's product with the whole vocabulary, then a draw from the best"

    def serves(self, case: LmHeadCase, gpu: Gpu) -> Refusal | None:
        if case.sampling != "top_k_p":
            return Refusal(f"sampling is {case.sampling}: this variant draws from the best")
        return _unequal(case)

    def function(self, case: LmHeadCase) -> Callable[..., Any]:
        import torch.nn.functional as F

        from kernels.fused.torch_sampling import sample

        def sample_rows(
            x: Any, w: Any, temperature: Any, top_p: Any, seed: Any, stream: Any, index: Any, top_k: Any = TOP_K
        ) -> Any:
            return sample(F.linear(x, w), temperature, top_p, seed, stream, index, top_k)

        return sample_rows


register_compiled(TorchRmsNorm, "torch's rms_norm")
register_compiled(TorchGated, "torch's activation and product")
register_compiled(TorchRope, "torch's rotation and append")
register_compiled(TorchLmHeadSampling, "torch's product and draw")  # eager, the generator alone takes 160 launches
register_compiled(TorchLmHead, "torch's product and argmax")
