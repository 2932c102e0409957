"""Puts before and after under rising load, and finds the highest at which every objective holds.

After is this workbench's server, which serves few requests by the megakernel and more by the library's kernels. A plan
of another runner is put under load in batches formed as requests arrive as well, and after is what holds more. Before
is what runs today, in such batches, or vLLM's server where the workload names it; after is then vLLM with the plan
where it names that. Before comes first, and each side has
the GPU to itself. Verdicts take the longer, the more load a side holds, so the time that before leaves is after's. A
sample of both sides' answers is then held against the model's logits; a side that does not pass does not count.
Whatever goes wrong with a side ends in a sentence; the verdict of verify stands.
"""

from collections.abc import Callable
from typing import Any

from kernels.measure.environment import environment_info
from kernels.plan import Plan
from kernels.proof.logit_gate import MAX_DIFFERENCE
from kernels.server.processes.handoff_server import ServerDeclined
from workers.documents.load import LoadCurve, UnderLoadResult
from workers.documents.measurement import Environment, ServedIds
from workers.documents.stages import StageInput, VerifyResult
from workers.harness.context import Context, StageError
from workers.loadtest.load_test import NotMeasurable
from workers.loadtest.servers import judging, vllm
from workers.loadtest.servers.curve import with_limits
from workers.loadtest.servers.sides import OF_THE_SERVER, Sides
from workers.measuring.served_model import device_of, dtype_of
from workers.planning.precision import rounding_of
from workers.wording.errors import error_sentence
from workers.wording.load_search import AFTER_HERE, choice_of, unlike_verify, whole_sentence

SHARE_OF_AFTER = 0.55
"""The least share of the stage's seconds for after; the others are for what runs today."""
TWO_FORMS_SECONDS = 40.0
"""Where after has fewer, one form of the plan is put under load: two start, and have three loads of three seconds each
at least.
"""


def run(document: StageInput, context: Context) -> UnderLoadResult:
    """The load stage. Raises StageError when the model has not been verified."""
    verify = document.results.verify
    if verify is None:
        raise StageError("load: the run has no verified plan")
    objectives = with_limits(
        document.workload.objectives,
        {(outcome.objective.metric, outcome.objective.n): outcome.before for outcome in verify.outcomes},
    )
    environment = Environment.model_validate(environment_info(device=device_of(document.gpu_class)))
    facts: dict[str, Any] = {"environment": environment, "traffic": document.workload.traffic}
    facts |= {"objectives": objectives, "recording": document.recording}
    if document.model.kind != "decoder":
        return UnderLoadResult(**facts, sentence="Only models that generate text are put under load.")
    if not objectives:
        return UnderLoadResult(**facts, sentence="No load was measured: no objective has a limit to hold.")
    notes: list[str] = []
    sides = Sides(document, context, objectives, environment.device)
    starting, ends = _starting(document, notes), judging.SHARE * context.seconds_left
    in_vllm = bool(starting) and document.workload.after_runner == "vllm"
    again = starting if in_vllm else 0.0
    of_after = (context.seconds_left - ends - starting - again) * SHARE_OF_AFTER + again if verify.recommended else 0.0
    curves = {"before": _attempt("Before", lambda: _before(document, sides, starting, ends + of_after), notes)}
    curves["after"], choice = _after(verify, sides, ends, notes, in_vllm)
    before, after = _judge_sides(document, verify, sides, curves, notes)
    sentences = whole_sentence(before, after, verify.recommended), unlike_verify(document.workload.objectives, before)
    sentence = " ".join(filter(None, sentences))
    choice = choice if after else ""
    return UnderLoadResult(**facts, before=before, after=after, sentence=sentence, choice=choice, notes=notes)


def _starting(document: StageInput, notes: list[str]) -> float:
    """Seconds that vLLM takes to start; 0 where it is not before, or, as a note then says, cannot be."""
    if document.workload.baseline_runner != "vllm":
        return 0.0
    if refusal := vllm.refusal():
        notes.append(refusal)
        return 0.0
    return vllm.EXPECTED_START_SECONDS


def _before(document: StageInput, sides: Sides, starting: float, until: float) -> LoadCurve:
    if starting:
        return vllm.measure_curve(sides, until)
    return sides.batches("before", document.workload.baseline_plan_runner, None, until)


