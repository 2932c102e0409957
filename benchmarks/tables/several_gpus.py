"""The tables of models on one, two and four GPUs, beside torch's peers: of H200s with what was wanted, of H100s."""

from collections.abc import Sequence

from benchmarks.documents import Row, document, field, is_lossy
from benchmarks.predicted_errors import manifest
from benchmarks.tables.writing import borrowed, fidelity, markdown, table
from kernels.measure.pass_time import MEGAKERNEL
from workers.documents.workload import Workload
from workers.prediction.predict import predict

CLASSES = {2: "h200x2", 4: "h200x4"}
SUMS = {"symm_mem": "symm_mem", "nccl": "NCCL"}
"""The peers' sums by their names in files and in the table."""

CASES = (
    ("Llama-3.2-1B bf16, first 64 tokens", "decode-1b", "bf16", "ttf64_ms", (37, 24, 18)),
    ("Llama-3.1-8B bf16, a token", "decode-8b", "bf16", "ms_per_token", (3.45, 1.95, 1.15)),
    ("Llama-3.1-8B fp8, a token", "decode-8b", "fp8", "ms_per_token", (2.0, 1.2, 0.8)),
    ("Llama-3.1-70B's shape bf16, a token", "decode-70b", "bf16", "ms_per_token", (None, 17.5, 9.0)),
    ("Llama-3.1-70B's shape fp8, a token", "decode-70b", "fp8", "ms_per_token", (None, 9.3, 5.0)),
)
"""What is measured, the result and its field, and what was wanted of 1, 2 and 4 GPUs in ms."""

MODELS = {"decode-1b": "llama-3.2-1b", "decode-8b": "llama-3.1-8b", "decode-70b": "llama-3.1-70b"}


@table("several-gpus")
def several_gpus() -> str:
    """ms by GPUs, measured, wanted and modelled, and the fidelity; a dash where nothing is measured, or was refused.

    What one or two GPUs take is of the first result that has it. Peers are in bf16 and measured by the token. A time is
    marked with ³ where its own fidelity was not measured.
    """
    lines = []
    for label, source, weights, name, wanted in CASES:
        shown = [_first_row(source, weights, gpus) for gpus in (None, *CLASSES)]
        times = [_time(row, name) + _unheld(row) for row in shown]
        modelled = _modelled(MODELS[source], weights, name, "h200x4")
        goals = [f" ({_ms(goal)}; {_ms(of)})" if goal else "" for goal, of in zip(wanted, modelled, strict=True)]
        by_token = weights == "bf16" and name == "ms_per_token"
        peers = [_peer(gpu_class, source, how) if by_token else None for gpu_class in CLASSES.values() for how in SUMS]
        lines.append([label, *map(str.__add__, times, goals), *_fidelity(shown), *map(_ms, peers)])
    header = ["ms, measured (wanted; modelled)", "1 GPU", "2 GPUs", "4 GPUs", "KL, nats (torch)", "other tokens"]
    return markdown([*header, *(f"torch on {gpus}, {how}" for gpus in CLASSES for how in SUMS.values())], lines)


@table("several-h100s")
def several_h100s() -> str:
    """What one, two and four H100s of one host measured alternately, and in brackets what is modelled and the share of
    the read bandwidth; torch's peers on four. A dash where the GPUs do not hold the model.
    """
    lines = []
    for label, source, weights, name, _ in CASES:
        shown = [_row("h100x4", source, weights, gpus) for gpus in (None, 2, 4)]
        modelled = map(_ms, _modelled(MODELS[source], weights, name, "h100x4"))
        cells = [
            f"{_time(row, name)}{_unheld(row)} ({ms}; {row['read_share']:.0%})" if row else "–"
            for row, ms in zip(shown, modelled, strict=True)
        ]
        by_token = weights == "bf16" and name == "ms_per_token"
        peers = [_ms(_peer("h100x4", source, how) if by_token else None) for how in SUMS]
        lines.append([label, *(cell.replace("%", " %") for cell in cells), *_fidelity(shown), *peers])
    header = ["ms, measured (modelled; share)", "1 GPU", "2 GPUs", "4 GPUs", "KL, nats (torch)", "other tokens"]
    return markdown([*header, *(f"torch on 4, {how}" for how in SUMS.values())], lines)


def _modelled(model: str, weights: str, name: str, gpu_class: str) -> list[float]:
    """ms of a result's field `name`, predicted of 1, 2 and 4 GPUs of a class whose rates no run has measured."""
    stated = {
        "model": model,
        "traffic": {"prompt_tokens": 128, "output_tokens": 64},
        "objectives": [{"metric": "ttf_n", "n": 64, "limit": 1}],
    }
    plans = predict(Workload.model_validate(stated), manifest(model), gpu_class, None, "bf16", ["fp8"]).plans
    metric = "tpot" if name == "ms_per_token" else "ttf_n"
    ours = [plan for plan in plans if (plan.runner, plan.weights) == (MEGAKERNEL, weights)]
    return [next(figure.value for figure in plan.figures if figure.metric == metric) for plan in ours]


def _time(row: Row | None, name: str) -> str:
    return _ms(field(row, name)) + borrowed(row) if row else "–"


def _fidelity(rows_: Sequence[Row | None]) -> list[str]:
    """That of the most GPUs of a line; with what torch loses in bf16 in brackets, if any has that."""
    shown = [row for row in reversed(rows_) if row]
    if not shown:
        return ["–", "–"]
    row = max(shown, key=lambda row: (row.get("torch_kl") is not None, row["kl"] is not None))
    kl, others = fidelity(row)
    known = row.get("torch_kl")
    return [kl if known is None else f"{kl} ({known:#.2g})", others]


def _unheld(row: Row | None) -> str:
    """³ behind a time in lower precision of a row without a fidelity; "" behind any other."""
    return " ³" if row and is_lossy(row) and row["kl"] is None else ""


def _first_row(source: str, weights: str, gpus: int | None) -> Row | None:
    """The megakernel on so many H200s, of the smaller machine that measured it."""
    return next(filter(None, (_row(gpu_class, source, weights, gpus) for gpu_class in CLASSES.values())), None)


def _row(folder: str, source: str, weights: str, gpus: int | None) -> Row | None:
    """The megakernel on so many GPUs, None for one; None where it is not measured.

    A document of this precision alone comes before one of several.
    """
    rows: list[Row] = [*_rows(f"{folder}/{source}-{weights}"), *_rows(f"{folder}/{source}")]
    ours = [row for row in rows if row["variant"].startswith("megakernel") and field(row, "weights") == weights]
    return next((row for row in ours if field(row, "gpus") == gpus and row["gate"] == "pass"), None)


def _peer(folder: str, source: str, how: str) -> float | None:
    ms: float | None = _document(f"{folder}/peer-{MODELS[source]}-{how}").get("ms_per_token")
    return ms


def _rows(name: str) -> list[Row]:
    every: list[Row] = _document(name).get("rows", [])
    return every


def _document(name: str) -> Row:
    try:
        return document(name)
    except ValueError:
        return {}


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
