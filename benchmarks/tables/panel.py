"""The table of whole runs of many models and their regret, from every `results/<gpu>/panel*.json`."""

import json
from typing import Any

from benchmarks.documents import RESULTS
from benchmarks.tables.writing import markdown, table


@table("panel")
def panel() -> str:
    """The latest run of each model, by GPU and minutes."""
    documents = [json.loads(path.read_text("utf-8")) for path in RESULTS.parent.glob("*/panel*.json")]
    documents.sort(key=lambda document: document["at"])
    latest = {
        tuple(row[name] for name in ("gpu", "minutes", "again", "model")): row
        for document in documents
        for row in document["rows"]
    }
    rows = sorted(latest.values(), key=lambda row: (row["gpu"], row["minutes"], row["again"]))
    header = ["GPU", "minutes", "model", "promised", "chosen", "64 tokens", "best known", "regret"]
    return markdown([*header, "first plan", "verdict after", "verdict", "not tried for time"], map(_line, rows))


def _line(row: dict[str, Any]) -> list[str]:
    limit, again = row["promise"].get("limit"), ", again" if row["again"] else ""
    return [
        row["gpu"].upper(),
        f"{row['minutes']:g}",
        f"{row['model']}{again}",
        f"{limit:g} ms" if limit else "no slower",
        f"`{row['chosen']}`" if row["chosen"] else "–",
        *(f"{ms:.1f} ms" if ms else "–" for ms in (row["figure"], row["best"])),
        f"{row['regret']:.2f}" if row["regret"] else "–",
        *(
            f"{seconds:.0f} s" if seconds else "–"
            for seconds in (row["seconds_to_first_plan"], row["seconds_to_verdict"])
        ),
        (row["verdict"] or "none").replace("_", " "),
        str(len(row["not_tried_for_time"])),
    ]
