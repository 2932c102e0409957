"""Measures what runs today and a plan in turns where they do not fit into memory beside each other.

Each turn is a fresh process that loads one side, measures it and ends. The sides' order is A B B A A B, so that what
drifts from turn to turn favours neither.
"""

import shutil
import time

from transformers import PreTrainedModel

from kernels.ops import BYTES
from kernels.plan import Plan
from kernels.server.execution.sizing import free_bytes
from workers.documents import budget
from workers.documents.measurement import Environment
from workers.documents.stages import StageInput
from workers.harness.context import Context, StageError
from workers.harness.fresh_processes import START_SECONDS
from workers.measuring.alternation import MIN_PAIRS_OF_SEVERAL, TIMING_SHARE, Alternation
from workers.measuring.outcomes import hours_of
from workers.measuring.served_model import dtype_of
from workers.planning.confirmation import PlanMeasurement, is_clear, is_decided, sizes_of
from workers.planning.measuring_process import MeasuringProcess
from workers.planning.precision import weights_of
from workers.planning.processes import left_out_sentence
from workers.planning.served_checks import join_judged
from workers.planning.turn_process import MIN_TURNS, QUALITY, Side, TurnResult, TurnTask
from workers.wording.text import capitalised

MAX_TURNS = 5
"""Of each side. It is odd, as MIN_TURNS is: the last turn is then today's, which judges the plan's last ids."""
MIN_SECONDS = 3.0
"""What a turn's requests may take at least."""
SIDES: tuple[Side, Side] = ("before", "after")
WORDS = {"before": "what runs today", "after": "the plan"}


def copy_fits(plan: Plan, document: StageInput, model: PreTrainedModel) -> bool:
    """Whether the plan's copy of the weights fits beside `model`; plans of a sharded model share its shards."""
    if document.tensor_parallel_size > 1:
        return True
    packs = plan.runner == "megakernel" and plan.dtype == dtype_of(document)
    size = min(BYTES[weights] for weights in weights_of(plan)) if packs else BYTES[plan.dtype]
    return document.model.parameters * size / plan.shards <= free_bytes(model.device)


def least_seconds(document: StageInput, context: Context, loading_seconds: float) -> float:
    """What MIN_TURNS of each side and quality are expected to take, a plan's requests as long as today's."""
    ready = (context.startup_seconds or START_SECONDS) + loading_seconds
    requests = (1 + MIN_PAIRS_OF_SEVERAL) * budget.request_seconds(document.results)
    return 2 * MIN_TURNS * (ready + max(MIN_SECONDS, requests)) + budget.quality_seconds(document.results)


