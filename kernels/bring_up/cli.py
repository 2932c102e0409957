"""`python -m kernels bring-up FOLDER`: proves and times the library on a GPU that nobody prepared for."""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernels.bring_up import report, work
from kernels.bring_up.document import BringUp, Machine, MachineCeilings, Race
from kernels.bring_up.model_cost import cost, race_of
from kernels.bring_up.steps import BringUpStep, outcome, run_steps, stopped_steps, write_whole
from kernels.cases import GROUPS, check_cases
from kernels.cli.numbers import positive
from kernels.hardware import ENTRIES, WITHOUT, Gpu, write_entry
from kernels.ops import Case

MINUTES, QUICK_MINUTES = 60.0, 5.0
QUICK_CHECKS = 12
"""With `--quick` every twelfth case of `check` is proven."""
PROOF_SECONDS, RACE_SECONDS, QUICK_RACE_SECONDS = 90.0, 8.0, 6.0
SECONDS = "seconds"
"""The file in the folder that holds how long all calls took."""

RESERVED = 0.45
"""The share of the time that is kept for the races while proofs run."""


def bring_up_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="for the results; a second call goes on where the first one stopped")
    parser.add_argument("--quick", action="store_true", help="one model and a part of the proofs, within five minutes")
    parser.add_argument("--minutes", type=positive, help=f"the time for it (default {MINUTES:.0f}, quick 5)")
    parser.add_argument(
        "--jobs", type=positive, default=4, metavar="N", help="processes that prove at once (default 4)"
    )
    parser.add_argument(
        "--stranger", action="store_true", help="leave out what is known of this GPU: its entry, caches and choices"
    )


def bring_up(options: argparse.Namespace) -> int:
    """Returns 0 when every proof passed, 1 when one failed or a step ended early, 2 when the folder cannot be used."""
    folder: Path = options.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"kernels bring-up: {folder}: {error.strerror}", file=sys.stderr)
        return 2
    began, earlier = time.monotonic(), _earlier_seconds(folder)
    minutes = options.minutes or (QUICK_MINUTES if options.quick else MINUTES)
    end = began + 60 * minutes
    caches = tempfile.mkdtemp() if options.stranger else ""
    if options.stranger:
        os.environ[WITHOUT] = "all"
        os.environ |= {"KERNELS_CACHE": f"{caches}/kernels", "TRITON_CACHE_DIR": f"{caches}/triton"}
    try:
        left_out = _measure(folder, options, began, end, earlier)
    finally:
        shutil.rmtree(caches, ignore_errors=True)
    measured = outcome(folder, "device")
    if measured is None or measured.stopped:
        reason = measured.stopped if measured else "There was no time."
        print(f"kernels bring-up: the device was not measured. {reason}", file=sys.stderr)
        return 1
    device = measured.found
    document = _document(folder, device, options, left_out, (earlier + time.monotonic() - began) / 60)
    (folder / "bring-up.json").write_text(document.model_dump_json(indent=1) + "\n")
    (folder / "bring-up.md").write_text(report.markdown(document))
    print("\n".join(f"{number}. {step}" for number, step in enumerate(document.next_steps, 1)))
    print(f"Report: {folder / 'bring-up.md'}")
    if device["kind"] == "cuda":
        (folder / "entry").mkdir(exist_ok=True)
        write_entry(folder / "entry" / f"{document.entry.gpu_class}.json", document.entry)
        print(f"Entry: {ENTRIES}={folder / 'entry'}")
    return 1 if any(proof.failed for proof in document.proofs) or document.stopped else 0


def _earlier_seconds(folder: Path) -> float:
    """How long earlier calls with this folder took, each up to the last step that it ended."""
    path = folder / SECONDS
    return float(path.read_text()) if path.exists() else 0.0


