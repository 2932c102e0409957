"""`python -m kernels check`: every variant through the accuracy gate."""

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.cases import GROUPS, check_cases
from kernels.cli.numbers import positive
from kernels.ops import Case
from kernels.tune.jobs import parallel_map

if TYPE_CHECKING:
    import torch

    from kernels.hardware import Gpu

OPS = GROUPS["library"]


def check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("op", nargs="?", choices=OPS, help="only this op")
    parser.add_argument("--variant", help="only this variant")
    parser.add_argument("--compiled", action="store_true", help="also variants that take seconds to build")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="share the cases out among N processes")
    parser.add_argument("--json", action="store_true", help="print JSON")


def check(options: argparse.Namespace) -> int:
    """Runs the gate. Returns 0 when every variant that serves a case passed it, 1 otherwise, 2 for a wrong name."""
    from kernels import registry
    from kernels.measure.environment import current_device

    ops = (options.op,) if options.op else OPS
    if misnamed := registry.misnamed([options.variant] if options.variant else [], ops):
        print(f"kernels check: {misnamed}", file=sys.stderr)
        return 2
    device, gpu, _ = current_device()
    cases = [case for op in ops for case in check_cases(op, device.type == "cpu")]
    names = [
        variant.name
        for op in ops
        for variant in registry.variants(op)
        if (variant.name == options.variant if options.variant else options.compiled or not variant.build_seconds)
    ]
    one = partial(gate_rows, names, device, gpu)
    rows = [row for part in parallel_map(one, cases, options.jobs) for row in part]
    failures = [row for row in rows if row["gate"] not in ("pass", "refused")]
    if options.json:
        print(json.dumps({"device": str(device), "rows": rows}, indent=1))
    else:
        _print(rows, refused=options.variant is not None)
        passed = sum(row["gate"] == "pass" for row in rows)
        print(f"On {gpu.name}: {passed} passed, {len(failures)} failed, {len(rows) - passed - len(failures)} refused.")
    return 1 if failures or not rows else 0


def gate_rows(names: list[str], device: "torch.device", gpu: "Gpu", case: Case) -> list[dict[str, Any]]:
    """The gate's rows of one case: of each wanted variant, or why it refuses."""
    import torch

    from kernels import registry
    from kernels.proof import gate
    from kernels.proof.reference_cache import ReferenceCache

    references = ReferenceCache()
    able, refused = registry.offers(case, gpu)
    rows = []
    for variant in (variant for variant in able if variant.name in names):
        report = gate.check(variant, case, device, references=references)
        rows.append(_row(case.key, variant.name, report.gate, report.sentence))
    del references
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return rows + [_row(case.key, name, "refused", why.reason) for name, why in refused.items() if name in names]


def _row(case: str, variant: str, gate: str, sentence: str) -> dict[str, Any]:
    return {"variant": variant, "case": case, "gate": gate, "sentence": sentence}


def _print(rows: list[dict[str, Any]], refused: bool) -> None:
    """Every row, those of refused cases only where they are asked for."""
    for row in rows:
        if refused or row["gate"] != "refused":
            print(f"{row['gate']:<7} {row['variant']:<22} {row['case']}: {row['sentence']}")
