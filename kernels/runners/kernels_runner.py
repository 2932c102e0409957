"""The kernels runner: a plan's variants composed into one pass, under CUDA graphs."""

from collections.abc import Callable
from typing import Any

import torch

from kernels.hardware import GPUS
from kernels.model import decoder
from kernels.model.bound_variants import BoundVariants
from kernels.model.experts import has_experts
from kernels.model.prompts import bucket
from kernels.model.rounding import Rounding, rounded_decoder, rounded_weights, with_folded_norms
from kernels.quant.quantised_matrix import QUANTISERS
from kernels.runners.bucket_session import BucketSession
from kernels.runners.compiled import CompiledRunner
from kernels.runners.kernels_session import KernelsSession
from kernels.runners.sessions import Session


class KernelsRunner(CompiledRunner):
    """`variants` are the plan's; without them every op is torch's own. Options: `weights` and `rounding`.

    Of a mixture `weights` may be int8, or mxfp4 for its experts alone.

    With `weights` fp8 and a `rounding` (the fields of `Rounding`) the whole decoder is rounded first, its norms folded
    into the matrices behind them; variants that hold fp8 then hold these very values. Without a `rounding`, and in
    int8, each such variant rounds its own weight to nearest.

    A model that the compact decoder does not support is captured as transformers' own modules, with the variants that
    `kernels.runners.planned.install` has put into them.
    """

    name = "kernels"

    def __init__(
        self, model: torch.nn.Module, options: dict[str, Any] | None = None, variants: BoundVariants | None = None
    ) -> None:
        super().__init__(model, options)
        weights, mixture = self.options.get("weights"), has_experts(model.config)
        if weights in QUANTISERS and weights != "int8" and mixture:
            raise ValueError(f"weights {weights}: experts are held in int8 or mxfp4 alone")
        if weights == "mxfp4" and not mixture:
            raise ValueError("weights mxfp4: only experts are held so, and the model has none")
        self._variants = BoundVariants([], GPUS["cpu"]) if variants is None else variants

    def close(self) -> None:
        del self._variants
        super().close()

    def _make_session(self, batch: int, prompt: int, capacity: int) -> Session:
        if decoder.refusal(self.model):
            return BucketSession(self.model, batch, prompt, capacity)
        return KernelsSession(self._compact(), self._variants, batch, max(capacity, bucket(prompt)))

    def _compact(self) -> decoder.Decoder:
        compact, weights = decoder.Decoder(self.model), self.options.get("weights")
        rounding = Rounding.model_validate(self.options.get("rounding", {}))
        if weights == "fp8" and rounding.method != "nearest":
            compact = with_folded_norms(compact)
            compact = rounded_decoder(compact, rounded_weights(self.model, compact, weights, rounding))
        return compact

    def _compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function
