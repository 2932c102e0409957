"""Predicts a plan's latencies, and its throughput under load, for each runner that may serve it. Imports no torch.

Formula and assumptions: `docs/method.md`, *prediction*; the time of a pass: `kernels/measure/pass_time.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log

from kernels.hardware import GPUS
from kernels.measure import pass_time
from kernels.measure.pass_time import KERNEL_US, MEGAKERNEL, DecoderSizes, PassWork, exchanges_us, pass_ms
from kernels.measure.request_case import request_case, unbounded
from kernels.megakernel.ranks import RANKS, part_of
from kernels.megakernel.shape import BATCH_MOST, Unsupported, shape_of
from kernels.model_files.families import is_mixture
from kernels.ops import BYTES
from kernels.serve.scheduler import STEP_TOKENS
from workers.documents.gpu_class import gpus_of, single_gpu_class
from workers.documents.measurement import Ceilings, Rates
from workers.documents.model import ModelManifest
from workers.documents.prediction import PredictedFigure, PredictedPlan, Prediction
from workers.documents.workload import Objective, Precision, Sla
from workers.precisions import precisions_of_plans

DEFAULT_N = 64
"""The token that TTF-N is predicted for where no objective names one."""
SIXTEEN_BITS = BYTES["bf16"]
BATCHED = ("compiled", "cuda_graphs")
"""Runners that no server of this workbench runs: under load they answer batches of those who wait."""
VARIANTS = {"compiled": ("compiled", "compiled_tuned", "compiled_max_autotune")}
"""Whole-model variants that have one prediction; the others have one each, of their own name."""
PADDED = 2 * log(2)
"""Tokens that a server's pass computes for each token of a prompt, which is padded to the next longer CUDA graph.

The factor is the mean over prompts whose lengths lie evenly between two graphs, one twice as long as the other. The
graphs of `kernels.serve.shapes` are closer to each other now; no committed run has measured those."""
LOWER: dict[str, tuple[str, ...]] = {MEGAKERNEL: ("fp8", "nvfp4"), "kernels": ("fp8",)}
"""The lower precisions in which a runner can hold a whole model's weights on a GPU."""
MEDIAN = 50
"""The percentile that is predicted."""
HOPPER = 90
"""The compute capability (x 10) that the megakernel is written for."""
READ_SHARE = 0.93
"""The share of its datasheet's bandwidth that an H200 reaches when it reads (`ceilings.json`)."""
MATRIX_SHARES = {"bf16": (0.80, 0.69), "fp16": (0.77, 0.66), "fp32": (0.05, 0.05), "fp8": (0.74, 0.63)}
"""The shares of its datasheet's matrix rate that an H200 reaches, in single calls and without a pause
(`ceilings.json`). That rate is the datasheet's for fp8 where the precision is fp8, else the one for bf16."""


def predict(
    workload: Sla,
    model: ModelManifest,
    gpu_class: str,
    ceilings: Ceilings | None,
    served: Precision,
    lower: Sequence[Precision] = (),
) -> Prediction:
    """The prediction for plans on a class: one for each runner, number of GPUs and precision that it may have.

    `ceilings` are those of the newest run on the GPU, None where there is none. `served` is the precision that the
    model is served in today, `lower` are those that a plan may hold its weights in.
    """
    traffic, most = workload.traffic, gpus_of(gpu_class)
    if model.kind != "decoder":
        return Prediction(missing=["Only models that generate text are predicted."])
    if is_mixture(model.config):
        return Prediction(missing=["Nothing is predicted of a mixture of experts."])
    rates = _rates(gpu_class, ceilings)
    if rates is None:
        said = f"Nothing is predicted on {gpu_class}: no datasheet and no earlier run tells its rates."
        return Prediction(missing=[said])
    shape = (traffic.batch, traffic.prompt_tokens, traffic.output_tokens)
    case = request_case(model.config, model.parameters, served, *shape)
    if case is None:
        why = unbounded(model.config, model.parameters, served)
        return Prediction(missing=[f"Nothing is predicted of {why}."])
    missing, sizes = _missing(workload), pass_time.decoder(model.config, case.parameters)
    plans = []
    for runner, gpus in _runners(model, gpu_class):
        held = [each for each in lower if gpu_class == "cpu" or each in LOWER.get(runner, ())]
        for weights in dict.fromkeys([served, *held]):
            request = _Request(sizes, runner, served, weights, gpus, *shape[1:], rates.kernel_us)
            if not request.served_by_runner(traffic.batch) or _excluded(request, workload):
                continue
            figures = _latencies(request, workload, rates.single) if traffic.concurrency == 1 else []
            figures += _under_load(request, workload, rates.settled) if not missing else []
            plans.append(PredictedPlan(runner=runner, gpus=gpus, weights=weights, figures=figures))
    if traffic.concurrency > 1:
        missing.append(f"No latency is predicted where {traffic.concurrency} clients wait for each other.")
    unpacks = any(each.runner == MEGAKERNEL and each.weights in pass_time.UNPACKED for each in plans)
    return Prediction(plans=plans, assumptions=_assumptions(workload, most, rates, unpacks), missing=missing)


