"""Predictions of a model that generates text: by prompts and decode steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from typing import Any

from kernels.gemm.skinny import MAX_ROWS
from kernels.hardware import GPUS, Gpu
from kernels.measure import pass_time
from kernels.measure.pass_time import MEGAKERNEL, ModelSizes, PassWork, pass_ms
from kernels.measure.request_case import multiplied_parameters, why_cached, why_uncounted
from kernels.megakernel.program.ranks import TENSOR_PARALLEL_SIZES, shard_of
from kernels.megakernel.program.shape import Unsupported, shape_of
from kernels.model.dense_families import DENSE_TYPES, GATES, SHARDED, activation
from kernels.model_files.families import is_mixture, is_sparse, stored_rows
from kernels.ops import BYTES, MODEL_BYTES
from kernels.quant.formats import EXPERTS, dense_precision
from kernels.server.scheduler.batching import STEP_TOKENS
from workers.documents.gpu_class import gpus_of, single_gpu_class
from workers.documents.measurement import Rates
from workers.documents.model import ModelManifest
from workers.documents.prediction import PredictedFigure, PredictedPlan, Prediction
from workers.documents.workload import Precision, Sla, unit_of
from workers.prediction import assumptions
from workers.prediction.assumptions import KnownRates
from workers.prediction.plans import BATCHED, flops, is_excluded, rate_figure, waiting_clients

DEFAULT_N = 64
"""The token that TTF-N is predicted for where no objective names one."""
SIXTEEN_BITS = BYTES["bf16"]
PADDED = 2 * log(2)
"""Tokens that a server's pass computes for each token of a prompt, which is padded to the next longer CUDA graph.

The factor is the mean over prompts whose lengths lie evenly between two graphs, one twice as long as the other. The
graphs of `kernels.server.execution.shapes` are closer to each other now; no committed run has measured those."""
LOWER: dict[str, tuple[str, ...]] = {
    MEGAKERNEL: ("int8", "fp8", "nvfp4", "int4", "mxfp4"),
    "kernels": ("int8", "fp8", "mxfp4"),
}
"""The lower precisions in which a runner can hold a whole model's weights on a GPU."""
HOPPER = 90
"""The compute capability (x 10) that the megakernel is written for."""
GROUPED = (90, 100)
"""The compute capabilities (x 10) on which the kernels runner multiplies all experts by one product."""


def predict_generation(
    workload: Sla, model: ModelManifest, gpu_class: str, rates: KnownRates, precisions: Sequence[Precision]
) -> Prediction:
    """The prediction for plans in each of the precisions. The model is served in the first one today."""
    traffic, served = workload.traffic, precisions[0]
    if why := _unpredicted(model, gpu_class, served):
        return Prediction(missing=[f"Nothing is predicted of {why}."])
    shape = (traffic.prompt_tokens, traffic.output_tokens)
    missing, plans = _missing(workload), []
    parameters = multiplied_parameters(model.config, model.parameters)
    for runner, size in _runners(model, gpu_class):
        sizes = pass_time.decoder(model.config, parameters, size)
        lower = [name for name in precisions[1:] if gpu_class == "cpu" or name in LOWER.get(runner, ())]
        if sizes.experts is not None:
            lower = [name for name in lower if _holds_experts(model, runner, size, name)]
        for weights in dict.fromkeys([served, *(name for name in lower if dense_precision(name) or sizes.experts)]):
            most = batch_most(model, size)
            stored = stored_rows(model.config)
            request = _Request(sizes, runner, served, weights, size, *shape, rates.kernel_us, most, stored)
            if not request.served_by_runner(traffic.batch) or is_excluded(runner, weights, served, workload):
                continue
            figures = _latencies(request, workload, rates.single) if traffic.concurrency == 1 else []
            figures += _under_load(request, workload, rates.settled) if not missing else []
            plan = PredictedPlan(runner=runner, tensor_parallel_size=size, weights=weights, figures=figures)
            plans.append(plan)
    stated = assumptions.generation_assumptions(workload, pass_time.decoder(model.config, parameters), plans, rates)
    return Prediction(plans=plans, assumptions=stated, missing=missing + waiting_clients(workload))


