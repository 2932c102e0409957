"""Puts the variants of many cases through the gate in several processes, before the cases are timed one by one."""

from collections.abc import Sequence
from functools import partial

import torch

from kernels import registry
from kernels.ops import Case
from kernels.proof import gate
from kernels.proof.reference_cache import ReferenceCache
from kernels.tune.autotune import TuningContext
from kernels.tune.jobs import parallel_map
from kernels.tune.trial import Trial


def prove_ahead(context: TuningContext, cases: Sequence[Case], jobs: int) -> dict[str, gate.GateReport]:
    """Gate reports of every variant's params at every case, by trial id, from `jobs` processes at once.

    Compilation and proof, which take long, are then done before the cases are timed one by one. A trial that could not
    run is tried again here alone, since so many processes may have run out of memory. Variants that are slow to build
    are left to the process that times them: Inductor chooses among kernels by their times, while nothing else runs.
    """
    groups = [group for case in cases if (group := _offer_trials(context, case))]
    groups.sort(key=lambda group: group[0].id)  # shuffled, so that the largest cases do not meet in memory
    reports: dict[str, gate.GateReport] = {}
    for processes in (jobs, 1):
        for proven in parallel_map(partial(_reports, context.device), groups, processes):
            reports |= proven
        groups = [left for group in groups if (left := [trial for trial in group if reports[trial.id].gate == "error"])]
    return reports


def _offer_trials(context: TuningContext, case: Case) -> list[Trial]:
    """A trial of every requested variant that serves the case, with each of its params."""
    return [
        Trial.of(case, variant, params)
        for variant in registry.variants(case.op)
        if (context.only is None or variant.name in context.only)
        and not variant.build_seconds
        and variant.serves(case, context.gpu) is None
        for params in variant.space(case)
    ]


def _reports(device: torch.device, trials: Sequence[Trial]) -> dict[str, gate.GateReport]:
    """What the gate says of trials of one case, by their ids."""
    references, reports = ReferenceCache(), {}
    for trial in trials:
        variant = registry.variant(trial.variant)
        reports[trial.id] = gate.check(variant, trial.case, device, trial.params, references=references)
    del references
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return reports
