"""Measures plans beside what the customer runs today, at the workload's traffic, until one is confirmed."""

import secrets
import time
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace

import torch
from transformers import PreTrainedModel

from kernels import runners
from kernels.plan import Plan
from kernels.runners import Runner
from kernels.runners.clients import Clients
from workers.documents import budget
from workers.documents.measurement import Environment
from workers.documents.profile import PlanProfile
from workers.documents.stages import StageInput
from workers.harness.context import Context
from workers.measuring import quality_by_kind
from workers.measuring.alternation import (
    LATEST_SECONDS,
    MIN_PAIRS,
    MIN_SLOW_PAIRS,
    TIMING_SHARE,
    Alternation,
    alternate,
    warm_clients,
)
from workers.measuring.journal import MAX_SECONDS, Journal
from workers.measuring.outcomes import hours_of
from workers.measuring.served_model import NoRoom, dtype_of, load_once, planned_runner, prepared, release, watch_device
from workers.planning import summaries
from workers.planning.confirmation import (
    PlanMeasurement,
    baseline_plan,
    gives_way,
    is_change,
    plans_to_verify,
    sizes_of,
    unchanged,
    with_result_last,
)
from workers.planning.plan_profile import profile_plan
from workers.planning.precision import lowers_precision
from workers.planning.processes import FurtherProcesses
from workers.planning.served_checks import judge_served
from workers.planning.turns import Turns, copy_fits, least_seconds
from workers.stats.sample_sizes import is_enough

NO_OTHER = "No other plan can be verified."


