"""The table of the load on the site itself, a line for each document `results/2-core-epyc/web-load*.json`."""

import json
from typing import Any

from benchmarks.documents import RESULTS
from benchmarks.tables.writing import markdown, table

FOLDER = RESULTS.with_name("2-core-epyc")


@table("web-load")
def web_load() -> str:
    """Times of reads and submits, what a request costs in processor time, and how busy the machine was."""
    documents = [json.loads(path.read_text("utf-8")) for path in FOLDER.glob("web-load*.json")]
    documents.sort(key=lambda document: str(document["at"]))
    limits = documents[0]["limits_ms"]
    header = ["commit", "half of the reads", f"99 % of the reads ({limits['reads']} ms wanted)"]
    header += [f"99 % of the submits ({limits['submit']} ms wanted)", "requests", "errors"]
    header += ["CPU time of a request: web, PostgreSQL, load", "load average before"]
    return markdown(header, map(_line, documents))


def _line(document: dict[str, Any]) -> list[str]:
    reads, submits = (document["groups"][name] for name in ("reads", "submit"))
    requests = reads["requests"] + submits["requests"]
    cpu = (document["cpu_seconds"][name] * 1e3 / requests for name in ("web", "postgres", "load"))
    return [
        document["commit"][:7],
        *(f"{time:,.0f} ms" for time in (reads["p50_ms"], reads["p99_ms"], submits["p99_ms"])),
        f"{requests:,}",
        str(reads["errors"] + submits["errors"]),
        ", ".join(f"{ms:.1f} ms" for ms in cpu),
        f"{document['load_average']['before'][0]:.1f}",
    ]