def predicted(
    sla: Sla, model: ModelManifest, gpu_class: str, ceilings: Mapping[str, Ceilings], lowered: bool = True
) -> Prediction:
    """The prediction for a run on a class: of plans in the precision that the model is served in there and, where
    `lowered`, in the lower ones that the workload allows. Form, choice of a class and run all predict by this.

    `ceilings` are those that the newest runs measured, by the class of one GPU; without one it is by the datasheet.
    """
    served, lower = precisions_of_plans(sla, model, gpu_class)
    lower = lower if lowered else []
    return predict(sla, model, gpu_class, ceilings.get(single_gpu_class(gpu_class)), served, lower)


def predicted_value(plan: PredictedPlan, objective: Objective, workload: Sla) -> float | None:
    """The median of the objective's metric, at one request at a time, that is predicted of the plan; None for none.

    A gap between tokens is predicted as the time per token, and a rate follows from the end-to-end latency.
    """
    figures = {(each.metric, each.n): each.value for each in plan.figures if each.users is None}
    traffic, whole = workload.traffic, figures.get(("e2e", None))
    if objective.metric == "throughput":
        return whole and 1000 * traffic.batch * traffic.output_tokens / whole
    metric = {"itl": "tpot", "batch_latency": "e2e"}.get(objective.metric, objective.metric)
    return figures.get((metric, objective.n))


def fastest(plans: Sequence[PredictedPlan], promise: Objective) -> tuple[float, PredictedPlan] | None:
    """The least median that is predicted of what the promise is about, at one request at a time, and the plan that has
    it; None where none is predicted.
    """
    wanted = (promise.metric, promise.n, None)
    known = [
        (figure.value, plan)
        for plan in plans
        for figure in plan.figures
        if (figure.metric, figure.n, figure.users) == wanted
    ]
    return min(known, key=lambda each: each[0], default=None)


def divides(model: ModelManifest, gpus: int) -> bool:
    """Whether the megakernel can divide the model over `gpus` GPUs."""
    try:
        part_of(shape_of(model.config), gpus)
    except (Unsupported, KeyError):
        return False
    return True


def _runners(model: ModelManifest, gpu_class: str) -> Iterator[tuple[str, int]]:
    """The runners that may serve the model on the class, each with a number of GPUs."""
    gpu = GPUS[single_gpu_class(gpu_class)]
    compact = divides(model, 1)
    if gpu.sm == HOPPER and compact:
        yield from ((MEGAKERNEL, each) for each in RANKS if each <= gpus_of(gpu_class) and divides(model, each))
    names = ["compiled"] if gpu.gpu_class == "cpu" else ["kernels", "compiled", "cuda_graphs"]
    yield from ((name, 1) for name in names if compact or name != "kernels")


@dataclass(frozen=True)
class _Rates:
    """A GPU's rates in single calls, and `settled`, without a pause between calls.

    `kernel_us` is what a kernel takes, beside its bytes and FLOPs, that waits for the one before it.
    """

    single: Rates
    settled: Rates
    kernel_us: float
    source: str


def _rates(gpu_class: str, ceilings: Ceilings | None) -> _Rates | None:
    """The measured rates, or the datasheet's times the shares that an H200 reaches; None where neither is known."""
    gpu = GPUS[single_gpu_class(gpu_class)]
    if ceilings is not None:
        kernel_us = ceilings.launch_us if gpu.gpu_class == "cpu" else KERNEL_US
        return _Rates(ceilings.of_single_calls, ceilings, kernel_us, "measured by the newest run on this class of GPU")
    if not gpu.memory_tbps:
        return None
    sheet = dict.fromkeys(("bf16", "fp16", "fp32"), gpu.bf16_tflops) | {"fp8": gpu.fp8_tflops}
    if gpu.source == "measured":
        rates = Rates(read_tbps=gpu.memory_tbps, copy_tbps=gpu.memory_tbps, matrix_tflops=sheet)
        return _Rates(rates, rates, KERNEL_US, "those that its bring-up measured")
    read = READ_SHARE * gpu.memory_tbps
    single, settled = (
        Rates(
            read_tbps=read,
            copy_tbps=read,
            matrix_tflops={name: shares[which] * sheet[name] for name, shares in MATRIX_SHARES.items()},
        )
        for which in (0, 1)
    )
    return _Rates(single, settled, KERNEL_US, "the share of its datasheet's that an H200 was measured to reach")


