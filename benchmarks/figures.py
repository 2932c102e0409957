"""Writes the figures of the committed results into the documents, or checks that they are there.

    python -m benchmarks.figures           # fill tables and figures
    python -m benchmarks.figures --check   # change nothing, print what differs, exit 1

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is one of `benchmarks.tables.TABLES`.
A single figure is followed by a comment that says where it comes from; its decimals stay as they are written:

    40.2 ms<!-- decode: ms model=llama-3.2-1b variant=megakernel prompt=1024 -->
    1.05x<!-- decode: ms model=... prompt=1024 / ms model=... prompt=128 -->       a ratio of two rows
    2.13x<!-- h200x2/peer: /ms_per_token / h200x2/decode-8b: ms_per_token ... -->  a ratio over two documents
    61.5 ms<!-- decode: ms best model=llama-3.2-1b prompt=128 peer=true -->        the fastest of several rows
    494 ms<!-- llama-3.2-1b: /results/verify/... -->                               a JSON pointer
    6<!-- llama-3.2-1b: /results/verify/speedup/processes/# -->                    the length of a list

A unit of % stands for a hundred times the value, µs behind the field `ms` for a thousand times.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

from benchmarks.documents import Row, best, field, is_borrowed, is_lossy, one, pointed
from benchmarks.tables import TABLES

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
UNIT = re.compile(r"(?<![\w.-])\d[\d,.]*(?:x| (?:ms|µs|s|%|times|tokens/s|nats|TB/s|TFLOP/s|GB/s))(?!\w)")
FIGURE = re.compile(r"(-?\d[\d,]*(?:\.\d+)?)(x| (?:ms|µs|%|s|nats|TB/s|TFLOP/s))?<!-- ([\w./-]+): (.+?) -->")


def documents() -> list[Path]:
    """The documents that carry figures of the results; the log keeps those of its time."""
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "benchmarks").glob("*.md")),
    ]


def filled(text: str) -> str:
    """The text with its tables and figures as the results have them. Raises ValueError for a marker that fits none."""
    text = TABLE.sub(_table, text)
    return FIGURE.sub(lambda found: _figure(found) + found[0][len(found[1]) :], text)


def selected(source: str, words: str) -> tuple[float, list[Row]]:
    """The value of a marker's words in the result `source`, and the rows that it was taken from.

    Raises ValueError when the words fit no row, and for a ratio of rows whose weights are of unlike types, or of a row
    in lower precision to a value without a row.
    """
    parts = [_value(*_sourced(source, part)) for part in words.split(" / ")]
    if len(parts) == 1:
        return parts[0]
    (above, first), (below, second) = parts
    found = [*first, *second]
    kinds = {field(row, "weights") for row in found}
    if len(kinds) > 1 or (len(found) == 1 and is_lossy(found[0])):
        raise ValueError(f"a ratio between types of weights says nothing without their fidelity: {words}")
    return above / below, found


def contradictory(text: str) -> Iterator[str]:
    """Figures of models in lower precision that another page has from decode-lossy.json, without a word on why.

    Rows of other documents were rounded to nearest, and their sentence has to say so.
    """
    for paragraph in TABLE.sub("", text).split("\n\n"):
        for found in FIGURE.finditer(paragraph):
            lossy = any(map(is_lossy, selected(found[3], found[4])[1]))
            if lossy and not found[3].startswith("decode-lossy") and "to nearest" not in paragraph:
                yield found[0]


def unfaithful(text: str) -> Iterator[str]:
    """Figures of models in lower precision whose paragraph lacks their KL divergence or disagreement."""
    for paragraph in TABLE.sub("", text).split("\n\n"):
        times, told = {}, set()
        for found in FIGURE.finditer(paragraph):
            for row in selected(found[3], found[4])[1]:
                if not is_lossy(row):
                    continue
                model = (field(row, "model"), row["variant"])
                name = found[4].split()[0]
                told |= {(model, name)} if name in ("kl", "disagreement") else set()
                times[model] = found[0]
        yield from (f for model, f in times.items() if not {(model, "kl"), (model, "disagreement")} <= told)


def unowned(text: str) -> Iterator[str]:
    """Figures of ours that kernels of others took part in, whose paragraph names neither cuBLAS nor ¹.

    A token's time (`ms_per_token`) and share of the bandwidth leave the first token out, for which alone these kernels
    run.
    """
    for paragraph in TABLE.sub("", text).split("\n\n"):
        for found in FIGURE.finditer(paragraph):
            rows = [] if re.search("ms_per_token|read_share", found[4]) else selected(found[3], found[4])[1]
            if any(map(is_borrowed, rows)) and not re.search("cuBLAS|¹", paragraph):
                yield found[0]


def unmarked(text: str) -> Iterator[str]:
    """Figures with a unit that no marker ties to a document, outside generated tables and blocks of code."""
    text = re.sub(r"```.*?```|`[^`]*`", "", TABLE.sub("", text), flags=re.DOTALL)
    for found in UNIT.finditer(re.sub(r"<!--.*?-->", "", FIGURE.sub("", text))):
        yield found[0]


def _table(found: re.Match[str]) -> str:
    if found[2] not in TABLES:
        raise ValueError(f"there is no table {found[2]!r}: {', '.join(TABLES)}")
    return f"{found[1]}{TABLES[found[2]]()}{found[4]}"


def _figure(found: re.Match[str]) -> str:
    """The digits that belong before a marker, with as many decimals as stand there."""
    decimals = len(found[1].partition(".")[2])
    value = selected(found[3], found[4])[0] * {" %": 100, " µs": 1000}.get(found[2] or "", 1)
    return f"{value:,.{decimals}f}"


def _sourced(source: str, words: str) -> tuple[str, str]:
    """The document of a part of a marker and its words: its own document, where it names one."""
    named = re.fullmatch(r"([\w./-]+): (.+)", words)
    return (named[1], named[2]) if named else (source, words)


def _value(source: str, words: str) -> tuple[float, list[Row]]:
    if words.startswith("/"):
        return float(pointed(source, words)), []
    value, row = _row_value(source, words.split())
    return value, [row]


def _row_value(source: str, words: list[str]) -> tuple[float, Row]:
    name, *rest = words
    where = dict(word.split("=", 1) for word in rest if word != "best")
    row = (best if "best" in rest else one)(source, **where)
    value = field(row, name)
    if name == "ratio_to_best_peer" and is_lossy(row):
        raise ValueError(f"{source}.json: a model in lower precision has no ratio to a peer in bf16: {where}")
    if row.get("gate") == "fail":
        raise ValueError(f"{source}.json: the gate refused the row with {where}, so its figures count for nothing")
    if not isinstance(value, int | float):
        raise ValueError(f"{source}.json has no number {name} with {where}")
    return float(value), row


def main(arguments: list[str] | None = None) -> int:
    """Fills the documents or checks them; the exit code is 1 when something differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, name the lines that differ")
    check = parser.parse_args(arguments).check
    differs = False
    for path in documents():
        text = path.read_text("utf-8")
        try:
            new = filled(text)
        except ValueError as error:
            print(f"{path.relative_to(ROOT)}: {error}", file=sys.stderr)
            return 1
        name = str(path.relative_to(ROOT))
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
