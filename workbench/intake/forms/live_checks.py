"""What the form of a workload says while it is filled in: the promises in words, what is wrong, and where it would run.

Nothing is stored, and no model is made.
"""

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pydantic

from kernels.model_files import catalogue as known_models
from workbench.api.sentences import Problem, sentences
from workbench.intake import sla
from workbench.intake.forms.workload import WorkloadForm
from workbench.intake.models import Model, Recording
from workbench.intake.services import objective_words, placement
from workbench.intake.services.catalogue import catalogue_manifest
from workbench.intake.services.recordings import named_recording
from workbench.intake.services.workloads import fewest_gpus, needed_gib, reasons
from workers.documents.budget import MINUTES_OF_BOTH, MINUTES_WITH_VLLM
from workers.documents.gpu_class import gpus_of
from workers.documents.model import ModelManifest
from workers.documents.traffic import Traffic
from workers.documents.workload import Objective
from workers.documents.workload import Workload as WorkloadDocument
from workers.prediction.feasibility import AvailableGpus, more_gpus, rates_words
from workers.prediction.predict import MEDIAN, divides, fastest, predict_run
from workers.wording.serving import outside_vllm
from workers.wording.text import plain, request_words, speed_words

NO_MODEL = "-"
"""Stands for the model while none is chosen."""


@dataclass
class FormChecks:
    """Sentences: the `promises`, what is still `missing`, what is wrong (`reasons`), `warnings`, and `facts`."""

    objectives: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    gpu_class: str = ""
    """Where a run would go, "" where none would start."""

    @property
    def digest(self) -> str:
        """Equal for equal sentences, so that nothing is said twice."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


def check(form: WorkloadForm, rows: Any, recordings: Any, organisation: Any) -> FormChecks:
    """The checks of the form as it stands. `rows` are the organisation's models, `recordings` its recordings."""
    checks = FormChecks(facts=[_workers()])
    labels = {form_input.name: form_input.label for form_input in form.inputs()}
    labels |= {name.removesuffix(".kind"): label for name, label in labels.items()}
    try:
        given = sla.parse(form.sla_text, form.sla_name) if form.sla_text else form.document()
        document = WorkloadDocument.model_validate({"model": form.values.get("model") or NO_MODEL} | given)
    except Problem as problem:
        _tell(checks, problem.errors, labels)
    except pydantic.ValidationError as error:
        _tell(checks, sentences(error), labels)
        checks.objectives = _readable_objectives(given.get("objectives"))
    else:
        checks.objectives = [objective_words.sentence(objective) for objective in document.objectives]
        recording = named_recording(recordings, document)
        checks.facts += [f"{recording.document.words}.", *recording.document.notes] if recording else []
        available = placement.known(organisation, document)
        _check_model(checks, document, rows, labels, recording, available)
        if checks.gpu_class and (facts := _facts(document.model, rows)):
            _tell_prediction(checks, document, facts, available)
    return checks


def _tell(checks: FormChecks, errors: Sequence[Mapping[str, str]], labels: Mapping[str, str]) -> None:
    """Reasons under the labels of their inputs; an input that is only empty is missing, not wrong."""
    for error in errors:
        name = _label(error["field"], labels)
        if error["reason"] == "is required":
            checks.missing.append(name)
        else:
            checks.reasons.append(f"{': '.join(filter(None, [name, error['reason'].rstrip('.')]))}.")


def _label(path: str, labels: Mapping[str, str]) -> str:
    row, _, name = path.removeprefix("objectives[").partition("].")
    if not path.startswith("objectives[") or not row.isdigit():
        return labels.get(path, path)
    return f"{labels.get(path, name)} of objective {int(row) + 1}"


def _readable_objectives(objectives: Any) -> list[str]:
    """The promises that are whole already, while something else is not."""
    readable = []
    for row in objectives if isinstance(objectives, list) else []:
        with contextlib.suppress(pydantic.ValidationError):
            readable.append(objective_words.sentence(Objective.model_validate(row)))
    return readable


def _workers() -> str:
    live = sorted(placement.live_gib())
    if not live:
        return "No worker is running now: a run waits for one."
    return f"Workers are running for class {', '.join(live)}."


def _facts(reference: str, rows: Any) -> ModelManifest | None:
    if reference in known_models.names():
        return catalogue_manifest(reference)[0]
    model = rows.filter(content_digest=reference).first() or rows.filter(digest=reference).first()
    return model.reading[0] if isinstance(model, Model) else None


def _load_words(max_users: int, traffic: Traffic) -> str:
    """What is put on both sides under load."""
    what = "one user" if max_users == 1 else f"up to {max_users:,} users at once"
    if traffic.rate is not None:
        what = f"up to {plain(traffic.rate)} requests per second, {max_users:,} served at once at most"
    if traffic.speed is not None:
        what = f"the recording, up to {speed_words(traffic.speed)}, {max_users:,} served at once at most"
    return f"Under load, before and after: {what}."