class Turns:
    """The turns of one plan and what runs today, in at most so many `seconds`. `usd` is of one GPU's hour.

    The caller has freed the memory of what runs today.
    """

    def __init__(
        self, plan: Plan, document: StageInput, context: Context, usd: float | None, unverified: bool,
        loading_seconds: float, seconds: float,
    ) -> None:  # fmt: skip
        self._plan, self._document, self._context, self._unverified = plan, document, context, unverified
        self._ready_seconds = (context.startup_seconds or START_SECONDS) + loading_seconds
        self._ends = time.monotonic() + seconds
        self._usd, self._sizes = usd, sizes_of(document, plan)
        self._sides: dict[Side, list[TurnResult]] = {side: [] for side in SIDES}
        self._judged = 0
        self.failures: list[str] = []

    def measure(self, label: str) -> PlanMeasurement:
        start = time.monotonic()
        try:
            self._take_both()
        finally:
            shutil.rmtree(self._context.artifacts / QUALITY, ignore_errors=True)
        pairs, failure = self.alternations, " ".join(self.failures)
        judged = [(turn.quality, turn.no_quality) for turn in self._all if turn.quality or turn.no_quality]
        quality, no_quality = judged[0] if judged else (None, "the turns ended before")
        too_few = len(pairs) < MIN_TURNS and not self.environment.telemetry.void
        return PlanMeasurement.of(
            label, self._plan, self._document, self._usd, self.environment, pairs,
            quality=quality, no_quality=no_quality,
            served_ids=join_judged([ids for turn in self._all for ids in turn.served_ids]),
            refusal=self.refusal or (failure if too_few else ""), failure=failure, seconds=time.monotonic() - start,
            ready_seconds=sum(max((turn.ready_seconds for turn in side), default=0.0) for side in self._sides.values()),
            no_profile="The plan was not profiled: what runs today does not fit into memory beside it.",
        )  # fmt: skip

    def _take_both(self) -> None:
        """Takes MIN_TURNS of each side; MAX_TURNS where time is left and the plan is not clear.

        A turn that fails, or whose figures or ids do not count, is the last one, but for one of what runs today. After
        MIN_TURNS of each side those before it count. Raises StageError where what runs today fails too.
        """
        part, started = TIMING_SHARE * self._context.seconds_left / (2 * MIN_TURNS), time.monotonic()
        seconds, objectives = max(MIN_SECONDS, part - self._ready_seconds), self._document.workload.objectives
        for pair in range(MAX_TURNS):
            left = 2 * (MAX_TURNS - MIN_TURNS) * (time.monotonic() - started) / max(1, 2 * pair)
            clear = pair == MIN_TURNS and is_clear(self.alternations, objectives, self._usd, self._sizes)
            if clear or (pair == MIN_TURNS and self._context.seconds_left < left):
                return
            for side in SIDES if pair % 2 else reversed(SIDES):
                judges = [pair] if side == "after" else list(range(self._judged, len(self._sides["after"])))
                self._take(side, pair, judges, seconds)
                if self.failures or self.refusal or self.environment.telemetry.void:
                    if not self._sides["before"]:
                        self._take("before", pair, [], seconds)
                    if not self._sides["before"]:
                        why = self.failures[-1]
                        raise StageError(f"Before and after do not fit into memory beside each other. {why}")
                    return

    def go_on(self, last: PlanMeasurement) -> None:
        """Takes turns of what runs today after those beside the plan `last`, until they are decided or time is over."""
        taken = [TurnResult(environment=last.environment, served=process.before) for process in last.processes]
        objectives, self._sides["before"] = self._document.workload.objectives, taken
        while not (self.failures or self.environment.telemetry.void):
            seconds = self._context.seconds_left - self._ready_seconds
            if seconds < 0 or is_decided(self.alternations, objectives, self._usd, self._sizes):
                return
            self._take("before", len(taken), [], seconds)

    @property
    def alternations(self) -> list[Alternation]:
        """The pairs of turns, one of each side: the plan's turns whose ids are judged, all of a refused plan. What runs
        today beside itself where there is none.
        """
        before, after = self._sides.values()
        judged = after if self.refusal else after[: self._judged]
        pairs = zip(before, judged or before, strict=False)
        return [Alternation(before.served, after.served, turn=True) for before, after in pairs]

    @property
    def environment(self) -> Environment:
        """That of the first turn, or of one beside another program."""
        environments = [turn.environment for turn in self._all]
        first = next((environment for environment in environments if environment.telemetry.void), environments[0])
        return first.with_busiest([environment.telemetry for environment in environments])

    @property
    def refusal(self) -> str:
        """Why the plan's requests do not count, as a sentence; "" where they do."""
        return next((turn.refusal for turn in self._all if turn.refusal), "")

    @property
    def _all(self) -> list[TurnResult]:
        return [turn for side in self._sides.values() for turn in side]

    def _take(self, side: Side, pair: int, judges: list[int], seconds: float) -> None:
        """Takes a turn, once again where another program used the GPU meanwhile, if time is left."""
        name, start = f"turn {pair + 1} of {WORDS[side]}", time.monotonic()
        turn = self._measure_turn(name, side, pair, judges, seconds)
        if turn and turn.environment.telemetry.void:
            if self._most_seconds(side) > time.monotonic() - start:
                turn = self._measure_turn(name, side, pair, judges, seconds) or turn
            else:
                self.failures.append(f"Time was short to take {name} again.")
        if turn and turn.environment.telemetry.void and pair >= MIN_TURNS:
            self.failures.append(left_out_sentence(capitalised(name), turn.environment.telemetry.void))
        elif turn:
            self._sides[side].append(turn)
            if side == "before" and judges:
                self._judged = judges[-1] + 1

    def _most_seconds(self, side: Side) -> float:
        """How long a turn of this side may take: a plan's leaves half of the time to what runs today."""
        return (self._ends - time.monotonic()) / (1 if side == "before" else 2)

    def _measure_turn(self, name: str, side: Side, pair: int, judges: list[int], seconds: float) -> TurnResult | None:
        context, most = self._context, self._most_seconds(side)
        context.report_progress(0.1 + 0.14 * min(pair, MIN_TURNS), f"measuring {name}")
        useless = self.failures or self.refusal or any(turn.no_quality for turn in self._all)
        records = pair == (side == "after") and not useless
        if records and side == "before":
            shutil.rmtree(context.artifacts / QUALITY, ignore_errors=True)  # of a turn that counts no more
        task = TurnTask(
            document=self._document, plan=self._plan, side=side, judges=judges, records=records, seconds=seconds,
            seconds_left=min(context.seconds_left, most), unverified=self._unverified,
            usd=hours_of(self._usd, self._sizes)[SIDES.index(side)],
        )  # fmt: skip
        turn = MeasuringProcess(f"turn-{side}-{pair}", task, TurnResult, context).measure(most)
        if isinstance(turn, str):
            self.failures.append(f"{capitalised(name)} {turn}.")
            return None
        context.starts_and_loads += turn.starts_and_loads
        return turn
