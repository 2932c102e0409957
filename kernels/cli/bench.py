"""`python -m kernels bench`: times over variants and cases, as a bench document."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from kernels import registry
from kernels.cases import GROUPS, cases
from kernels.cli import bench_document, bench_serve_arguments
from kernels.cli.bench_document import BenchDocument, BenchRow
from kernels.cli.bench_lines import ceilings_line, fields_line, row_line
from kernels.cli.numbers import positive, seconds
from kernels.hardware import GPUS
from kernels.measure.environment import current_device
from kernels.measure.intervals import STUDENT
from kernels.ops import AttentionCase, Case, GroupedCase, LinearCase, Weights

if TYPE_CHECKING:
    import torch

    from kernels.tune.trial import Trial


LONG_CACHE = 4096
"""From so many keys on, attention over a cache is also timed against compiled peers."""
WITHOUT: tuple[tuple[Callable[[Case], bool], str], ...] = (
    (lambda case: not _serving(case), "No peer of torch serves it."),
    (
        lambda case: isinstance(case, LinearCase | GroupedCase) and case.epilogue == "none",
        "torch's product is one kernel of cuBLAS or CUTLASS: there is nothing to fuse.",
    ),
    (
        lambda case: isinstance(case, AttentionCase) and case.q_len > 1,
        "FlashAttention and cuDNN's attention are one kernel each: there is nothing to fuse.",
    ),
    (
        lambda case: isinstance(case, AttentionCase) and case.kv_len < LONG_CACHE,
        f"FlashAttention is one kernel, and fewer than {LONG_CACHE:,} keys are little to divide over a GPU.",
    ),
)
"""The cases without a compiled peer, each with the reason in a sentence; the first that fits counts."""


def _serving(case: Case) -> list[registry.Variant]:
    """The peers that serve the case on a GPU."""
    return [
        variant for variant in registry.variants(case.op) if variant.peer and variant.serves(case, GPUS["h200"]) is None
    ]


DEFAULT_SECONDS = 20.0
"""The longest time for one case, to which twice the longest builds of its compiled peers are added."""
KERNEL_OPTIONS = ("variant", "only", "settled")
OPTIONS = {
    "decode": ("model", "runner", "batch", "prompt", "weights", "fidelity", "processes", "router_skew"),
    "serve": bench_serve_arguments.OPTIONS,
}
"""Options that only some groups have; every group without an entry times kernels and has KERNEL_OPTIONS."""
WRITE_SECONDS = 2
"""Seconds between two writes of the document, so that a bench that is stopped loses little."""


def bench_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `bench`."""
    parser.add_argument("group", choices=[*GROUPS, "serve"], help="which ops, or servers over HTTP")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the bench document here")
    parser.add_argument("--append", action="store_true", help="add the rows to the document that is there")
    parser.add_argument("--variant", action="append", metavar="NAME", help="only this one and the peers; repeatable")
    parser.add_argument("--model", action="append", metavar="NAME", help="decode, serve: these catalogue models")
    parser.add_argument("--runner", action="append", metavar="NAME", help="decode: these whole-model variants")
    parser.add_argument("--batch", action="append", type=positive, metavar="N", help="decode: these batches")
    parser.add_argument(
        "--prompt", action="append", type=positive, metavar="N", help="decode, serve: these prompts' lengths"
    )
    parser.add_argument(
        "--tensor-parallel-size",
        action="append",
        type=positive,
        metavar="N",
        help="decode: the megakernel on N GPUs as well; serve: over N",
    )
    parser.add_argument(
        "--weights", action="append", metavar="NAME", help="decode: beside the peers, these; serve: int8 too"
    )
    parser.add_argument(
        "--fidelity", type=positive, default=0, metavar="N", help="decode: compare N tokens with the float32 model"
    )
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="decode: vLLM in N processes (3 to 10), one after the other"
    )
    parser.add_argument(
        "--router-skew",
        type=float,
        default=0.0,
        metavar="S",
        help="decode: multiply a router's rows by e^(z S), z normal: some experts are chosen more often",
    )
    parser.add_argument("--rounds", type=positive, default=30, help="decode: requests to each runner (default 30)")
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="only cases whose key contains TEXT, such as m=128, or is TEXT; repeatable",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        help="longest time for one case, builds of compiled peers apart (20; decode's requests 60)",
    )
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N", help="N processes go ahead through the gate (not decode)"
    )
    parser.add_argument("--compiled", action="store_true", help="also variants that take seconds to build")
    parser.add_argument("--settled", action="store_true", help="time calls without pauses as well (not decode)")
    bench_serve_arguments.serve_arguments(parser)


