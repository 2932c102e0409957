"""`python -m kernels check`: every variant through the accuracy gate."""

import argparse
import json
import sys
from typing import Any

from kernels.cases import check_cases

OPS = ("linear", "grouped", "attention", "step_attention", "rmsnorm", "gated", "rope", "lm_head")


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `check`."""
    parser.add_argument("op", nargs="?", choices=OPS, help="only this op")
    parser.add_argument("--variant", help="only this variant")
    parser.add_argument("--compiled", action="store_true", help="also variants that take seconds to build")
    parser.add_argument("--json", action="store_true", help="print JSON")


def check(options: argparse.Namespace) -> int:
    """Runs the gate. Returns 0 when every variant that serves a case passed it, 1 otherwise, 2 for a wrong name."""
    from kernels import accuracy, registry
    from kernels.bench import place

    if misnamed := registry.misnamed(
        [options.variant] if options.variant else [], (options.op,) if options.op else OPS
    ):
        print(f"kernels check: {misnamed}", file=sys.stderr)
        return 2
    device, gpu, _ = place()
    rows: list[dict[str, Any]] = []
    for case in (case for op in OPS if options.op in (None, op) for case in check_cases(op, device.type == "cpu")):
        able, refused = registry.offers(case, gpu)
        for variant in able:
            if _wanted(options, variant.name, variant.build_seconds):
                report = accuracy.check(variant, case, device)
                rows.append(_row(case.key, variant.name, report.gate, report.sentence))
        for name, refusal in refused.items():
            if _wanted(options, name, 0):
                rows.append(_row(case.key, name, "refused", refusal.reason))
    failures = [row for row in rows if row["gate"] not in ("pass", "refused")]
    if options.json:
        print(json.dumps({"device": str(device), "rows": rows}, indent=1))
    else:
        _print(rows, refused=options.variant is not None)
        passed = sum(row["gate"] == "pass" for row in rows)
        print(f"On {gpu.name}: {passed} passed, {len(failures)} failed, {len(rows) - passed - len(failures)} refused.")
    return 1 if failures or not rows else 0


def _wanted(options: argparse.Namespace, name: str, build_seconds: float) -> bool:
    if options.variant:
        return bool(options.variant == name)
    return options.compiled or not build_seconds


def _row(case: str, variant: str, gate: str, sentence: str) -> dict[str, Any]:
    return {"variant": variant, "case": case, "gate": gate, "sentence": sentence}


def _print(rows: list[dict[str, Any]], refused: bool) -> None:
    """Every row, those of refused cases only where they are asked for."""
    for row in rows:
        if refused or row["gate"] != "refused":
            print(f"{row['gate']:<7} {row['variant']:<22} {row['case']}: {row['sentence']}")
