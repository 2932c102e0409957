"""The ops of a kernels plan where nobody hands one in: from the choices measured on this machine, kept or made now."""

import sys
import time
from typing import Any

import torch

from kernels import registry
from kernels.candidates import Bench
from kernels.ceilings import gpu_class_of, here
from kernels.choice import Choices
from kernels.engine import decoder
from kernels.engine.choosing import Chosen, Option, choose, planned_op
from kernels.engine.kernels_runner import KernelsRunner
from kernels.engine.parts import Parts
from kernels.engine.pass_timer import GraphTimer
from kernels.engine.places import Places, Traffic
from kernels.hardware import GPUS, Gpu
from kernels.ops import Case, ModelCase
from kernels.timing import Rule

CASE_RULE = Rule(seconds=0.4, width=0.02, least=8)
CASE_SECONDS = 8.0
"""The longest that one case may take; variants that build longer are left out."""
TUNING_SECONDS = 15.0


def usual_ops(model: decoder.Decoder, traffic: Traffic) -> Chosen:
    """The chosen ops for the traffic on the model's device; the notes say of each why, against what, measured when."""
    device = model.embedding.device
    gpu = gpu_of(device)
    places, choices = Places(model, traffic), Choices(here(device=device.type))
    bench = Bench(device, gpu, {}, CASE_RULE, only=quick_variants())
    options: dict[str, list[Option]] = {}
    notes = []
    for case in places.cases():
        if not registry.offers(case, gpu)[0]:
            continue
        choice = choices.choose(case, bench, CASE_SECONDS)
        if choice.ms is not None:
            options[case.key] = [Option(planned_op(case, choice.variant, choice.params), choice.ms)]
            notes.append(f"{case.op} {_sizes(case)}: {choice.variant}. {choice.sentence} Measured {choice.at}.")
    end = time.monotonic() + TUNING_SECONDS
    timer = GraphTimer(model, gpu, traffic) if device.type == "cuda" else None
    chosen = choose(places, options, timer, lambda: time.monotonic() < end)
    return Chosen(chosen.ops, [*notes, *chosen.notes])


def kernels_runner(model: Any, case: ModelCase) -> KernelsRunner:
    """The runner with the usual ops for the case; a model that the compact decoder cannot run gets torch's own."""
    if decoder.refusal(model):
        return KernelsRunner(model)
    chosen = usual_ops(decoder.Decoder(model), Traffic(case.batch, case.prompt, case.tokens))
    for note in chosen.notes:
        print(f"  {note}", file=sys.stderr)
    return KernelsRunner(model, parts=Parts(chosen.ops, gpu_of(model.device)))


def gpu_of(device: torch.device) -> Gpu:
    """What the registry knows of the device."""
    return GPUS["cpu"] if device.type == "cpu" else GPUS[gpu_class_of(torch.cuda.get_device_name(device))]


def quick_variants() -> frozenset[str]:
    """Variants that keep the precision and are built within CASE_SECONDS."""
    return frozenset(
        each.name for each in registry.variants() if not each.lossy and each.build_seconds <= CASE_SECONDS / 2
    )


def _sizes(case: Case) -> str:
    values = case.model_dump(exclude={"op", "dtype", "weights", "kv_dtype"}, exclude_none=True)
    return " ".join(f"{name}={value}" for name, value in values.items() if value is not False)
