"""Other people's engines on the same weights, prompts and traffic: measured beside the plans, never one of them."""

import os
import time

import torch

from kernels import runners
from kernels.runners.served_answers import judge_ids
from kernels.runners.vllm_runner import PYTHON_VARIABLE, memory_share
from workers.documents.measurement import Interval
from workers.documents.stages import PeerTrial, StageInput
from workers.harness.context import Context
from workers.measuring.served_model import prepared
from workers.planning.build_times import BuildTimes
from workers.planning.confirmation import baseline_plan
from workers.planning.served_checks import judged_ids, precisions_of
from workers.planning.trials import JUDGED_BATCHES, OVERRUN_SECONDS, primary, time_rounds

LABEL = "vllm"
WORST_START_SECONDS = 120.0
"""vLLM starts within this: it loads the weights, compiles and captures its CUDA graphs. Confined on an H200 with empty
caches it took 63 s for Llama-3.2-1B."""
MAX_ERROR_LENGTH = 900
"""Characters of what an engine says of its failure."""


def measure_vllm(document: StageInput, context: Context, model: torch.nn.Module, seconds: float) -> PeerTrial:
    """vLLM beside the plans, timed for about `seconds` as trials of plans are; its ids are judged by `model`.

    Begun in time, it may start OVERRUN_SECONDS late. What keeps it from being measured is said; nothing is raised.
    """
    if document.workload.baseline_runner == LABEL:
        return _not_measured(document, "it is before under load, as a server")
    if document.tensor_parallel_size > 1:
        return _not_measured(document, "the model takes several GPUs, over which it is measured under load alone")
    if not os.environ.get(PYTHON_VARIABLE):
        return _not_measured(document, "no environment is configured")
    expected, seconds_left = BuildTimes(document).expect(LABEL, WORST_START_SECONDS), context.seconds_left
    if expected > seconds_left:
        return _not_measured(document, f"starting it takes about {expected:.0f} s and {seconds_left:.0f} s were left")
    context.report_progress(0.8, "measuring vLLM beside the plans")
    try:
        peer = _measure(document, model, seconds_left + OVERRUN_SECONDS, seconds)
    except Exception as error:
        return _not_measured(document, " ".join(str(error).split()).rstrip(".")[:MAX_ERROR_LENGTH], gate="error")
    context.starts_and_loads += peer.start_seconds or 0.0
    return peer


def _not_measured(document: StageInput, why: str, gate: str = "refused") -> PeerTrial:
    unit = document.workload.objectives[0].unit
    return PeerTrial(label=LABEL, unit=unit, gate=gate, sentence=f"vLLM was not measured: {why}.")


def _measure(document: StageInput, model: torch.nn.Module, longest: float, seconds: float) -> PeerTrial:
    runners.free()
    share = memory_share()
    options = {"start_seconds": longest} | ({} if share is None else {"memory": share})
    start = time.monotonic()
    with prepared(runners.runner("vllm", model, options), document) as runner:
        start_seconds = time.monotonic() - start
        BuildTimes(document).note(LABEL, start_seconds)
        clients = time_rounds(runner, document, seconds)
        settings = dict(runner.settings)
    kept, precisions = clients.sample(JUDGED_BATCHES), precisions_of(baseline_plan(document))
    found_ids = judge_ids(runners.runner("eager", model), runner, precisions, kept)
    judged = None if found_ids is None else judged_ids(found_ids, len(kept))
    honest = judged is None or judged.acceptable
    version = str(settings.pop("version", ""))
    figure = primary(document, clients) if honest else None
    return PeerTrial(
        label=LABEL,
        version=version,
        settings=settings,
        primary=figure,
        unit=document.workload.objectives[0].unit,
        start_seconds=start_seconds,
        served_ids=judged,
        gate="pass" if honest else "fail",
        sentence=_sentence(version, settings, figure, judged.sentence if judged else ""),
    )


def _sentence(version: str, settings: dict[str, object], figure: Interval | None, judged: str) -> str:
    how = f"its engine {settings.get('engine', 'in process')}, CUDA graphs {settings.get('cudagraph_mode', 'unknown')}"
    words = f"vLLM {version} on the same weights, prompts and traffic ({how}, no HTTP)"
    return f"{words}: a peer, never chosen. {judged}" if figure else f"{words} is refused. {judged}"
