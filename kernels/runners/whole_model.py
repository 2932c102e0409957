"""Whole-model variants: one runner with its options each. Imports without torch."""

from collections.abc import Callable, Collection
from typing import Any, ClassVar

from kernels.hardware import Gpu
from kernels.ops import ModelCase
from kernels.registry import Refusal, Variant, register, register_like, variants
from kernels.runners import Runner, runner
from kernels.torch_compiled import no_compiler

TORCH_HELPERS = tuple(
    rf"^void at::native::.*\b{functor}"
    for functor in (
        r"FillFunctor<",  # writes one value: a position
        r"CUDAFunctor(?:OnSelf)?_add<",  # advances a position; adds a residual behind the last layer
        r"sum_functor<",  # adds the partial sums of several GPUs
        r"(?:direct|bfloat16)_copy_kernel_cuda",  # copies and casts
        r"(?:index_kernel_impl<|indexSelect(?:Small|Large)Index<|vectorized_gather_kernel<)",  # picks rows by index
    )
)
"""torch's own kernels that a whole model runs beside its own: they copy, pick rows, add or fill, and none is a product,
a norm, a gate, attention or a choice of a token."""


class WholeModel(Variant):
    """`build` gives what makes a Runner of a model; a plan holds `runner_name` and `options` | params for it."""

    op = "model"
    peer = True
    in_plans: ClassVar[bool] = True
    """Whether a plan may hold it. Another engine is only measured beside this library's runners."""
    forward_summary: ClassVar[str] = ""
    """The summary for a model that does not generate, if it differs."""
    encodes: ClassVar[bool] = True
    """Whether its runner has `encode`, by which it runs models that do not generate."""
    runner_name: ClassVar[str] = "compiled"
    most_gpus: ClassVar[int] = 1
    """GPUs that it may shard a model over."""
    options: ClassVar[dict[str, Any]] = {}
    needs_gpu: ClassVar[str] = ""
    """What it does on NVIDIA GPUs alone; "" where it runs on a CPU too."""

    @property
    def weights(self) -> str:
        """The precision to which it rounds weights, if one of its options says so; else the model's own."""
        return str(self.options.get("weights", "bf16"))

    def own_kernels(self) -> Collection[str]:
        """The kernels of every variant that is no peer: it is composed of them, or reads prompts with them."""
        return {name for variant in variants() if not variant.peer for name in variant.kernels}

    def serves(self, case: ModelCase, gpu: Gpu) -> Refusal | None:
        if self.needs_gpu and gpu.gpu_class == "cpu":
            return Refusal(f"device is CPU: {self.needs_gpu} on NVIDIA GPUs only")
        return None

    def build(self, case: ModelCase, params: dict[str, Any]) -> Callable[[Any], Runner]:
        chosen = self.options | params
        return lambda model: runner(self.runner_name, model, chosen)


TUNED_SPREAD, FIXED_SPREAD = 0.10, 0.01
"""Share by which two builds of one plan may differ, as seen on an H200."""


def rebuild_spread(options: dict[str, Any]) -> float:
    """Share by which another build of a plan with these options may differ; larger where timings choose kernels."""
    tuned = options.get("mode") == "max-autotune" or options.get("inductor", {}).get("coordinate_descent_tuning")
    return TUNED_SPREAD if tuned else FIXED_SPREAD


@register
class Eager(WholeModel):
    """transformers' generate, op by op."""

    name = "eager"
    summary = "transformers' own generate, as customers run it"
    forward_summary = "transformers' own forward pass, op by op"
    runner_name = "eager"


@register
class Compiled(WholeModel):
    """Inductor over a static cache; on a GPU the prompt and a step are one CUDA graph each."""

    name = "compiled"
    summary = "static cache, Inductor, CUDA graphs on a GPU"
    forward_summary = "Inductor, the forward pass as one CUDA graph on a GPU"
    build_seconds = 40.0

    def serves(self, case: ModelCase, gpu: Gpu) -> Refusal | None:
        return no_compiler(gpu)


