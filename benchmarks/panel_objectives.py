"""The models of the panel, what is promised of each, and the best figure that is known of it on a GPU."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.documents import LOSSY, RESULTS
from benchmarks.predicted_errors import manifest_of
from kernels.hardware import class_of
from kernels.measure.pass_time import MEGAKERNEL
from kernels.model_files import catalogue
from workers.documents.workload import Sla
from workers.prediction.predict import fastest, predict_run

FOLDER = Path(__file__).parent / "panel_models"
BEST = Path(__file__).with_name("panel_best.json")
TRAINED = "smollm2-135m-instruct"
SAME_SHAPE = {TRAINED: "smollm2-135m"}
"""Models whose known figures are those of another one, which has the same shape."""
PANEL = (
    *("llama-3.2-1b", TRAINED, "smollm2-360m", "tinyllama-1.1b", "qwen3-0.6b", "qwen3-1.7b", "llama-9-layers"),
    *("llama-3.1-8b", "mistral-7b", "qwen3-8b", "qwen3-30b-a3b", "olmoe-1b-7b"),
)
TRAFFIC = {"prompt_tokens": 128, "output_tokens": 64}
METRIC = {"metric": "ttf_n", "n": 64}
ROOM = 1.15
"""A promise's limit over what is predicted of the best plan, or over the best that is known where that is longer."""
OURS = (MEGAKERNEL, "kernels")


@dataclass(frozen=True)
class Entry:
    """A model of the panel; `reference` is the name of a catalogue entry or a folder."""

    name: str
    reference: str
    config: dict[str, Any]


@dataclass(frozen=True)
class PanelObjective:
    """What is promised of a model on a GPU, with its figures in ms; without any, to be no slower than today."""

    predicted: float | None
    best: float | None
    source: str

    @property
    def objective(self) -> dict[str, Any]:
        likely = max(self.predicted or 0.0, self.best or 0.0)
        return METRIC | ({"limit": float(f"{ROOM * likely:.3g}")} if likely else {"at_least_faster": 1})


def entry(name: str, trained: Path | None) -> Entry:
    """The model: one of panel_models/, of the catalogue, or TRAINED, whose folder is given. Raises ValueError."""
    if name in catalogue.names():
        return Entry(name, name, catalogue.entry(name)[0])
    if name == TRAINED and trained is None:
        raise ValueError(f"{name}: name its folder by --trained; `python -m benchmarks.trained_model FOLDER` makes it")
    folder = trained if trained and name == TRAINED else FOLDER / name
    try:
        return Entry(name, str(folder), json.loads((folder / "config.json").read_text("utf-8")))
    except FileNotFoundError:
        there = ", ".join(sorted({*PANEL, *catalogue.names()}))
        raise ValueError(f"{folder}/config.json is missing; the models are {there}") from None


def choose_objective(entry: Entry, gpu_class: str, earlier: Iterable[dict[str, Any]] = ()) -> PanelObjective:
    """The promise on a GPU of the class. `earlier` are rows of panels that no folder holds yet."""
    sla = Sla.model_validate({"traffic": TRAFFIC, "objectives": [METRIC | {"limit": 1}]})
    prediction = predict_run(sla, manifest_of(entry.name, entry.config), gpu_class, {}, lowered=False)
    plans = [plan for plan in prediction.plans if plan.runner in OURS and plan.tensor_parallel_size == 1]
    likely = fastest(plans, sla.objectives[0])
    known = [*_measured(), *json.loads(BEST.read_text("utf-8")), *_of_panels(earlier, "this panel")]
    name = SAME_SHAPE.get(entry.name, entry.name)
    rows = [row for row in known if (SAME_SHAPE.get(row["model"], row["model"]), row["gpu"]) == (name, gpu_class)]
    best: dict[str, Any] = min(rows, key=lambda row: float(row["ms"]), default={})
    return PanelObjective(likely[0] if likely else None, best.get("ms"), best.get("source", ""))


def _measured() -> Iterator[dict[str, Any]]:
    """The committed times of 64 tokens, of one request on one GPU in 16 bits, and those of committed panels."""
    for path in sorted(RESULTS.parent.glob("*/decode*.json")):
        document = json.loads(path.read_text("utf-8"))
        for row in document["rows"]:
            if _is_alike(row):
                source = f"results/{path.parent.name}/{path.name}: {row['variant']}"
                gpu = class_of(document["device"])
                yield {"model": row["case"]["model"], "gpu": gpu, "ms": row["ttf64_ms"], "source": source}
    for path in sorted(RESULTS.parent.glob("*/panel*.json")):
        rows = json.loads(path.read_text("utf-8"))["rows"]
        yield from _of_panels(rows, f"results/{path.parent.name}/{path.name}")


def _is_alike(row: dict[str, Any]) -> bool:
    case = row.get("case", {})
    sizes = {"batch": 1, "prompt": TRAFFIC["prompt_tokens"], "tokens": TRAFFIC["output_tokens"]}
    same = case.get("gpus", 1) == 1 and all(case.get(name) == value for name, value in sizes.items())
    return same and row["gate"] == "pass" and bool(row.get("ttf64_ms")) and case["weights"] not in LOSSY


def _of_panels(rows: Iterable[dict[str, Any]], source: str) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["figure"]:
            basis = f"{source}: {row['chosen']}, {row['minutes']:g} minutes"
            yield {"model": row["model"], "gpu": row["gpu"], "ms": row["figure"], "source": basis}