def bench(options: argparse.Namespace) -> int:
    """Times a group. Returns 0; 1 when no row passed or the document could not be appended to; 2 for a wrong call."""
    if wrong := _wrong(options):
        print(f"kernels bench: {wrong}", file=sys.stderr)
        return 2
    if options.group == "serve":
        from kernels.cli.bench_serve import bench_serve

        return bench_serve(options)
    device, _, environment = current_device()
    note = "A CPU, tiny shapes: these figures say nothing about a GPU." if device.type == "cpu" else ""
    if note:
        print(note)
    document = BenchDocument(
        **{name: environment.get(name) or "" for name in bench_document.FACTS},
        versions=environment.get("versions") or {},
        ceilings=_ceilings(device),
        rows=[],
        note=note,
    )
    try:
        if options.append and options.json is not None and options.json.exists():
            document = bench_document.append_rows(bench_document.read(options.json), document)
    except (OSError, ValueError) as error:
        print(f"kernels bench: {options.json}: {error}", file=sys.stderr)
        return 1
    print(ceilings_line(document.ceilings), flush=True)
    passed, written = False, time.monotonic()
    try:
        for row in _rows(options, document.ceilings):
            passed = passed or row.gate == "pass"
            document.rows.append(row)
            print(row_line(row), flush=True)
            if options.json is not None and time.monotonic() > written + WRITE_SECONDS:
                bench_document.write(options.json, document)
                written = time.monotonic()
    finally:
        if options.json is not None:
            bench_document.write(options.json, document)
    return 0 if passed else 1


def _wrong(options: argparse.Namespace) -> str:
    """Why the call cannot be carried out, found before anything is measured; "" when it can."""
    from kernels import registry
    from kernels.model_files import catalogue

    decode = options.group == "decode"
    supported = OPTIONS.get(options.group, KERNEL_OPTIONS)
    for option in {
        option for known in (*OPTIONS.values(), KERNEL_OPTIONS) for option in known if option not in supported
    }:
        if getattr(options, option):
            named = "; --runner names its variants" * (decode and option == "variant")
            return f"--{option.replace('_', '-')} is not for {options.group}{named}"
    if options.processes and options.processes - 1 not in STUDENT:
        return f"--processes: their spread takes 3 to {max(STUDENT) + 1}, not {options.processes}"
    if decode and options.jobs > 1:
        return "--jobs is not for decode"
    if options.json is not None and (reason := bench_document.unwritable(options.json)):
        return f"--json: {reason}"
    if absent := next(
        (model_name for model_name in options.model or [] if decode and model_name not in catalogue.names()), ""
    ):
        return f"no catalogue model {absent!r}; there are {', '.join(catalogue.names())}"
    if absent := next((weight for weight in options.weights or [] if weight not in get_args(Weights)), ""):
        return f"no weights {absent!r}; there are {', '.join(get_args(Weights))}"
    if options.group == "serve":
        return ""
    return registry.misnamed(options.runner or [] if decode else options.variant or [], GROUPS[options.group])


def _ceilings(device: "torch.device") -> dict[str, Any]:
    from kernels.measure.ceilings import measure_ceilings

    return dict(measure_ceilings(device.type, quick=True))


