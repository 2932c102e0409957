"""A plug-in of vLLM that times the parts of its engine's loop, for `vllm_plugin.py`. VLLM_PROBE_EAGER keeps the plug-in
of `clients/vllm` from capturing graphs of its own.

Writes to the file that VLLM_PROBE names, by the number of sequences of a step of decodes: the steps, and the median µs
of each part and from one step to the next.
"""

import functools
import json
import os
import time
from collections import defaultdict
from statistics import median
from typing import Any

EVERY = 200
"""Steps after which the file is written again."""
MIN_SAMPLES = 100
"""Steps of a kind without which its times are not written."""


def register() -> None:
    """vLLM calls this in each of its processes."""
    path = os.environ.get("VLLM_PROBE")
    if not path:
        return
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.worker.gpu.async_utils import AsyncOutput
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner

    if os.environ.get("VLLM_PROBE_EAGER"):
        from kernel_workbench_vllm.vllm_interface import UnwrittenDrafts

        UnwrittenDrafts.capture = lambda self: None  # type: ignore[method-assign]

    parts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    state: dict[str, Any] = {"key": "", "began": time.perf_counter(), "steps": 0}

    def timed(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def wrapper(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            result = inner(*args, **named)
            took = time.perf_counter() - began
            if name == "schedule":
                counts = result.num_scheduled_tokens
                decodes = len(set(counts.values())) <= 1 and not result.scheduled_new_reqs
                state["key"] = f"{len(counts)}" if decodes else "with prompts"
            parts[state["key"]][name].append(took)
            return result

        setattr(owner, name, wrapper)

    def looped(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def wrapper(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            parts[state["key"]]["period"].append(began - state["began"])
            result = inner(*args, **named)
            parts[state["key"]]["loop"].append(time.perf_counter() - began)
            state["began"] = began
            state["steps"] += 1
            if state["steps"] % EVERY == 0:
                write()
            return result

        setattr(owner, name, wrapper)

    def write() -> None:
        summary = {
            key: {"steps": len(of["loop"])} | {name: round(1e6 * median(times), 1) for name, times in list(of.items())}
            for key, of in list(parts.items())
            if len(of["loop"]) >= MIN_SAMPLES
        }
        with open(path, "w") as file:
            json.dump(summary, file)

    for owner, name in (
        (Scheduler, "schedule"),
        (Scheduler, "update_from_output"),
        (GPUModelRunner, "execute_model"),
        (GPUModelRunner, "prepare_inputs"),
        (GPUModelRunner, "prepare_attn"),
        (GPUModelRunner, "sample_tokens"),
        (AsyncOutput, "get_output"),
    ):
        timed(owner, name)
    looped(EngineCore, "step_with_batch_queue")