def _unpredicted(model: ModelManifest, gpu_class: str, served: Precision) -> str:
    """What nothing is predicted of, as words behind "of"; "" where it is predicted.

    A CPU's cache may hold small weights; of a GPU their bytes take little beside the kernels.
    """
    if why := why_uncounted(model.config):
        return why
    if is_mixture(model.config) and served != "bf16":
        return f"a mixture of experts in {served}"
    return (
        why_cached(multiplied_parameters(model.config, model.parameters) * BYTES[served]) if gpu_class == "cpu" else ""
    )


def divides(model: ModelManifest, tensor_parallel_size: int) -> bool:
    """Whether the megakernel can shard the model over `tensor_parallel_size` GPUs."""
    return batch_most(model, tensor_parallel_size) > 0


def batch_most(model: ModelManifest, tensor_parallel_size: int, weights: str = "bf16") -> int:
    """The most sequences that the megakernel serves of the model over so many GPUs in a precision; 0: none."""
    if tensor_parallel_size > 1 and model.config["model_type"] not in SHARDED:
        return 0
    try:
        return shard_of(shape_of(model.config), tensor_parallel_size, weights).batch_most
    except (Unsupported, KeyError):
        return 0


def _runners(model: ModelManifest, gpu_class: str) -> Iterator[tuple[str, int]]:
    """The runners that may serve a model that generates on the class, each with a number of GPUs."""
    gpu = GPUS[single_gpu_class(gpu_class)]
    if gpu.sm == HOPPER:
        sizes = (size for size in TENSOR_PARALLEL_SIZES if size <= gpus_of(gpu_class) and divides(model, size))
        yield from ((MEGAKERNEL, size) for size in sizes if _has_room(model, gpu, size))
    names = ["compiled"] if gpu.gpu_class == "cpu" else ["kernels", "compiled", "cuda_graphs"]
    yield from ((name, 1) for name in names if name != "kernels" or _composes(model.config, gpu))


def _holds_experts(model: ModelManifest, runner: str, size: int, weights: str) -> bool:
    """Whether the runner holds a mixture's experts in a lower precision, on so many GPUs."""
    return weights in EXPERTS if runner == "kernels" else runner == MEGAKERNEL and batch_most(model, size, weights) > 0


def _has_room(model: ModelManifest, gpu: Gpu, size: int) -> bool:
    """Whether each of `size` GPUs holds a mixture's megakernel, which has the experts twice. The first of several also
    has the whole model, which a plan is compared with, where it holds that.
    """
    copies = gpu.memory_gib * 2**30 / (model.parameters * SIXTEEN_BITS)
    return not is_mixture(model.config) or 2 / size + (size > 1 and copies >= 1) <= copies


def _composes(config: dict[str, Any], gpu: Gpu) -> bool:
    """Whether the compact decoder runs the model, and multiplies all of its experts at once."""
    if config.get("clip_qkv") is not None or activation(config) not in GATES:
        return False
    if not is_mixture(config):
        return config["model_type"] in DENSE_TYPES
    return gpu.sm in GROUPED and all(is_sparse(config, layer) for layer in range(config["num_hidden_layers"]))


