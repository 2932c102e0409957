"""The small ops between the matrix products, written in Triton: RMSNorm, gated activation, RoPE with KV append."""

from collections.abc import Callable
from typing import Any

from kernels.check_args import gpu_refusal, merge_params
from kernels.fused.torch_fused import append_refusal
from kernels.hardware import Gpu
from kernels.ops import GatedCase, RmsNormCase, RopeCase
from kernels.registry import Refusal, Variant, register

WIDEST_ROW = 16_384
"""The longest row in elements that one program holds in registers."""
WITHOUT_PDL: dict[str, Any] = {"pdl": False}
PDL_CHOICES = ({"pdl": True}, {"pdl": False})
"""What a model's pass tries: dependent launches on GPUs that support them, and ordinary ones."""


@register
class RmsNormTriton(Variant):
    """One pass over whole rows: residual, norm and quantisation."""

    name = "rmsnorm_triton"
    kernels = ("_rmsnorm",)
    op = "rmsnorm"
    page = "rmsnorm"
    summary = "RMSNorm with residual and fp8 output in one pass"
    in_a_model = PDL_CHOICES

    def serves(self, case: RmsNormCase, gpu: Gpu) -> Refusal | None:
        if case.n > WIDEST_ROW:
            return Refusal(f"n is {case.n}: this variant holds rows of at most {WIDEST_ROW}")
        return gpu_refusal(gpu, 89 if case.quantise else 80)

    def build(self, case: RmsNormCase, params: dict[str, Any]) -> Callable[..., Any]:
        """`RmsNorm` for the case; takes `rows` of a program, its `warps`, and `pdl`, a dependent launch."""
        import torch

        from kernels.fused.rmsnorm_triton import RmsNorm

        tuning = merge_params(self.name, params, {**self.space(case)[0], **WITHOUT_PDL})
        return RmsNorm(torch.float8_e4m3fn if case.quantise else None, **tuning)

    def space(self, case: RmsNormCase) -> list[dict[str, Any]]:
        """Rows to a program that make 2,048 elements, and its neighbours."""
        rows = max(1, 1 << (2048 // case.n).bit_length() - 1) if case.n <= 2048 else 1
        warps = 4 if case.n <= 4096 else 8
        several = case.m >= 1024
        return [{"rows": rows, "warps": warps}] + [
            {"rows": tile_rows, "warps": count}
            for tile_rows, count in ((rows * 2, warps), (rows, warps * 2))
            if several
        ]


@register
class GatedTriton(Variant):
    """Activation and product in one pass."""

    name = "gated_triton"
    kernels = ("_gated",)
    op = "gated"
    page = "gated"
    summary = "gated activations in one pass"
    in_a_model = PDL_CHOICES

    def serves(self, case: GatedCase, gpu: Gpu) -> Refusal | None:
        return gpu_refusal(gpu)

    def build(self, case: GatedCase, params: dict[str, Any]) -> Callable[..., Any]:
        """f(gate_up, out=None) -> y. Takes `block` columns of a program, its `warps`, and `pdl`."""
        from kernels.fused.gated_triton import Gated

        return Gated(case.activation, **merge_params(self.name, params, {**self.space(case)[0], **WITHOUT_PDL}))

    def space(self, case: GatedCase) -> list[dict[str, Any]]:
        if case.m < 1024:
            return [{"block": 512, "warps": 4}]
        return [{"block": block, "warps": 4} for block in (1024, 2048)]


@register
class RopeTriton(Variant):
    """Rotates q and k and appends k and v, in one launch."""

    name = "rope_triton"
    kernels = ("_rope",)
    op = "rope"
    page = "rope"
    summary = "rotation of q and k with KV append, contiguous, paged and fp8"
    in_a_model = PDL_CHOICES

    def serves(self, case: RopeCase, gpu: Gpu) -> Refusal | None:
        if case.head_dim % 2:
            return Refusal(f"head_dim is {case.head_dim}: a rotation by halves needs an even one")
        if case.heads * case.head_dim > WIDEST_ROW:
            return Refusal(f"heads is {case.heads}: this variant holds at most {WIDEST_ROW} elements of a token's q")
        return append_refusal(case) or gpu_refusal(gpu, 89 if case.kv_dtype else 80)

    def build(self, case: RopeCase, params: dict[str, Any]) -> Callable[..., Any]:
        """`RopeAppend` for a case that appends, else `Rope`. Takes `warps` and `pdl`."""
        from kernels.fused.rope_triton import Rope, RopeAppend

        tuning = merge_params(self.name, params, {**self.space(case)[0], **WITHOUT_PDL})
        return RopeAppend(**tuning) if case.append else Rope(**tuning)

    def space(self, case: RopeCase) -> list[dict[str, Any]]:
        if case.batch * case.q_len < 1024:
            return [{"warps": 4}]
        return [{"warps": warps} for warps in (4, 8)]