def _rows(options: argparse.Namespace, ceilings: dict[str, Any]) -> Iterable[BenchRow]:
    device, gpu, _ = current_device()
    if options.group == "decode":
        from kernels.cli import bench_decode

        chosen = bench_decode.Options(
            models=options.model,
            batches=options.batch,
            prompts=options.prompt,
            weights=options.weights,
            runners=options.runner,
            tensor_parallel_sizes=options.tensor_parallel_size or (),
            processes=options.processes or 1,
            slow_builds=options.compiled,
            rounds=options.rounds,
            seconds=options.seconds or 60.0,
            fidelity=options.fidelity,
            router_skew=options.router_skew,
        )
        yield from bench_decode.decode_rows(chosen, ceilings, (device, gpu))
        return
    from kernels import registry
    from kernels.tune.ahead import prove_ahead
    from kernels.tune.autotune import TuningContext, try_case

    texts, offered = options.only or [""], cases(options.group, device.type == "cpu")
    selected = select_cases(offered, texts)
    for text in (text for text in texts if not select_cases(offered, [text])):
        print(f"kernels bench: no case of {options.group} has {text!r} in its key", file=sys.stderr)
    context, variants = TuningContext(device, gpu, ceilings, host=True, settled=options.settled), _only(options)
    tried = {case.key: variants | (compiled_peers(case) if device.type == "cuda" else set()) for case in selected}
    if options.jobs > 1:
        started = time.monotonic()
        context.proven = prove_ahead(replace(context, only=variants), selected, options.jobs)
        print(f"Proven ahead: {len(context.proven)} in {time.monotonic() - started:.0f} s.", flush=True)
    for case in selected:
        building = sum(registry.variant(name).build_seconds for name in compiled_peers(case) & tried[case.key])
        seconds = (options.seconds or DEFAULT_SECONDS) + 2 * building
        trials = try_case(replace(context, only=tried[case.key]), case, seconds=seconds)
        yield from bench_rows(trials, "burst" if device.type == "cuda" else None)
        _say_refused(options.variant or [], trials)


def select_cases(offered: Sequence[Case], texts: Sequence[str]) -> list[Case]:
    """The cases whose key contains one of the texts. A text that equals a case's key picks only that case."""
    keys = {case.key for case in offered}
    return [
        case for case in offered if any(case.key == text or (text in case.key and text not in keys) for text in texts)
    ]


def _only(options: argparse.Namespace) -> frozenset[str]:
    """The variants to try: those named and every peer; slow builders only when named or asked for."""
    from kernels import registry

    named = set(options.variant or [])
    quick = (variant for variant in registry.variants() if options.compiled or not variant.build_seconds)
    return frozenset(named.union(variant.name for variant in quick if not named or variant.peer))


def _say_refused(named: Sequence[str], trials: "Sequence[Trial]") -> None:
    """A line for each variant that was named but not tried."""
    for trial in trials:
        if trial.variant in named and trial.gate == "refused":
            print(
                f"{trial.variant:<22} {trial.gate:<10} {fields_line(trial.case.model_dump())}: {trial.reason}",
                flush=True,
            )


def bench_rows(trials: "Sequence[Trial]", regime: Literal["burst"] | None = None) -> list[BenchRow]:
    """A case's trials without refused ones. Ratios are among those that passed and are not in doubt."""
    from kernels import registry
    from kernels.proof.kernel_names import is_own

    tried = [trial for trial in trials if trial.gate != "refused" or trial.late]
    sure = [trial for trial in tried if trial.raced and trial.gate == "pass" and trial.ms and not trial.doubt]
    ratios = ratios_to_best_peer({trial.id: (trial, trial.ms) for trial in sure if trial.ms})
    settled = ratios_to_best_peer({trial.id: (trial, trial.settled.ms) for trial in sure if trial.settled})
    return [
        BenchRow(
            **trial.shared(),
            ratio_to_best_peer=ratios.get(trial.id),
            own=is_own(trial.kernels, registry.variant(trial.variant)) if trial.raced and not trial.peer else None,
            host_us=trial.host_us,
            regime=regime if trial.ms else None,
            settled=trial.settled and trial.settled.model_copy(update={"ratio_to_best_peer": settled.get(trial.id)}),
        )
        for trial in tried
    ]


def ratios_to_best_peer(timed: "Mapping[str, tuple[Trial, float]]") -> dict[str, float]:
    """The best peer's ms over each trial's, by trial id; left out where no peer has weights of its precision."""
    peers: dict[str | None, float] = {}
    for trial, ms in timed.values():
        if trial.peer:
            peers[precision(trial)] = min(ms, peers.get(precision(trial), ms))
    return {name: peers[precision(trial)] / ms for name, (trial, ms) in timed.items() if precision(trial) in peers}


def precision(trial: "Trial") -> str | None:
    """The weights' precision of a trial's case; None of an op without weights. Times compare only within one."""
    return getattr(trial.case, "weights", None)


def compiled_peers(case: Case) -> frozenset[str]:
    """The peers of a case that Inductor compiles; none where `without` gives a reason."""
    return (
        frozenset() if without(case) else frozenset(variant.name for variant in _serving(case) if variant.build_seconds)
    )


def without(case: Case) -> str:
    """Why the case has no compiled peer, in a sentence; "" where it has one."""
    return next((reason for fits, reason in WITHOUT if fits(case)), "")