def _after(
    verify: VerifyResult, sides: Sides, until: float, notes: list[str], in_vllm: bool
) -> tuple[LoadCurve | None, str]:
    """The curve of after, in vLLM or here, and of two forms of the plan why it is this one."""
    if not verify.recommended:
        notes.append("No change is recommended, so only what runs today was put under load.")
        return None, ""
    plan = Plan.model_validate(verify.plan)
    if in_vllm:
        return _attempt("After", lambda: vllm.measure_curve(sides, until, plan), notes), ""
    if sides.document.workload.after_runner == "vllm":
        notes.append(AFTER_HERE)

    def in_batches() -> LoadCurve:
        return sides.batches("after", plan.runner, plan, until)

    def measured() -> LoadCurve:
        try:
            return sides.server(plan, until)
        except ServerDeclined as why:
            reason = str(why).rstrip(".")
            notes.append(f"This workbench's server does not run the model: {reason}. So after is in batches.")
            return in_batches()

    if plan.runner in OF_THE_SERVER:
        return _attempt("After", measured, notes), ""
    seconds = sides.context.seconds_left - until
    if seconds < TWO_FORMS_SECONDS:
        notes.append(
            "After is in batches, and this workbench's server was not measured beside them: both take "
            f"{TWO_FORMS_SECONDS:.0f} s, and {max(0.0, seconds):.0f} s were left for after."
        )
        return _attempt("After", in_batches, notes), ""
    middle = until + seconds / 2
    served = _attempt("This workbench's server", lambda: sides.server(plan, middle), notes)
    answers = sides.answers.get("after", [])
    batches = _attempt("After in batches", in_batches, notes)
    forms = sorted(filter(None, (served, batches)), key=_highest, reverse=True)
    if forms and forms[0] is served:
        sides.answers["after"] = answers
    return forms[0] if forms else None, choice_of(*forms) if len(forms) == 2 else ""


def _highest(curve: LoadCurve) -> tuple[float, float]:
    """The highest load that holds and the tokens per second there; where none does 0, and the most at any load."""
    loads = [curve.limit.held] if curve.limit.held else curve.limit.loads
    return curve.limit.level, max((load.tokens_per_second for load in loads), default=0.0)


def _judge_sides(
    document: StageInput, verify: VerifyResult, sides: Sides, curves: dict[str, LoadCurve | None], notes: list[str]
) -> list[LoadCurve | None]:
    """Before and after with what their answers are found to be; None for a side whose answers are not the model's."""
    answers = {name: sides.answers[name] for name, curve in curves.items() if curve is not None}
    allowed = {"before": MAX_DIFFERENCE[dtype_of(document)]}
    if "after" in answers:
        allowed["after"] = MAX_DIFFERENCE[rounding_of(Plan.model_validate(verify.plan))]
    sampling = document.workload.traffic.sampling
    why = "its tokens are drawn by chance" if sampling and sampling.temperature else "none that ended gave its ids"
    try:
        judged = judging.judge(document, sides.context, answers, allowed)
    except (StageError, ValueError, RuntimeError) as error:
        judged, why = {}, str(error).rstrip(".") if isinstance(error, StageError) else error_sentence(error)
    return [_with_answers(name, curves[name], judged.get(name), why, notes) for name in ("before", "after")]


def _with_answers(
    name: str, curve: LoadCurve | None, judged: ServedIds | None, why: str, notes: list[str]
) -> LoadCurve | None:
    if curve is None:
        return None
    if judged is not None and not judged.acceptable:
        notes.append(f"The loads of {name} do not count: {judged.sentence}")
        return None
    if judged is not None:
        return curve.model_copy(update={"served_ids": judged})
    caveats = [*curve.server.caveats, f"None of its answers was held against the model's logits: {why}."]
    return curve.model_copy(update={"server": curve.server.model_copy(update={"caveats": caveats})})


def _attempt(name: str, measured: Callable[[], LoadCurve], notes: list[str]) -> LoadCurve | None:
    """The curve of a side, or None and a note that says why there is none."""
    try:
        return measured()
    except (StageError, NotMeasurable, ValueError, RuntimeError, OSError) as error:
        own = isinstance(error, StageError | NotMeasurable | ServerDeclined)
        reason = str(error).rstrip(".") if own else error_sentence(error)
        notes.append(f"{name} was not measured under load: {reason}.")
        return None


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
