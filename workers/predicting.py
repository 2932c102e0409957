"""Predicts a plan's latencies, and its throughput under load, by the roofline. Imports no torch.

A prompt and a decode step take the larger of their FLOPs at the matrix rate and their bytes at the bandwidth. Formula
and assumptions: `docs/method.md`, *prediction*.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.hardware import GPUS
from kernels.measure.request_case import request_case
from kernels.measure.roofline import floors_ms
from kernels.megakernel.ranks import RANKS
from kernels.ops import BYTES, ModelCase
from workers.documents.gpu_class import gpu_of, gpus_of
from workers.documents.measurement import Ceilings, Rates
from workers.documents.model import ModelManifest
from workers.documents.prediction import PredictedFigure, PredictedPlan, Prediction
from workers.documents.workload import Precision, Workload
from workers.promises import divides

USUAL_N = 64
"""The token that TTF-N is predicted for where no objective names one."""
SIXTEEN_BITS = BYTES["bf16"]


def predict(
    workload: Workload,
    model: ModelManifest,
    gpu_class: str,
    ceilings: Ceilings | None,
    served: Precision,
    lower: Sequence[Precision] = (),
) -> Prediction:
    """The prediction for plans on a class: one for each number of GPUs, and for `served` and each `lower` precision.

    `ceilings` are those of the newest run on the GPU, None where there is none. `served` is the precision that the
    model is served in today, `lower` are those that a plan may hold its weights in.
    """
    traffic, most = workload.traffic, gpus_of(gpu_class)
    if model.kind != "decoder":
        return Prediction(missing=["Only models that generate text are predicted."])
    rates = _rates(gpu_class, ceilings)
    if rates is None:
        said = f"Nothing is predicted on {gpu_class}: no datasheet and no earlier run tells its rates."
        return Prediction(missing=[said])
    shape = (traffic.batch, traffic.prompt_tokens, traffic.output_tokens)
    case = request_case(model.config, model.parameters, served, *shape)
    if case is None:
        said = "Nothing is predicted of a mixture of experts, of weights that a cache may hold, and of this model's"
        return Prediction(missing=[f"{said} family where its tensors are not known one by one."])
    missing = _missing(workload)
    plans = []
    for gpus in (each for each in RANKS if each <= most):
        for weights in dict.fromkeys([served, *lower]) if gpus == 1 or divides(model, gpus) else ():
            request = _Request(case, served, weights, gpus, rates)
            figures = _latencies(request, workload) if traffic.concurrency == 1 else []
            figures += _under_load(request, workload) if not missing else []
            plans.append(PredictedPlan(gpus=gpus, weights=weights, figures=figures))
    if traffic.concurrency > 1:
        missing.append(f"No latency is predicted where {traffic.concurrency} clients wait for each other.")
    return Prediction(plans=plans, assumptions=_assumptions(workload, most, ceilings is not None), missing=missing)


@dataclass(frozen=True)
class _Rates:
    single: Rates
    settled: Rates


def _rates(gpu_class: str, ceilings: Ceilings | None) -> _Rates | None:
    """The measured rates, else the datasheet's; None where neither is known."""
    if ceilings is not None:
        return _Rates(ceilings.of_single_calls, ceilings)
    gpu = GPUS[gpu_of(gpu_class)]
    if not gpu.memory_tbps:
        return None
    tflops = {"bf16": gpu.bf16_tflops, "fp16": gpu.bf16_tflops, "fp8": gpu.fp8_tflops}
    sheet = Rates(read_tbps=gpu.memory_tbps, copy_tbps=gpu.memory_tbps, matrix_tflops=tflops)
    return _Rates(sheet, sheet)


@dataclass(frozen=True)
class _Request:
    """A request whose weights are in a precision, on GPUs that divide it evenly."""

    case: ModelCase
    served: Precision
    weights: Precision
    gpus: int
    rates: _Rates

    def prompt_ms(self, batch: int, rates: Rates) -> float:
        """Reading `batch` prompts: every weight once."""
        return self._ms(2.0 * self.case.parameters * batch * self.case.prompt, self._weight_bytes, rates)

    def step_ms(self, batch: int, rates: Rates) -> float:
        """One token for each of `batch` requests: every weight once, and the keys and values in the mean."""
        moved = self._weight_bytes + batch * self._cache_bytes
        return self._ms(2.0 * self.case.parameters * batch, moved, rates)

    def _ms(self, flops: float, moved: float, rates: Rates) -> float:
        precisions = (self.weights, self.served)
        times = floors_ms(flops / self.gpus, moved / self.gpus, precisions, rates.matrix_tflops, rates.read_tbps)
        return max(times)

    @property
    def _weight_bytes(self) -> float:
        return self.case.parameters * BYTES[self.weights]

    @property
    def _cache_bytes(self) -> float:
        """Of one request: in the precision of the activations, which is that of the weights down to 16 bits."""
        served = BYTES[self.served]
        own = (self.case.bytes_per_token - self.case.parameters * served) / self.case.batch
        return own * min(served, max(BYTES[self.weights], SIXTEEN_BITS)) / served


def _latencies(request: _Request, workload: Workload) -> list[PredictedFigure]:
    """TTFT, TTF-N, TPOT and E2E of requests that are served batch by batch."""
    batch, output, rates = workload.traffic.batch, workload.traffic.output_tokens, request.rates.single
    first, step = request.prompt_ms(batch, rates), request.step_ms(batch, rates)
    wanted = [each.n for each in workload.objectives if each.n is not None] or [USUAL_N]
    figures = [PredictedFigure(metric="ttft", value=first)]
    for n in sorted({each for each in wanted if each <= output}):
        figures.append(PredictedFigure(metric="ttf_n", n=n, value=first + (n - 1) * step))
    if output > 1:
        figures.append(PredictedFigure(metric="tpot", value=step))
    return [*figures, PredictedFigure(metric="e2e", value=first + (output - 1) * step)]


def _missing(workload: Workload) -> list[str]:
    """Why the throughput under load is not predicted, in a sentence; [] where it is, or no load is asked for."""
    other = workload.traffic.only_under_load
    if workload.load is None or not other:
        return []
    return [f"No throughput under load is predicted for traffic with {other.replace('_', ' ')}."]


def _under_load(request: _Request, workload: Workload) -> list[PredictedFigure]:
    """Tokens per second for 1, 2, 4, … users who always wait: their prompts one by one, their tokens together."""
    if workload.load is None:
        return []
    output, rates, users, figures = workload.traffic.output_tokens, request.rates.settled, 1, []
    while users <= workload.load.most_users:
        whole = users * request.prompt_ms(1, rates) + (output - 1) * request.step_ms(users, rates)
        value = 1000 * users * output / whole
        figures.append(PredictedFigure(metric="throughput", users=users, unit="tokens/s", value=value))
        users *= 2
    return figures


def _assumptions(workload: Workload, most_gpus: int, known: bool) -> list[str]:
    source = "measured by the newest run on this class of GPU" if known else "from its datasheet"
    said = [
        f"The GPU's rates are {source}, and are reached all the time.",
        "Every weight is read once for a prompt and once for each token, the keys and values once for each token.",
        "Launches, the host, norms, attention's FLOPs and sampling take no time.",
    ]
    if most_gpus > 1:
        said.append("Several GPUs divide bytes and FLOPs evenly, and their exchange takes no time.")
    if workload.load is not None:
        said.append("Under load all users always wait; prompts are read one by one, tokens are made together.")
    return said
