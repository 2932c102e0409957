"""Times a decoder's captured passes as a whole, several plans side by side."""

import math
import time
from collections.abc import Callable, Sequence

import torch

from kernels.hardware import Gpu
from kernels.measure.intervals import median_interval
from kernels.model import decoder
from kernels.model.bound_variants import BoundVariants, Packed
from kernels.model.layer_ops import BatchShape
from kernels.model.prompts import bucket
from kernels.plan import PlannedOp
from kernels.runners.kernels_runner import KernelsSession
from kernels.tune.plan_search import PlanWatch

ROUNDS = 5
ROUND_MS = 6.0
"""A round repeats the pass for about this many ms, at least twice."""

MIN_FREE_SHARE = 0.4
"""Share of the GPU's memory that is free before plans are captured."""


class GraphTimer:
    """A `kernels.tune.plan_search.PassTimer` on the model's device. A round repeats a pass without a flush: weights
    exceed the L2. They stay packed between calls; `watch` may leave plans out.
    """

    def __init__(self, model: decoder.Decoder, gpu: Gpu, traffic: BatchShape, watch: PlanWatch | None = None) -> None:
        self._model, self._gpu, self._traffic, self._watch = model, gpu, traffic, watch or PlanWatch()
        self._packed: Packed = {}

    @torch.no_grad()
    def __call__(self, queries: int, plans: Sequence[Sequence[PlannedOp]]) -> list[float]:
        self._make_room()
        ready = [self._first_run(queries, plan) for plan in plans]
        samples: list[list[float]] = [[] for _ in plans]
        for _ in range(ROUNDS):
            for plan, captured, times in zip(plans, ready, samples, strict=True):
                if captured is not None and self._watch.runs(queries, plan):
                    call, ms = captured
                    times.append(self._time(call, max(2, int(ROUND_MS / max(ms, 1e-3)))))
        return [median_interval(times)[0] if times else math.inf for times in samples]

    def _first_run(self, queries: int, plan: Sequence[PlannedOp]) -> tuple[Callable[[int], None], float] | None:
        """The captured pass and the ms that it first takes; None where the watch leaves it out."""
        if not self._watch.runs(queries, plan):
            return None
        try:
            call = self._capture(queries, plan)
            return call, self._time(call, 2)
        except Exception as error:
            self._watch.failed(queries, plan, error)
            return None

    def _make_room(self) -> None:
        """Drops packed weights when they fill the GPU."""
        device = self._model.embedding.device
        if device.type == "cuda":
            free, total = torch.cuda.mem_get_info(device)
            if free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device) < MIN_FREE_SHARE * total:
                self._packed.clear()

    def _capture(self, queries: int, plan: Sequence[PlannedOp]) -> Callable[[int], None]:
        traffic = self._traffic
        capacity = max(traffic.prompt + traffic.tokens, bucket(traffic.prompt))
        session = KernelsSession(self._model, BoundVariants(plan, self._gpu, self._packed), traffic.batch, capacity)
        if queries == 1:
            session.capture()
        else:
            ids = torch.randint(len(self._model.embedding), (traffic.batch, traffic.prompt), device=session.device)
            session.prefill(ids)

        def run(times: int) -> None:
            session.state.position.fill_(max(0, capacity - 1 - times))
            for _ in range(times):
                session.step() if queries == 1 else session.prompts.again(traffic.prompt)

        return run

    def _time(self, run: Callable[[int], None], times: int) -> float:
        """ms of one pass."""
        device = self._model.embedding.device
        times = min(times, self._traffic.tokens)
        if device.type != "cuda":
            start = time.perf_counter()
            run(times)
            return (time.perf_counter() - start) * 1e3 / times
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        run(times)
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / times
