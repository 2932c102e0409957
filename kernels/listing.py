"""`python -m kernels list`: the variants and what each is."""

import argparse
import json

from kernels import registry


def list_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `list`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def list(options: argparse.Namespace) -> int:
    """Prints every variant. Returns 0."""
    rows = [
        {
            "variant": each.name,
            "op": each.op,
            "summary": each.summary,
            "peer": each.peer,
            "lossy": each.lossy,
        }
        for each in registry.variants()
    ]
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    width = max(len(str(row["variant"])) for row in rows)
    for row in rows:
        marks = ", ".join(mark for mark in ("peer", "lossy") if row[mark])
        print(f"{row['variant']:<{width}}  {row['op']:<14}  {row['summary']}{f' ({marks})' if marks else ''}")
    return 0