@register
class CompiledTuned(WholeModel):
    """As `Compiled`; Inductor writes products at batch 1, tuned by coordinate descent. Its static launcher is off: with
    it a second process built nearly as long as the first, without it a third of that.
    """

    name = "compiled_tuned"
    summary = "compiled, matrix-vector products generated and tuned"
    options = {"inductor": {"coordinate_descent_tuning": True, "use_static_cuda_launcher": False}}
    build_seconds = 66.0
    needs_gpu = "blocking is tuned"

    def serves(self, case: ModelCase, gpu: Gpu) -> Refusal | None:
        if case.batch != 1:
            return Refusal(f"batch is {case.batch}: generated matrix-vector products need batch 1")
        return super().serves(case, gpu)


@register
class CompiledMaxAutotune(WholeModel):
    """torch.compile, with every matrix product autotuned among cuBLAS and generated kernels."""

    name = "compiled_max_autotune"
    summary = "compiled with max-autotune"
    options = {"mode": "max-autotune"}
    build_seconds = 160.0
    needs_gpu = "products are autotuned"


@register
class CudaGraphs(WholeModel):
    """torch's own kernels over a static cache, the prompt and a step captured as one CUDA graph each."""

    name = "cuda_graphs"
    summary = "static cache and CUDA graphs, nothing compiled"
    forward_summary = "the forward pass as one CUDA graph, nothing compiled"
    options = {"compile": False}
    build_seconds = 10.0
    needs_gpu = "CUDA graphs run"


@register
class Vllm(WholeModel):
    """vLLM in its own environment. `KERNELS_VLLM_PYTHON` names that environment's Python."""

    name = "vllm"
    summary = "vLLM's engine in process: CUDA graphs, FlashAttention, asynchronous scheduling"
    in_plans = False
    encodes = False
    runner_name = "vllm"
    build_seconds = 60.0
    needs_gpu = "vLLM is measured"

    def serves(self, case: ModelCase, gpu: Gpu) -> Refusal | None:
        if case.weights != "bf16":
            return Refusal(f"weights are {case.weights}: vLLM is measured in bf16")
        return super().serves(case, gpu)


@register
class VllmAsync(Vllm):
    """vLLM's asynchronous engine, as its server runs it, without HTTP."""

    name = "vllm_async"
    summary = "vLLM's asynchronous engine, its core in a process of its own"
    options = {"asynchronous": True}


class _Kernels(WholeModel):
    """Without a plan it uses `tune.tuning_cache`, or measures now, and prints its reasons to stderr."""

    peer = False
    encodes = False
    runner_name = "kernels"
    page = "whole-model"
    helpers = TORCH_HELPERS
    needs_gpu = "CUDA graphs run"

    def build(self, case: ModelCase, params: dict[str, Any]) -> Callable[[Any], Runner]:
        def make(model: Any) -> Runner:
            from kernels.runners.defaults import TuningRunner

            return TuningRunner(model, self.options | params)

        return make


@register
class Kernels(_Kernels):
    """This library's fastest variants for the model's shapes, composed under CUDA graphs."""

    name = "kernels"
    summary = "the fastest variant of every op, fused where that pays, under CUDA graphs"
    kernels = ("_place_tokens", "_route_tokens", "_order_rows", "_combine_rows")
    build_seconds = 20.0


LOWERED = {
    "int8": "weights in int8",  # prompts are read by the model's own weights
    "mxfp4": "experts in MXFP4",  # such as gpt-oss was stored in
    "fp8": "weights in fp8",  # each variant rounds its own weight to nearest
}
"""The precisions of the plans that have variants with such weights as candidates, beside the others."""
for weights, what in LOWERED.items():
    register_like(
        _Kernels, __name__, name=f"kernels_{weights}", summary=f"the kernels plan with {what} where that is faster",
        lossy=True, options={"weights": weights}, build_seconds=20.0,
    )  # fmt: skip
