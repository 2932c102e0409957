"""The bench document: what was timed on one machine during one lease. Imports without torch."""

from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kernels.tune.timed_variant import SettledTime, TimedVariant

FACTS = ("device", "gpu_uuid", "lease_id", "commit", "sources", "at")
"""What a document keeps of the environment beside the versions."""


class BenchRow(TimedVariant):
    """One variant at one case, as a bench document keeps it.

    `ratio_to_best_peer` is the time of the best peer with weights of the same precision over this one's: above 1 is
    faster. `own` is whether all kernels are the variant's own or its helpers; None of peers, and on a CPU. `host_us` is
    the median time in µs that the host spends in a call. Params that lost to others of their variant were not timed
    beside the peers: their rows have none of these three, and no kernels.

    `regime` tells a GPU's clocks while the row was timed: `burst` for single calls with pauses between them, `settled`
    for requests without. The row's floor is of the ceilings in the same regime; documents without it took settled
    ceilings. `settled` has the time of calls without pauses beside that of a burst, where it was asked for.

    Rows of whole models have more. `ttft_ms` is the time to the first token, `ttf64_ms` that to the 64th, which is
    `ms`, and `ms_per_token` that of a decode step. `read_share` is the share of the measured read bandwidth that a
    decode step's bytes take. `rounds` counts the requests behind the medians, `judged` those of them whose ids were
    held against the model's logits. Documents without it have one prompt for all requests of a row, and judged the last
    one at most. Where asked for, `kl` (mean, in nats) and `disagreement` (of the most likely token) tell how far
    `tokens` tokens are from the float32 model's, and `torch_kl` how far torch's own ops in the model's dtype are over
    the same tokens; documents without it have that in the row of `eager`, if anywhere. `own_mean_gap` and
    `own_largest_gap` are the logit gaps of the ids that a runner serves, by its own logits. `processes_ms` has the
    median in each process where a runner was measured in several: its times are then the geometric means, and the
    interval contains the spread between the processes (`kernels.measure.intervals.across_processes`).
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    case: dict[str, Any]
    ratio_to_best_peer: float | None = None
    own: bool | None = None
    ttft_ms: float | None = None
    ttf64_ms: float | None = None
    ms_per_token: float | None = None
    read_share: float | None = None
    rounds: int | None = None
    judged: int | None = None
    kl: float | None = None
    disagreement: float | None = None
    torch_kl: float | None = None
    tokens: int | None = None
    own_mean_gap: float | None = None
    own_largest_gap: float | None = None
    host_us: float | None = None
    regime: Literal["burst", "settled"] | None = None
    settled: SettledTime | None = None
    processes_ms: list[float] = []


class MeasuredDocument(BaseModel):
    """Machine, versions, commit and ceilings of a document's rows; `sources` as `sources_digest` gives it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())

    version: int
    device: str
    gpu_uuid: str = ""
    lease_id: str = ""
    versions: dict[str, str]
    commit: str = ""
    sources: str = ""
    ceilings: dict[str, Any] = {}
    rows: list[Any]
    at: str = ""
    note: str = ""


Document = TypeVar("Document", bound=MeasuredDocument)


class BenchDocument(MeasuredDocument):
    """Timed variants."""

    version: Literal[2] = 2
    rows: list[BenchRow]


def append_rows(old: Document, new: Document) -> Document:
    """The rows of both. Raises ValueError when they are not of one lease of one machine, or not of the same sources."""
    for field in ("device", "gpu_uuid", "lease_id", "commit", "sources"):
        one, two = getattr(old, field), getattr(new, field)
        if one != two:
            raise ValueError(f"{field}: the document has {one!r}, this machine {two!r}; write to another file")
    return old.model_copy(update={"rows": [*old.rows, *new.rows]})


def read(path: Path) -> BenchDocument:
    """The document at `path`. Raises OSError, or ValueError in a sentence when it is not a bench document."""
    return read_as(BenchDocument, path)


def read_as(kind: type[Document], path: Path) -> Document:
    """The document of this kind at `path`. Raises as `read` does."""
    try:
        return kind.model_validate_json(path.read_text())
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"not a bench document: {f'{field}: ' if field else ''}{first['msg']}") from None


def unwritable(path: Path) -> str:
    """Why nothing can be written at `path`, in a sentence; "" when a document can."""
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"there is no directory {folder}"
    if path.is_dir():
        return f"{path} is a directory"
    try:
        _partial(path).touch()
        _partial(path).unlink()
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def write(path: Path, document: MeasuredDocument) -> None:
    """Writes the document whole or not at all."""
    _partial(path).write_text(document.model_dump_json(indent=1) + "\n")
    _partial(path).replace(path)