def _check_model(
    checks: FormChecks,
    document: WorkloadDocument,
    rows: Any,
    labels: Mapping[str, str],
    recording: Recording | None,
    available: AvailableGpus,
) -> None:
    facts = _facts(document.model, rows)
    if facts is None and document.model != NO_MODEL:
        checks.reasons.append(f"{labels['model']}: there is no model {document.model[:80]!r}.")
        return
    if facts is None:
        checks.missing.append(labels["model"])
        return
    _tell(checks, reasons(facts, document, available, recording), labels)
    traffic = document.traffic
    what = request_words(traffic, facts)
    checks.facts.insert(0, f"A request: {what}; batch {traffic.batch}, {traffic.concurrency} at once.")
    if document.load is not None:
        checks.facts.insert(1, _load_words(document.load.most_users, traffic))
    needs = needed_gib(facts, document)
    fits = [name for name in document.constraints.gpu_classes if fewest_gpus(facts, document, name)]
    checks.facts.append(
        f"{facts.name} needs about {needs:,.1f} GiB with this traffic (modelled): "
        f"{'it fits ' + ', '.join(fits) if fits else 'it fits no allowed class'}."
    )
    checks.warnings += objective_words.below_floor(facts, document, available)
    min_minutes = MINUTES_OF_BOTH if document.after_runner == "vllm" else MINUTES_WITH_VLLM
    if document.baseline_runner == "vllm" and document.constraints.minutes < min_minutes:
        checks.warnings.append(f"vLLM's server takes about a minute to start: give the run {min_minutes:g} minutes.")
    _check_placement(checks, document, facts, available, fits_a_class=bool(fits))


def _check_placement(
    checks: FormChecks,
    document: WorkloadDocument,
    facts: ModelManifest,
    available: AvailableGpus,
    fits_a_class: bool,
) -> None:
    """The class that a run would go to, or why none would start."""
    try:
        placement.check_fits(document, facts, None)
    except placement.TooLarge as error:
        if fits_a_class:  # else that no allowed class holds it is said already
            checks.reasons.append(f"{error}.")
        return
    chosen = placement.choose_class(document, facts, available.ceilings)
    if refused := placement.refusal(document, facts, chosen, available):
        checks.warnings = [warning for warning in checks.warnings if warning != f"{refused}."]
        if all(refused not in reason for reason in checks.reasons):
            checks.reasons.append(f"No run would start: {refused}.")
        return
    checks.gpu_class = chosen
    outside = outside_vllm(facts.architecture, chosen) if document.after_runner == "vllm" else ""
    if outside and not outside_vllm(facts.architecture):  # that no class takes the model is said already
        checks.reasons.append(f"The run would be refused: {outside}.")
    checks.facts += placement.missed_by_fewer(document, facts, chosen, available.ceilings)
    if gpus_of(chosen) > 1 and not divides(facts, gpus_of(chosen)):
        checks.warnings.append(f"{facts.name} is not sharded over GPUs: its plan runs on one of class {chosen}.")
    if chosen in available.live:
        checks.facts.append(f"A run of it would go to class {chosen}.")
    elif placement.why_several(document, facts, chosen, available):
        checks.warnings.append(f"A run would wait for a worker of class {chosen}.")
    else:
        allowed = ", ".join(document.constraints.gpu_classes)
        checks.warnings.append(
            f"No allowed class ({allowed}) has a running worker with enough memory: a run would wait."
        )


def _tell_prediction(
    checks: FormChecks, document: WorkloadDocument, facts: ModelManifest, available: AvailableGpus
) -> None:
    """What the fastest plan is predicted to take for the first promise that predictions are about.

    It is a warning where the promise is shorter, with the class that could keep it. Where no promise is predicted on a
    GPU, why.
    """
    gpu_class = checks.gpu_class
    prediction = predict_run(document, facts, gpu_class, available.ceilings)
    times = ((objective, fastest(prediction.plans, objective)) for objective in document.objectives)
    objective, best = next(((objective, quickest) for objective, quickest in times if quickest), (None, None))
    if objective is None or best is None:
        checks.facts += prediction.missing if gpu_class != "cpu" else []
        return
    value, plan = best
    several = "" if plan.tensor_parallel_size == 1 else f" on {plan.tensor_parallel_size} GPUs"
    sentence = (
        f"Predicted on {gpu_class} (modelled, {rates_words(gpu_class, available.ceilings)}): the median "
        f"{objective.title} is {plain(value)} ms with {plan.runner} in {plan.weights}{several}"
    )
    if objective.limit is None:
        checks.facts.append(f"{sentence}.")
        return
    misses = value > objective.limit and objective.percentile >= MEDIAN
    sentence += f"; promised are at most {plain(objective.limit)} ms"
    if misses:
        checks.warnings.append(f"{sentence}{more_gpus(objective, document, facts, gpu_class, available)}.")
    else:
        checks.facts.append(f"{sentence}.")
