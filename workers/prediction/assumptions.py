"""What a prediction assumes: the rates of a GPU, and the rest in sentences. Imports without torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.hardware import GPUS
from kernels.measure import forward_pass, pass_time
from kernels.measure.pass_time import KERNEL_US, MEGAKERNEL, ModelSizes, exchanges_us
from workers.documents.gpu_class import single_gpu_class
from workers.documents.measurement import Ceilings, Rates
from workers.documents.prediction import PredictedPlan
from workers.documents.workload import Sla

READ_SHARE = 0.93
"""The share of its datasheet's bandwidth that an H200 reaches when it reads (`ceilings.json`), and an H100
(`h100x4/decode-1b.json`)."""
MATRIX_SHARES = {"bf16": (0.80, 0.69), "fp16": (0.77, 0.66), "fp32": (0.05, 0.05), "fp8": (0.74, 0.63)}
"""The shares of its datasheet's matrix rate that an H200 reaches, in single calls and without a pause
(`ceilings.json`). That rate is the datasheet's for fp8 where the precision is fp8, else the one for bf16."""


@dataclass(frozen=True)
class KnownRates:
    """A GPU's rates in single calls, and `settled`, without a pause between calls.

    `kernel_us` is what a kernel takes, beside its bytes and FLOPs, that waits for the one before it.
    """

    single: Rates
    settled: Rates
    kernel_us: float
    source: str


def rates_of(gpu_class: str, ceilings: Ceilings | None) -> KnownRates | None:
    """The measured rates, or the datasheet's times the shares that an H200 reaches; None where neither is known."""
    gpu = GPUS[single_gpu_class(gpu_class)]
    if ceilings is not None:
        kernel_us = ceilings.launch_us if gpu.gpu_class == "cpu" else KERNEL_US
        source = "measured by the newest run on this class of GPU"
        return KnownRates(ceilings.of_single_calls, ceilings, kernel_us, source)
    if not gpu.memory_tbps:
        return None
    sheet = dict.fromkeys(("bf16", "fp16", "fp32"), gpu.bf16_tflops) | {"fp8": gpu.fp8_tflops}
    if gpu.source == "measured":
        rates = Rates(read_tbps=gpu.memory_tbps, copy_tbps=gpu.memory_tbps, matrix_tflops=sheet)
        return KnownRates(rates, rates, KERNEL_US, "those that its bring-up measured")
    read = READ_SHARE * gpu.memory_tbps
    single, settled = (
        Rates(
            read_tbps=read,
            copy_tbps=read,
            matrix_tflops={name: shares[which] * sheet[name] for name, shares in MATRIX_SHARES.items()},
        )
        for which in (0, 1)
    )
    return KnownRates(single, settled, KERNEL_US, "the share of its datasheet's that an H200 was measured to reach")


def generation_assumptions(
    workload: Sla, sizes: ModelSizes, plans: Sequence[PredictedPlan], rates: KnownRates
) -> list[str]:
    sentences = [
        _reached(rates),
        "A pass reads every weight once, a decode step the keys and values too; FLOPs come on top, those of the head "
        "for a prompt's last token alone.",
    ]
    waits = f"A kernel that waits for the one before it takes {rates.kernel_us:.1f} µs beside that"
    if any(plan.runner == MEGAKERNEL for plan in plans) or sizes.experts is None:
        layer = exchanges_us(1, sizes.experts is not None)
        exchanges = f"a layer of the megakernel {layer:.1f} µs, and no less than its exchanges"
        sentences.append(f"{waits}; {exchanges}. Both are of H200s.")
    else:
        sentences.append(f"{waits}, measured on H200s.")
    sentences += _of_experts(sizes)
    sentences.append("The host and sampling take no time.")
    if any(plan.runner == MEGAKERNEL and plan.weights in pass_time.UNPACKED for plan in plans):
        least = ", ".join(f"{rate:.1f} · 10¹² of {name}" for name, rate in pass_time.UNPACKED.items())
        sentences.append(
            f"By the megakernel a GPU multiplies at most {least} weights a second, and unpacking fp8 or NVFP4 takes "
            f"{pass_time.UNPACK_US:.1f} µs more in each layer."
        )
    if several := sorted({plan.tensor_parallel_size for plan in plans} - {1}):
        mixture = sizes.experts is not None
        layers = " and ".join(f"{exchanges_us(size, mixture):.1f} µs on {size} GPUs" for size in several)
        sums = " and ".join(f"{pass_time.PROMPT_SUM_US[size]:.0f} µs on {size}" for size in several)
        sentences.append(
            f"Several GPUs divide bytes and FLOPs evenly. Beside these a layer of the megakernel takes {layers}, and "
            f"each sum over GPUs takes {sums} for a prompt."
        )
    if workload.load is not None:
        sentences.append(
            "Under load all users always wait, their prompts are read together, and so are their tokens made; the "
            "server pads prompts to its graphs, and HTTP takes no time."
        )
    return sentences


def one_pass_assumptions(rates: KnownRates) -> list[str]:
    runners = forward_pass.KERNELS
    return [
        _reached(rates),
        "A request reads every weight once, and all parameters but the tables of embeddings multiply every token; "
        "FLOPs come on top.",
        f"A kernel that waits for the one before it takes {rates.kernel_us:.1f} µs beside that. A layer has "
        f"{runners['cuda_graphs']} or more under CUDA graphs, as torch's dispatcher counts them, and "
        f"{runners['compiled']} under torch.compile, as its code implies; no run has measured these.",
        "The host takes no time.",
    ]


def _reached(rates: KnownRates) -> str:
    return f"The GPU's rates are {rates.source}, and are reached all the time."


def _of_experts(sizes: ModelSizes) -> list[str]:
    of = sizes.experts
    if of is None:
        return []
    counts = [pass_time.kernels_of(sizes, runner, False) for runner in ("kernels", "compiled", "cuda_graphs")]
    return [
        f"Each token chooses {of.top_k} of {of.experts} experts evenly and by itself: n tokens read {of.experts} · "
        f"(1 − (1 − {of.top_k}/{of.experts})ⁿ) of them, and each is multiplied by its own.",
        f"A layer of a step has {counts[0]} such kernels in the kernels runner. transformers' modules are taken to "
        f"have {counts[1]} under torch.compile and {counts[2]} under CUDA graphs, as their code implies.",
    ]
