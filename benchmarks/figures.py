"""Writes the tables of the committed results into the documents, or checks that they are there.

    python -m benchmarks.figures           # fill the tables
    python -m benchmarks.figures --check   # change nothing, print what differs, exit 1

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is one of `benchmarks.tables.TABLES`.
"""

import argparse
import re
import sys
from difflib import unified_diff
from pathlib import Path

from benchmarks.tables import TABLES

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]


def filled(text: str) -> str:
    """The text with its tables as the results have them. Raises ValueError for a table that is not there."""
    return TABLE.sub(_table, text)


def _table(match: re.Match[str]) -> str:
    if match[2] not in TABLES:
        raise ValueError(f"there is no table {match[2]!r}: {', '.join(TABLES)}")
    return f"{match[1]}{TABLES[match[2]]()}{match[4]}"


def main(arguments: list[str] | None = None) -> int:
    """Fills the documents or checks them; the exit code is 1 when something differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, name the lines that differ")
    check = parser.parse_args(arguments).check
    differs = False
    for path in documents():
        text, name = path.read_text("utf-8"), str(path.relative_to(ROOT))
        try:
            new = filled(text)
        except ValueError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        if text == new:
            continue
        differs = True
        lines = unified_diff(text.splitlines(), new.splitlines(), name, "by the results", n=0, lineterm="")
        print(*lines, sep="\n")
        if not check:
            path.write_text(new, "utf-8")
    return int(check and differs)


if __name__ == "__main__":
    sys.exit(main())
