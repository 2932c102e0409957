"""The form of a workload: a flat view of the document, by the paths of its fields.

It checks nothing itself: `document()` goes to the pydantic Workload, and the reasons that come back are shown beside
the inputs of the same path.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.http import QueryDict

from workbench.intake.forms import inputs as form_inputs
from workbench.intake.forms import templates
from workbench.intake.forms.inputs import FACTS, FLAGS, LISTS, NUMBERS, SECTIONS, TEXTS, Choices, Input
from workers.documents.model import Kind
from workers.documents.traffic import Traffic
from workers.documents.workload import Constraints

Values = dict[str, Any]
MAX_ROWS = 16
OWN = ("name", "endpoint", "present", "quality_text")
"""Optional parts of a document that have no defaults: what was typed there stays when an SLA says nothing of them."""
UNSAID = ("present.metric", "endpoint.api")
"""Choices that say nothing while the rest of their section is empty."""
_OF_KIND = re.compile(r"^(traffic\.(?:arrivals|prompt_lengths|output_lengths))\.[a-z-]+\.")
"""A field of one kind of arrivals or lengths: pydantic names the kind as well, `traffic.arrivals.recorded.speed`."""
_ROW = re.compile(r"objectives\[(\d{1,3})\]\.(metric|n|percentile|limit|at_least_faster)$")


class WorkloadForm:
    """Values by path (text, lists of strings, flags), the reasons beside them, and the text of an SLA file.

    `copied`: the id of the workload that the form began with, whose endpoint's key may be used for the same address.
    `recordings`: SHA-256 and words of those that may be chosen.
    `stale`: it was sent from a page that is older than the login, so nothing was done with it.
    `key_carried`: the key that was typed before, sealed for who typed it, so that it need not be shown or typed again.
    """

    def __init__(self, values: Values, models: Sequence[tuple[str, Choices]]) -> None:
        self.values, self.models = values, models
        self.recordings: Choices = []
        self.reasons: Sequence[Mapping[str, str]] = []
        self.sla_name, self.sla_text = "SLA", ""
        self.sla_reasons: list[str] = []
        self.focus = ""
        self.copied, self.key_carried, self.stale = "", "", False

    @classmethod
    def empty(cls, models: Sequence[tuple[str, Choices]], model: str = "", kind: Kind = "decoder") -> "WorkloadForm":
        """The document's defaults, and the traffic and promises to begin with for a model of this kind."""
        return cls(flatten(templates.for_kind(kind).model_dump(mode="json")) | {"model": model}, models)

    @classmethod
    def posted(cls, data: QueryDict, models: Sequence[tuple[str, Choices]]) -> "WorkloadForm":
        """The form as it was sent."""
        values: Values = {name: data.getlist(name) for name in LISTS} | {name: name in data for name in FLAGS}
        values |= {name: _text(data[name]) for name in data if name in TEXTS or _ROW.match(name)}
        values |= {"name": data.get("name", "")}  # spaces alone are refused as in any other form
        form = cls(_renumber(values), models)
        form.copied, form.key_carried = data.get("from", ""), data.get("key_carried", "")
        return form

    @property
    def rows(self) -> int:
        """How many objectives there are."""
        return len({match[1] for name in self.values if (match := _ROW.match(name))})

    def add_objective(self) -> None:
        """One more row at the end, up to MAX_ROWS."""
        at = f"objectives[{self.rows}]"
        if self.rows < MAX_ROWS:
            empty = {f"{at}.{name}": "" for name in ("n", "limit", "at_least_faster")}
            self.values |= empty | {f"{at}.metric": "tpot", f"{at}.percentile": "50"}
            self.focus = f"{at}.metric"

    def remove_objective(self, index: int) -> None:
        """Takes a row away; those after it move up."""
        others = {name: value for name, value in self.values.items() if not name.startswith(f"objectives[{index}].")}
        self.values = _renumber(others)

    def fill(self, document: Mapping[str, Any]) -> None:
        """Takes the values of a document. The model, and the parts of OWN that it leaves out, stay as they are."""
        stay = {part for part in ("model", *OWN) if part not in document}
        values = {name: value for name, value in self.values.items() if name.partition(".")[0] in stay}
        self.values = {"model": ""} | values | flatten(document)

    @property
    def templates(self) -> list[tuple[str, str]]:
        """Name and title of every template."""
        return [(name, template.title) for name, template in templates.TEMPLATES.items()]

    def use_template(self, name: str) -> None:
        """Takes traffic, load and objectives of a template; everything else stays as it is."""
        sla = templates.TEMPLATES[name].sla.model_dump(mode="json", include={"traffic", "objectives", "load"})
        prefixes = ("objectives[", "traffic.", "load.")
        values = {path: value for path, value in self.values.items() if not path.startswith(prefixes)}
        self.values = values | flatten(sla)

    def document(self) -> dict[str, Any]:
        """The document that the form describes, unchecked; what is empty is left out."""
        document: dict[str, Any] = {"objectives": [{} for _ in range(self.rows)]}
        empty = tuple(part for part, facts in FACTS.items() if not any(self.values.get(name) for name in facts))
        for name, value in self.values.items():
            if value != "" and not name.startswith(empty):
                _put(document, name, _parse_value(name, value))
        return document

    def inputs(self) -> Iterator[Input]:
        """Every input, in the order of the page."""
        yield self.model
        for part in (*self.objectives, *self.sections.values()):
            yield from part

    @property
    def other_reasons(self) -> list[Mapping[str, str]]:
        """Reasons about fields that the form has no input for; those of all objectives stand in their section."""
        shown = list(self.inputs())
        elsewhere = (reason for reason in self.reasons if reason["field"] != "objectives")
        return [
            reason for reason in elsewhere if not any(_belongs(reason["field"], form_input) for form_input in shown)
        ]

    @property
    def model(self) -> Input:
        return self._bound(form_inputs.model(self.models))

    @property
    def objectives(self) -> list[list[Input]]:
        metrics = [str(self.values.get(f"objectives[{index}].metric", "")) for index in range(self.rows)]
        return [[self._bound(form_input) for form_input in form_inputs.objective(*row)] for row in enumerate(metrics)]

    @property
    def sections(self) -> dict[str, list[Input]]:
        """The inputs of each section."""
        return {name: [self._bound(form_input) for form_input in make()] for name, make in SECTIONS.items()}

    @property
    def filled(self) -> dict[str, bool]:
        """Whether an input of each section differs from the document's defaults, be it wrongly."""
        return {name: any(map(_is_filled, inputs)) for name, inputs in self.sections.items()}

    def _bound(self, form_input: Input) -> Input:
        form_input.value = self.values.get(form_input.name, "")
        if form_input.name == "traffic.recording":
            form_input.choices = [*form_input.choices, *self.recordings]
        if form_input.kind == "checks" or form_input.name == "traffic.recording":
            choices = {name for name, _ in form_input.choices}
            given = [form_input.value] if isinstance(form_input.value, str) else form_input.value
            form_input.choices = [
                *form_input.choices,
                *((name, name) for name in given if name and name not in choices),
            ]
        form_input.errors = [reason["reason"] for reason in self.reasons if _belongs(reason["field"], form_input)]
        form_input.focus = form_input.name == self.focus
        return form_input