@dataclass(frozen=True)
class _Request:
    """Requests of a decoder by a runner, with weights in a precision, on GPUs that divide it evenly. The LM head of a
    model that was `stored` in fp8 is in 16 bits.
    """

    sizes: ModelSizes
    runner: str
    served: Precision
    weights: Precision
    tensor_parallel_size: int
    prompt: int
    output: int
    kernel_us: float
    batch_most: int
    stored: str

    def served_by_runner(self, batch: int) -> bool:
        """Whether the runner takes the precision of activations and so many sequences at once."""
        return self.runner != MEGAKERNEL or (batch <= self.batch_most and self.activations == "bf16")

    @property
    def activations(self) -> str:
        """The precision of activations, keys and values: that of the weights, but 16 bits at least."""
        if BYTES[self.weights] >= SIXTEEN_BITS:
            return self.weights
        return self.served if BYTES[self.served] == SIXTEEN_BITS else "bf16"

    def prompt_ms(self, batch: float, rates: Rates) -> float:
        """Reading `batch` prompts together, with weights in the precision of the activations but for `compiled`."""
        weights = self.weights if self.runner == "compiled" else self.activations
        return self._ms(pass_time.prompt(batch, self.prompt), weights, True, rates)

    def step_ms(self, batch: int, rates: Rates) -> float:
        """One token for each of `batch` requests, in the mean over their output."""
        return self._ms(pass_time.step(batch, self.prompt + self.output / 2), self.weights, False, rates)

    def _ms(self, work: PassWork, weights: str, reads_prompt: bool, rates: Rates) -> float:
        if self.runner == MEGAKERNEL and not reads_prompt:
            mixture = self.sizes.experts is not None
            layer = pass_time.megakernel_layer(weights, work.answered, self.tensor_parallel_size, mixture)
        else:
            count = pass_time.kernels_of(self.sizes, self.runner, reads_prompt)
            layer = pass_time.kernels_layer(count, self.kernel_us, self.tensor_parallel_size, reads_prompt)
        by = self.tensor_parallel_size * rates.read_tbps, self.tensor_parallel_size * flops(self.activations, rates)
        known, sizes = MODEL_BYTES if self.runner in (MEGAKERNEL, "kernels") else BYTES, self.sizes
        size = known[dense_precision(weights) or self.activations]
        if not dense_precision(weights):
            unpacking = rates.read_tbps / pass_time.UNPACKED[weights]  # the bytes that are read meanwhile
            sizes = replace(sizes, expert_share=max(known[weights], unpacking) / size)
        if weights == self.stored == "fp8":
            sizes = replace(sizes, head_share=SIXTEEN_BITS / size)
        return pass_ms(sizes, work, size, BYTES[self.activations] / SIXTEEN_BITS, by, layer)


def _latencies(request: _Request, workload: Sla, rates: Rates) -> list[PredictedFigure]:
    """TTFT, TTF-N, TPOT, E2E and tokens per second of requests that are served batch by batch."""
    batch, output = workload.traffic.batch, request.output
    first, step = request.prompt_ms(batch, rates), request.step_ms(batch, rates)
    lengths = [objective.n for objective in workload.objectives if objective.n is not None] or [DEFAULT_N]
    figures = [PredictedFigure(metric="ttft", value=first)]
    for n in sorted({length for length in lengths if length <= output}):
        figures.append(PredictedFigure(metric="ttf_n", n=n, value=first + (n - 1) * step))
    if output > 1:
        figures.append(PredictedFigure(metric="tpot", value=step))
    total_ms = first + (output - 1) * step
    metrics = {"e2e"} | ({"batch_latency"} & {objective.metric for objective in workload.objectives})
    figures += [PredictedFigure(metric=metric, value=total_ms) for metric in sorted(metrics, reverse=True)]
    return [*figures, rate_figure(1000 * batch * output / total_ms, unit_of("throughput"))]


def _missing(workload: Sla) -> list[str]:
    """Why the throughput under load is not predicted, in a sentence; [] where it is, or no load is asked for."""
    other = workload.traffic.only_under_load
    if workload.load is None or not other:
        return []
    return [f"No throughput under load is predicted for traffic with {other.replace('_', ' ')}."]


def _under_load(request: _Request, workload: Sla, rates: Rates) -> list[PredictedFigure]:
    """Tokens per second for 1, 2, 4 and so on users who always wait: all prompts are read, then all write together.

    A server reads prompts in passes of at most STEP_TOKENS tokens, which are padded where there are several users.
    Steps with more users than the runner serves run by the library's kernels.
    """
    users, figures = 1, []
    while workload.load is not None and users <= workload.load.most_users:
        sharded = request.sizes.experts is not None and request.tensor_parallel_size > 1
        sequences = users * (request.tensor_parallel_size if sharded else 1)  # as `max_served_batch` has it
        by = request if request.served_by_runner(sequences) else replace(request, runner="kernels")
        if by.weights == "int8" and users > MAX_ROWS:  # the server's passes then gain little by it
            by = replace(by, weights=by.served)
        read, passes = float(users), 1
        if request.runner not in BATCHED:
            read = users * PADDED if users > 1 else 1.0
            passes = ceil(read * request.prompt / STEP_TOKENS)
        prompts = passes * request.prompt_ms(read / passes, rates)
        total_ms = prompts + (request.output - 1) * by.step_ms(users, rates)
        value = 1000 * users * request.output / total_ms
        figures.append(PredictedFigure(metric="throughput", users=users, unit="tokens/s", value=value))
        users *= 2
    return figures
