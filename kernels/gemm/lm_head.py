"""The LM head with up to 16 rows of x: the weights streamed once, and no logits written."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernels.check_args import check_served
from kernels.cuda.nvrtc import Build
from kernels.gemm.config_lookup import config_of, resize_config
from kernels.gemm.skinny import CONFIG_PARAMS, WEIGHTS, RoundedWeights, streamed_refusal
from kernels.gemm.skinny_tiles import CANDIDATES_BYTES, TileConfig, configs, packing_of
from kernels.hardware import Gpu
from kernels.ops import LmHeadCase
from kernels.registry import Refusal, Variant, register, register_like

if TYPE_CHECKING:
    import torch


class _LmHead(Variant):
    """What the variants of all weight types share. Params: `k_warps`, `warps`, `pdl`, `dynamic`: as there."""

    op = "lm_head"
    page = "lm-head"
    kernels = ("lm_head", "lm_head_candidates", "lm_head_join")
    weights: str = ""
    in_a_model = ({"pdl": True, "dynamic": False}, {"pdl": False, "dynamic": False})
    advances_token = True

    def serves(self, case: LmHeadCase, gpu: Gpu) -> Refusal | None:
        if refusal := streamed_refusal(case, gpu, self.weights):
            return refusal
        if not _configs(case):
            return Refusal(f"m is {case.m}: {case.m} rows of {case.k} do not fit into shared memory")
        return None

    def build(self, case: LmHeadCase, params: dict[str, Any]) -> "Callable[..., torch.Tensor]":
        """f(x [m, k], w) -> ids [m] int64; w is what `pack` returned.

        With sampling f(x, w, temperature, top_p, seed, stream, index, top_k=50): float32 [m] temperature and top_p,
        int64 [m] seed, stream and index, top_k from 1 to 63, or int64 [m] with each row's own, where what lies outside
        counts as the nearest of these. Row i is drawn as `kernels.ops.sampling.choose` draws
        token `index[i]` of its sequence; the same arguments give the same tokens. Where equal logits make top-k keep
        64 tokens or more, the id is -1: a block passes 64 candidates on.
        """
        from kernels.gemm.lm_head_call import LmHead

        check_served(self, case)
        return LmHead(case, _config_of(case, params), bool(params.get("pdl")), bool(params.get("dynamic")))

    def cuda_builds(self, case: LmHeadCase, params: dict[str, Any], gpu: Gpu) -> list[Build]:
        from kernels.gemm.lm_head_call import build_of

        return [build_of(_config_of(case, params), case, bool(params.get("dynamic")))]

    def space(self, case: LmHeadCase) -> list[dict[str, Any]]:
        """The best guess, and the best with half or twice its warps."""
        candidates = _configs(case)
        alike = [config for config in candidates if config.warps != candidates[0].warps][:1]
        return [{"k_warps": config.k_warps, "warps": config.warps} for config in (candidates[0], *alike)]

    def for_model(self, case: LmHeadCase) -> Sequence[Mapping[str, Any]]:
        dynamic = case.m == 1 and case.sampling == "argmax" and self.weights != "nvfp4"
        return ({"pdl": True, "dynamic": True}, *self.in_a_model) if dynamic else self.in_a_model

    def resized(self, case: LmHeadCase, params: dict[str, Any]) -> dict[str, Any]:
        return resize_config(_configs(case), params, CONFIG_PARAMS)

    def pack(self, case: LmHeadCase, params: dict[str, Any], weight: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
        """(stream uint8,) or, for fp8 and nvfp4, (stream, row scales). Raises ValueError for another shape."""
        from kernels.gemm.skinny_call import pack_weight

        if tuple(weight.shape) != (case.vocab, case.k):
            raise ValueError(f"weight has shape {list(weight.shape)}, not [{case.vocab}, {case.k}]")
        return pack_weight(_config_of(case, params), weight, case.dtype, False)

    def packing(self, case: LmHeadCase, params: dict[str, Any]) -> str:
        return packing_of(_config_of(case, params), gates=False)


def _configs(case: LmHeadCase) -> list[TileConfig]:
    kind = "same" if case.weights == case.dtype else str(case.weights)
    candidates = configs(
        kind, max(1, case.m), case.vocab, case.k, keep=case.sampling != "argmax", spare=CANDIDATES_BYTES
    )
    return [config for config in candidates if config.splits == 1 and config.row_tiles == 1]


def _config_of(case: LmHeadCase, params: dict[str, Any]) -> TileConfig:
    return config_of("lm_head_skinny", case.key, _configs(case), params, CONFIG_PARAMS, ("pdl", "dynamic"))


@register
class LmHeadSkinny(_LmHead):
    """Weights of the activations' own type."""

    name = "lm_head_skinny"
    summary = "streamed LM head, argmax or sampling without logits"


class _Lossy(RoundedWeights, _LmHead):
    pass


for weights in ("fp8", "int8", "nvfp4", "int4"):
    described = f"streamed LM head, {WEIGHTS[weights]}"
    register_like(_Lossy, __name__, name=f"lm_head_skinny_{weights}", summary=described, weights=weights)