def _text(given: Any) -> str:
    """The text without space around it; a browser ends the lines of an area with two characters."""
    return str(given).strip().replace("\r\n", "\n")


def flatten(document: Mapping[str, Any], path: str = "") -> Values:
    """A document as {path: text, list of strings or flag}; None becomes an empty text."""
    values: Values = {}
    for key, value in document.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            values |= flatten(value, name)
        elif key == "objectives":
            for index, objective in enumerate(value):
                values |= flatten(objective, f"objectives[{index}]")
        elif isinstance(value, bool | list):
            values[name] = value
        else:
            values[name] = "" if value is None else str(value).removesuffix(".0")
    shown = TEXTS | LISTS | FLAGS
    return {name: value for name, value in values.items() if path or name in shown or _ROW.match(name)}


DEFAULTS = flatten({"traffic": Traffic().model_dump(mode="json"), "constraints": Constraints().model_dump(mode="json")})


def _is_filled(form_input: Input) -> bool:
    differs = form_input.value and form_input.value != DEFAULTS.get(form_input.name)
    return form_input.name not in UNSAID and bool(form_input.errors or differs)


def _belongs(field: str, form_input: Input) -> bool:
    """Whether a reason's field is the input's, an item of its list, or the part of the document that it begins."""
    field = _OF_KIND.sub(r"\1.", field)
    return field in (form_input.name, form_input.name.removesuffix(".kind")) or (
        form_input.kind == "checks" and field.startswith(f"{form_input.name}[")
    )


def _renumber(values: Values) -> Values:
    """Objectives counted from 0 without gaps, in their order."""
    numbers = sorted({int(match[1]) for name in values if (match := _ROW.match(name))})
    index_of = {number: index for index, number in enumerate(numbers)}
    renumbered: Values = {}
    for name, value in values.items():
        match = _ROW.match(name)
        renumbered[f"objectives[{index_of[int(match[1])]}].{match[2]}" if match else name] = value
    return renumbered


def _parse_value(name: str, value: Any) -> Any:
    """A number's text as the number, so that the reasons read as for a document; anything else as it is."""
    if name not in NUMBERS and not (name.startswith("objectives[") and not name.endswith(".metric")):
        return value
    with suppress(ValueError):
        return int(value)
    with suppress(ValueError):
        return float(value)
    return value


def _put(document: dict[str, Any], name: str, value: Any) -> None:
    row = _ROW.match(name)
    if row:
        document["objectives"][int(row[1])][row[2]] = value
        return
    *parents, last = name.split(".")
    for parent in parents:
        document = document.setdefault(parent, {})
    document[last] = value
