"""The ops of a kernels plan when none are given: cached choices measured on this machine, or choices measured now."""

import sys
import time
from typing import Any

import torch

from kernels import registry
from kernels.hardware import Gpu
from kernels.measure.environment import environment_info
from kernels.measure.gpu_entry import gpu_of
from kernels.measure.timing import StoppingRule
from kernels.model import decoder
from kernels.model.bound_variants import BoundVariants
from kernels.model.layer_ops import BatchShape, LayerOps, keeps_codes
from kernels.model.layer_weights import is_fp8
from kernels.ops import Case, GroupedCase, LinearCase, LmHeadCase
from kernels.runners.kernels_runner import KernelsRunner
from kernels.runners.pass_timer import GraphTimer
from kernels.tune.autotune import TuningContext
from kernels.tune.plan_search import ChosenOps, Option, planned_op, search_plan, usable
from kernels.tune.tuning_cache import TunedVariant, TuningCache

CASE_RULE = StoppingRule(seconds=0.4, width=0.02, least=8)
CASE_SECONDS = 8.0
"""The most seconds for tuning one case. Variants that take longer to build are left out."""
TUNING_SECONDS = 15.0


class TuningRunner(KernelsRunner):
    """A kernels runner that tunes when prepared and prints why. Option `weights`: a lower precision to try too."""

    @torch.no_grad()
    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        if not decoder.refusal(self.model):
            traffic = BatchShape(batch, prompt, tokens)
            chosen = default_ops(decoder.Decoder(self.model), traffic, self.options.get("weights", ""))
            for note in chosen.notes:
                print(f"  {note}", file=sys.stderr)
            self._variants = BoundVariants(chosen.ops, gpu_of(self.model.device))
        super().prepare(batch, prompt, tokens)


def default_ops(model: decoder.Decoder, traffic: BatchShape, weights: str = "") -> ChosenOps:
    """The chosen ops for the traffic on the model's device; notes give each op's reason, rivals and time. Variants in
    the lower precision `weights` compete too, fp8 only where a model stored so keeps its codes.
    """
    device = model.embedding.device
    gpu = gpu_of(device)
    layer_ops, finder = LayerOps(model, traffic), _Finder(device, gpu)
    stored, vocabulary = weights == "fp8" and is_fp8(model.layers), len(model.lm_head)
    options: dict[str, list[Option]] = {}
    for case in layer_ops.cases():
        own = [case, *(_lowered(case, weights) if not stored or keeps_codes(case, vocabulary) else ())]
        offered = [option for option in map(finder.option, own) if option is not None]
        if offered:
            options[case.key] = sorted(offered, key=lambda option: option.ms)
    end = time.monotonic() + TUNING_SECONDS
    timer = GraphTimer(model, gpu, traffic) if device.type == "cuda" else None
    chosen = search_plan(layer_ops, options, timer, lambda: time.monotonic() < end)
    return ChosenOps(chosen.ops, [*finder.notes, *chosen.notes])


class _Finder:
    """Finds the choice for a case, as an option of the plan search with a note."""

    def __init__(self, device: torch.device, gpu: Gpu) -> None:
        self._choices = TuningCache(environment_info(device=device.type))
        self._gpu, self._device = gpu, device
        self.notes: list[str] = []

    def option(self, case: Case) -> Option | None:
        """None when no variant is offered, or none passed the gate."""
        names = {offer.name for offer in registry.offers(case, self._gpu)[0] if usable(case, offer.name)}
        if not names & quick_variants():
            return None
        context = TuningContext(self._device, self._gpu, {}, CASE_RULE, only=quick_variants() & names)
        choice = self._choices.choose(case, context, CASE_SECONDS)
        if choice.ms is None or not usable(case, choice.variant):
            return None
        self.notes.append(_note(case, choice))
        return Option(planned_op(case, choice.variant, choice.params), choice.ms)


def _lowered(case: Case, weights: str) -> list[Case]:
    if not weights or not isinstance(case, LinearCase | LmHeadCase | GroupedCase):
        return []
    return [case.model_copy(update={"weights": weights})]


def quick_variants() -> frozenset[str]:
    """The variants that build within half of CASE_SECONDS."""
    return frozenset(variant.name for variant in registry.variants() if variant.build_seconds <= CASE_SECONDS / 2)


def _note(case: Case, choice: TunedVariant) -> str:
    values: dict[str, Any] = case.model_dump(exclude={"op", "dtype", "kv_dtype"}, exclude_none=True)
    sizes = " ".join(f"{name}={value}" for name, value in values.items() if value is not False)
    return f"{case.op} {sizes}: {choice.variant}, {1000 * (choice.ms or 0):.4g} µs. {choice.sentence} ({choice.at})"