@dataclass(frozen=True)
class _Request:
    """Requests of a decoder by a runner, with weights in a precision, on GPUs that divide it evenly."""

    sizes: DecoderSizes
    runner: str
    served: Precision
    weights: Precision
    gpus: int
    prompt: int
    output: int
    kernel_us: float

    def served_by_runner(self, batch: int) -> bool:
        """Whether the runner takes the precision of activations and so many sequences at once."""
        return self.runner != MEGAKERNEL or (batch <= BATCH_MOST and self.activations == "bf16")

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
        known = rates.matrix_tflops
        fastest = self.gpus * (known.get(self.activations) or max(known.values()))
        layer = pass_time.layer(self.runner, weights, self.kernel_us, work.answered, reads_prompt, self.gpus)
        kv_share = BYTES[self.activations] / SIXTEEN_BITS
        return pass_ms(self.sizes, work, BYTES[weights], kv_share, (self.gpus * rates.read_tbps, fastest), layer)


def _excluded(request: _Request, workload: Sla) -> bool:
    """Whether the workload excludes every variant of the runner in this precision."""
    name = request.runner if request.weights == request.served else f"{request.runner}_{request.weights}"
    return set(VARIANTS.get(name, (name,))) <= set(workload.constraints.exclude)


def _latencies(request: _Request, workload: Sla, rates: Rates) -> list[PredictedFigure]:
    """TTFT, TTF-N, TPOT and E2E of requests that are served batch by batch."""
    batch, output = workload.traffic.batch, request.output
    first, step = request.prompt_ms(batch, rates), request.step_ms(batch, rates)
    wanted = [each.n for each in workload.objectives if each.n is not None] or [DEFAULT_N]
    figures = [PredictedFigure(metric="ttft", value=first)]
    for n in sorted({each for each in wanted if each <= output}):
        figures.append(PredictedFigure(metric="ttf_n", n=n, value=first + (n - 1) * step))
    if output > 1:
        figures.append(PredictedFigure(metric="tpot", value=step))
    return [*figures, PredictedFigure(metric="e2e", value=first + (output - 1) * step)]


def _missing(workload: Sla) -> list[str]:
    """Why the throughput under load is not predicted, in a sentence; [] where it is, or no load is asked for."""
    other = workload.traffic.only_under_load
    if workload.load is None or not other:
        return []
    return [f"No throughput under load is predicted for traffic with {other.replace('_', ' ')}."]


def _under_load(request: _Request, workload: Sla, rates: Rates) -> list[PredictedFigure]:
    """Tokens per second for 1, 2, 4 and so on users who always wait: all prompts are read, then all write together.

    A server reads prompts in passes of at most STEP_TOKENS tokens, which are padded where there are several users.
    Steps with more users than the runner serves run by the library's kernels, which do not run on several GPUs.
    """
    users, figures = 1, []
    while workload.load is not None and users <= workload.load.most_users:
        by = request if request.served_by_runner(users) else replace(request, runner="kernels")
        if by is not request and request.gpus > 1:
            break
        read, passes = float(users), 1
        if request.runner not in BATCHED:
            read = users * PADDED if users > 1 else 1.0
            passes = ceil(read * request.prompt / STEP_TOKENS)
        prompts = passes * request.prompt_ms(read / passes, rates)
        whole = prompts + (request.output - 1) * by.step_ms(users, rates)
        value = 1000 * users * request.output / whole
        figures.append(PredictedFigure(metric="throughput", users=users, unit="tokens/s", value=value))
        users *= 2
    return figures


def _assumptions(workload: Sla, most_gpus: int, rates: _Rates, unpacks: bool) -> list[str]:
    said = [
        f"The GPU's rates are {rates.source}, and are reached all the time.",
        "A pass reads every weight once, a decode step the keys and values too; FLOPs come on top, those of the head "
        "for a prompt's last token alone.",
        f"A kernel that waits for the one before it takes {rates.kernel_us:.1f} µs beside that; a layer of the "
        f"megakernel {exchanges_us(1):.1f} µs, and no less than its exchanges. Both are of H200s.",
        "The host and sampling take no time.",
    ]
    if unpacks:
        least = " and ".join(f"{rate:.1f} · 10¹² of {name}" for name, rate in pass_time.UNPACKED.items())
        said.append(
            f"Where the megakernel unpacks weights of 8 or 4 bits, a layer takes {pass_time.UNPACK_US:.1f} µs more, "
            f"and a GPU unpacks at most {least} weights a second."
        )
    if most_gpus > 1:
        several = [each for each in RANKS[1:] if each <= most_gpus]
        layers = " and ".join(f"{exchanges_us(each):.1f} µs on {each} GPUs" for each in several)
        sums = " and ".join(f"{pass_time.PROMPT_SUM_US[each]:.0f} µs on {each}" for each in several)
        said.append(
            f"Several GPUs divide bytes and FLOPs evenly. Beside these a layer of the megakernel takes {layers}, and "
            f"each sum over GPUs takes {sums} for a prompt."
        )
    if workload.load is not None:
        said.append(
            "Under load all users always wait, their prompts are read together, and so are their tokens made; the "
            "server pads prompts to its graphs, and HTTP takes no time."
        )
    return said