def _measure(folder: Path, options: argparse.Namespace, began: float, end: float, earlier: float) -> list[str]:
    def on_step(text: str) -> None:
        seconds = time.monotonic() - began
        print(f"{seconds:6.0f} s  {text}", flush=True)
        write_whole(folder / SECONDS, f"{earlier + seconds:.1f}\n")

    left_out = run_steps(
        folder,
        [
            BringUpStep("device", "the device and its ceilings", work.measure_device, {"quick": options.quick}, 120),
            BringUpStep("device-limits", "barriers, shared memory and exchange", work.measure_limits, {}, 60),
        ],
        end,
        on_step,
    )
    measured = outcome(folder, "device")
    if measured is None or measured.stopped:
        return left_out
    device = measured.found
    kind, compiled = device["kind"], not options.quick
    cases = _cases(kind, options.quick)
    samples = [case for op in GROUPS["library"] for case in check_cases(op, kind == "cpu")]
    proven = {case.key: case for case in [*cases, *(samples[::QUICK_CHECKS] if options.quick else samples)]}
    prove = [
        BringUpStep(
            _name("prove", key),
            f"proof of {key}",
            work.prove,
            {"case": case.model_dump(), "compiled": compiled},
            PROOF_SECONDS,
        )
        for key, case in proven.items()
    ]
    until = end - RESERVED * max(0.0, end - time.monotonic())
    left_out += run_steps(folder, prove, until, on_step, options.jobs if kind == "cuda" else 1)
    seconds = QUICK_RACE_SECONDS if options.quick else RACE_SECONDS
    races = [
        BringUpStep(
            _name("race", case.key),
            f"race of {case.key}",
            work.race,
            {"case": case.model_dump(), "ceilings": device["ceilings"], "seconds": seconds, "compiled": compiled},
            PROOF_SECONDS,
        )
        for case in cases
    ]
    return left_out + run_steps(folder, races, end, on_step)


def _cases(kind: str, quick: bool) -> list[Case]:
    """The ops of the catalogue's models, those that a request calls most first."""
    calls: dict[Case, float] = {}
    for model in _models(kind, quick):
        for case, count in work.layer_ops(kind, model).cases().items():
            calls[case] = max(count, calls.get(case, 0.0))
    return sorted(calls, key=lambda case: (-calls[case], case.key))


def _name(work_name: str, key: str) -> str:
    return f"{work_name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _document(
    folder: Path, device: Mapping[str, Any], options: argparse.Namespace, left_out: list[str], minutes: float
) -> BringUp:
    from kernels import registry

    ops = {variant.name: variant.op for op in GROUPS["library"] for variant in registry.variants(op)}
    rows = [row for path in sorted(folder.glob("prove-*.json")) for row in _saved_result(folder, path.stem) or []]
    races: dict[str, Race] = {}
    for case in _cases(device["kind"], options.quick):
        if race := _saved_result(folder, _name("race", case.key)):
            races[case.key] = race_of(case.key, race["rows"], race["floor_ms"])
    models = []
    for model in _models(device["kind"], options.quick):
        of_model = cost(model, work.layer_ops(device["kind"], model), races)
        models += [of_model] if of_model else []
    proofs, without = report.proofs_of(rows, ops), stopped_steps(folder)
    return BringUp(
        environment=Machine.model_validate(device["environment"]),
        entry=Gpu(**device["entry"]),
        ceilings=MachineCeilings.model_validate(device["ceilings"]),
        limits=_saved_result(folder, "device-limits"),
        quick=options.quick,
        stranger=options.stranger,
        minutes=minutes,
        proofs=proofs,
        races=list(races.values()),
        models=models,
        next_steps=report.next_steps(proofs, without, [gap for model in models for gap in model.gaps]),
        stopped=without,
        left_out=left_out,
    )


def _saved_result(folder: Path, name: str) -> Any:
    saved = outcome(folder, name)
    return saved.found if saved else None


def _models(kind: str, quick: bool) -> tuple[str, ...]:
    return work.MODELS[kind][: 1 if quick else None]