class _TimeShort(Exception):
    """A plan has to take turns, for which the time is too short: they take so many `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Turns take about {seconds:.0f} s.")
        self.seconds = seconds


@dataclass
class Verification:
    """What runs today, ready to be measured beside one plan after another; given up once one does not fit beside it."""

    document: StageInput
    context: Context
    usd: float | None
    further: FurtherProcesses

    def __post_init__(self) -> None:
        document, context = self.document, self.context
        self.model: PreTrainedModel = load_once(document, context)
        started = time.monotonic() - context.shared["loading_seconds"]
        baseline = runners.runner(document.workload.baseline_plan_runner, self.model)
        self._stack = ExitStack()
        self.runner: Runner = self._stack.enter_context(prepared(baseline, document))
        self.before = Clients(self.runner, document.workload.traffic, secrets.randbits(32))
        self._loading_seconds = time.monotonic() - started
        self._journal = Journal(document, context)
        self._is_loaded = True

    def attempts(self, composed: Plan) -> tuple[list[PlanMeasurement], dict[str, float]]:
        """The plans in the order of `plans_to_verify` until one is confirmed; the labels of those left out for time and
        the seconds that each is expected to take.

        The next plan is measured when as many seconds are left as the one before took. Where earlier processes of the
        stage have used up the overrun, today's plan alone is measured. Plans that they have measured are read back.
        """
        attempts, left_out = list[PlanMeasurement](), dict[str, float]()
        for label, plan in plans_to_verify(self.document, composed):
            if attempts and not attempts[-1].why_not and not gives_way(attempts[-1], self.document):
                break
            late = self.context.seconds_left < attempts[-1].seconds if attempts else not self._journal.most_seconds
            if late and is_change(plan, self.document):
                left_out[label] = attempts[-1].seconds if attempts else 0.0
                continue
            try:
                attempts.append(self._attempt_once(label, plan))
            except _TimeShort as short:
                left_out[label] = short.seconds
        if not attempts:
            baseline = self._attempt(self.document.workload.baseline_plan_runner, baseline_plan(self.document))
            attempts.append(replace(baseline, choice=NO_OTHER))
        return with_result_last(attempts), left_out

    def _attempt_once(self, label: str, plan: Plan) -> PlanMeasurement:
        """An attempt that the journal notes: if the plan ends the process, verify starts again without it.

        An attempt at today's plan is not noted, since verify cannot do without it.
        """
        if not is_change(plan, self.document):
            return self._attempt(label, plan)
        if self._is_loaded and copy_fits(plan, self.document, self.model):
            with suppress(NoRoom, torch.OutOfMemoryError):
                return self._interleaved(label, plan)
        return self._in_turns(label, plan)

    def _in_turns(self, label: str, plan: Plan) -> PlanMeasurement:
        """Raises _TimeShort before anything is given up."""
        document, context = self.document, self.context

        def attempt() -> PlanMeasurement:
            wanted, most = least_seconds(document, context, self._loading_seconds), self._journal.most_seconds
            if most < wanted:
                raise _TimeShort(wanted)
            self._journal.note(label, f"the plan {label}", MAX_SECONDS)
            self.further.close()
            self.close()
            return self._turns(plan).measure(label)

        measured: PlanMeasurement = self._journal.once(label, PlanMeasurement, attempt)
        return measured

    def _turns(self, plan: Plan) -> Turns:
        facts = plan, self.document, self.context, self.usd, unverified(self.document, plan)
        return Turns(*facts, self._loading_seconds, self._journal.most_seconds)

    def close(self) -> None:
        """Gives up the model and its memory."""
        if self._is_loaded:
            self._stack.close()
            del self.model, self.runner, self.before
            release(self.context)
        self._is_loaded = False

    def _interleaved(self, label: str, plan: Plan) -> PlanMeasurement:
        trials = self.document.results.compose.trials if self.document.results.compose else []
        built = max((trial.build_seconds or 0.0 for trial in trials if trial.label == label), default=0.0)

        def attempt() -> PlanMeasurement:
            self._journal.note_parts(label, f"the plan {label}", 2 * (built + self._loading_seconds))
            return self._attempt(label, plan)

        measured: PlanMeasurement = self._journal.once(label, PlanMeasurement, attempt)
        profile = measured.profile
        files = (profile.trace, profile.timeline and profile.timeline.file) if profile else ()
        self.context.saved += [file for file in files if file and file not in self.context.saved]
        return measured

    def _attempt(self, label: str, plan: Plan) -> PlanMeasurement:
        document, context, start = self.document, self.context, time.monotonic()
        reserve = max(context.seconds_left * (1 - TIMING_SHARE), budget.quality_seconds(document.results))
        self.further.close()
        context.report_progress(0.05, f"preparing the plan {label}")
        changed = is_change(plan, document)
        runner = prepared(planned_runner(document, context, plan, self.model), document) if changed else None
        with runner or nullcontext(self.runner) as after:
            clients, ready_seconds, environment = self._serve_both(after, plan, start, reserve)
            if environment.telemetry.void and context.seconds_left - (time.monotonic() - start) > reserve:
                clients, _, environment = self._serve_both(after, plan, start, reserve)
            hurried = not changed and context.overtime > LATEST_SECONDS
            served_ids, refusal = None, ""
            if not hurried:
                context.report_progress(0.7, "holding the served ids against the model's logits")
                served_ids, refusal = judge_served(runners.runner("eager", self.model), after, plan, document, clients)
            attempt = PlanMeasurement.of(
                label, plan, document, self.usd, environment, [Alternation(self.before.served, clients.served)],
                served_ids=served_ids, refusal=refusal, ready_seconds=ready_seconds, choice=_choice(document),
            )  # fmt: skip
            if not attempt.why_not and attempt.kept_for_processes(context, budget.quality_seconds(document.results)):
                reserved = quality_by_kind.float32_bytes(document, self.model)
                self.further.get_ready(plan, attempt.pairs_in(context), reserved)
            if not hurried:
                judged, no_quality = quality_by_kind.measure(
                    document, context, self.runner, after, unverified=unverified(document, plan)
                )
                attempt = replace(attempt, quality=judged, no_quality=no_quality)
            profile: PlanProfile | str = ""
            if attempt.why_not:
                self.further.close()
            else:
                self.further.wait_until_ready()
                reserve = attempt.kept_for_processes(context)
                profile = profile_plan(after, plan, self.model, document, clients.draw(), context, reserve)
        profiled = {"no_profile": profile} if isinstance(profile, str) else {"profile": profile}
        return replace(attempt, seconds=time.monotonic() - start, **profiled)

    def _serve_both(
        self, after: Runner, plan: Plan, start: float, reserve: float
    ) -> tuple[Clients, float, Environment]:
        """The clients of `after`, whose requests alternated with today's; the seconds until both were warm; and the
        environment.

        Both sides get the same prompts, which no earlier attempt has had: a runner may have cached earlier ones. They
        are the same clients where the plan is what runs today.
        """
        seed = secrets.randbits(32)
        clients = self.before = warm_clients(self.document, self.runner, seed, self.context.shared)
        if after is not self.runner:
            clients = warm_clients(self.document, after, seed, self.context.shared)
        ready_seconds = self._loading_seconds + time.monotonic() - start
        hours = hours_of(self.usd, sizes_of(self.document, plan))
        with watch_device(self.document) as environment:
            start_seconds = self.context.startup_seconds and self.context.startup_seconds + ready_seconds
            alternate(self.before, clients, self.document.workload, hours, self.context, reserve, start_seconds)
        return clients, ready_seconds, environment()

    def no_change(self, last: PlanMeasurement) -> PlanMeasurement:
        """What runs today as the result. It is measured until it is decided, unless it was the last attempt's plan.

        Requests that an earlier process of the stage served do not count here: there are MIN_PAIRS of this one.
        """
        if not self._is_loaded:
            turns = self._turns(baseline_plan(self.document))
            turns.go_on(last)
            failure = " ".join(filter(None, (last.failure, *turns.failures)))
            last = replace(last, environment=turns.environment, failure=failure)
            return unchanged(last, self.document, self.usd, turns.alternations)
        objectives, served = self.document.workload.objectives, self.before.served
        usd = hours_of(self.usd, sizes_of(self.document))[0]
        if not served:  # an earlier process of the stage measured every plan
            self.before.warm_up()
        with watch_device(self.document) as environment:
            while last.changed and not is_enough(objectives, served, usd):
                enough = MIN_SLOW_PAIRS if self.context.overtime > LATEST_SECONDS else MIN_PAIRS
                if not self.context.seconds_left and len(served) >= enough:
                    break
                self.before.serve()
        both = served if last.changed else last.after
        result = unchanged(last, self.document, self.usd, [Alternation(both, both)])
        if (meanwhile := environment()).telemetry.void:
            return replace(result, environment=meanwhile)
        return replace(result, environment=result.environment.with_busiest([meanwhile.telemetry]))


def unverified(document: StageInput, plan: Plan) -> bool:
    """Whether the plan's quality may stay unverified: that of a plan of lower precision on generated weights, which is
    only tried where the workload says so."""
    lower = lowers_precision(plan, dtype_of(document))
    return lower and document.model.generated and document.workload.constraints.allow_unverified_quality


def _choice(document: StageInput) -> str:
    """Why what runs today is verified, as a sentence; "" where no stage has said so."""
    if document.left_out:
        return NO_OTHER
    composed = document.results.compose
    return composed.choice or summaries.no_other_plan(composed.trials) if composed else ""
