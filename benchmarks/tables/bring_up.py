"""What the bring-up found on a GPU as a stranger, beside what a prepared run of the workbench chose there."""

from benchmarks.documents import document
from benchmarks.tables.writing import markdown, table
from kernels import ops

PREPARED = "llama-3.2-1b-load-ca078c3"


@table("bring-up-winners")
def winners() -> str:
    """By op: cases that both timed, those with the same fastest variant of ours, and the others by name."""
    prepared = _prepared()
    counted: dict[str, list[str | None]] = {}
    for race in document("bring-up")["races"]:
        op = race["case"].split()[0].removeprefix("op=")
        if race["case"] in prepared:
            other = prepared[race["case"]][1]
            unlike = None if race["own"] == other else f"`{race['own']}`; the prepared run has `{other}`"
            counted.setdefault(op, []).append(unlike)
    lines = [
        [op.replace("_", " "), str(len(outcomes)), str(outcomes.count(None)), "; ".join(filter(None, outcomes))]
        for op, outcomes in counted.items()
    ]
    return markdown(["op", "cases of both", "the same winner", "another winner"], lines)


def _prepared() -> dict[str, tuple[float, str]]:
    """The time and the name of the fastest variant of ours for each case of the prepared run."""
    best: dict[str, tuple[float, str]] = {}
    for candidate in document(PREPARED)["results"]["explore"]["candidates"]:
        if candidate["gate"] == "pass" and not candidate["peer"] and candidate["ms"]:
            case = ops.case_from.validate_python(candidate["case"]).key
            best[case] = min(
                best.get(case, (candidate["ms"], candidate["variant"])), (candidate["ms"], candidate["variant"])
            )
    return best
