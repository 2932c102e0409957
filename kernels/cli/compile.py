"""`python -m kernels compile`: compiles ahead, without a GPU, and proves the programs of megakernels."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.cli.numbers import positive
from kernels.hardware import GPUS
from kernels.model_files import ModelRefused, catalogue, files_at, inspect, is_quantised
from kernels.tune.jobs import parallel_map

if TYPE_CHECKING:
    from kernels.server.execution.compiling import AnyBuild

HOPPERS = sorted(name for name, gpu in GPUS.items() if gpu.sm == 90)
"""The classes of GPUs that have kernels in CUDA C++ for whole models."""


def compile_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `compile`."""
    several: dict[str, Any] = {"action": "append", "metavar": "N", "type": positive}
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="what KERNELS_PREBUILT then names")
    parser.add_argument("--model", action="append", default=[], help="a directory or catalogue entry; repeatable")
    parser.add_argument("--gpu", choices=HOPPERS, default="h200", help="the class of GPU (default h200)")
    parser.add_argument("--jobs", type=positive, default=2, metavar="N", help="processes that compile (default 2)")
    parser.add_argument("--batch", **several, help="sequences at once, outside servers (default 1); repeatable")
    parser.add_argument("--prompt", **several, help="tokens of a prompt (default 128); repeatable")
    parser.add_argument("--tokens", type=positive, default=64, metavar="N", help="tokens of an answer (default 64)")
    parser.add_argument(
        "--weights",
        action="append",
        choices=("int8", "fp8", "nvfp4", "int4", "mxfp4"),
        help="a lower precision, mxfp4 of experts; repeatable",
    )
    parser.add_argument(
        "--tensor-parallel-size", **several, help="GPUs that a megakernel is sharded over, beside one; repeatable"
    )
    parser.add_argument("--max-num-seqs", **several, help="requests at once of a server (default 64); repeatable")
    parser.add_argument(
        "--max-model-len",
        **several,
        help="tokens of a server's sequences (default: what the model was trained for, at most 8,192); repeatable",
    )
    parser.add_argument("--checks", action="store_true", help="what `check` proves on such a GPU")
    parser.add_argument("--plans-only", action="store_true", help="leave out variants that only explore tries")
    parser.add_argument("--lacking", action="store_true", help="leave out what KERNELS_PREBUILT or the wheel has")
    parser.add_argument("--no-server", action="store_true", help="leave out what only servers need")


def compile(options: argparse.Namespace) -> int:
    """Makes what the folder lacks. Returns 0, or 1 when some of it failed, 2 for a wrong model or folder."""
    from kernels.cuda import compiler
    from kernels.cuda.nvrtc import prebuilt_file

    try:
        builds = {variant.name: variant for variant in _builds_for(options)}
        options.into.mkdir(parents=True, exist_ok=True)
        if options.lacking:
            builds = {name: variant for name, variant in builds.items() if prebuilt_file(name) is None}
    except (KeyError, ValueError, OSError, RuntimeError, ModelRefused) as error:
        print(f"kernels compile: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    lacking = [name for name in builds if not (options.into / name).exists()]
    lacking.sort(key=lambda name: not name.startswith(("decode-", "proof-")))  # the megakernel's take the longest
    print(
        f"{len(builds)} binaries and proofs, {len(builds) - len(lacking)} of them there, NVRTC {compiler.version()}",
        flush=True,
    )
    began, spent, failed = time.monotonic(), 0.0, 0
    results = parallel_map(partial(_compile, options.into), [builds[name] for name in lacking], options.jobs)
    for number, (name, (seconds, problem)) in enumerate(zip(lacking, results, strict=True), start=1):
        spent, failed = spent + seconds, failed + bool(problem)
        print(f"{number} of {len(lacking)}: {problem or name} in {seconds:.1f} s", flush=True)
    size = sum(file.stat().st_size for name in builds for file in _files(options.into / name))
    print(
        f"{len(lacking) - failed} made in {time.monotonic() - began:.0f} s, {spent:.0f} s of compiling and proving; "
        f"{failed} failed; {size / 1e6:.1f} MB in {options.into}"
    )
    return 1 if failed else 0


def _files(path: Path) -> list[Path]:
    """A binary's files; those of a kernel in Triton share a folder."""
    if not path.exists():
        return []
    return list(path.parent.iterdir()) if path.name.startswith("__grp__") else [path]


def _builds_for(options: argparse.Namespace) -> Iterator["AnyBuild"]:
    """Every build of the models, and the proofs. Raises ValueError, or KeyError for a name in no catalogue."""
    from kernels.cli.builds import model_builds, variant_builds
    from kernels.model.layer_ops import BatchShape
    from kernels.server.execution.sizing import RequestedSize

    gpu = GPUS[options.gpu]
    if not options.model and not options.checks:
        raise ValueError("name a --model, or --checks")
    if options.checks:
        yield from variant_builds(gpu)
    traffics = [
        BatchShape(batch, prompt, options.tokens)
        for batch in options.batch or [1]
        for prompt in options.prompt or [128]
    ]
    servers = [
        RequestedSize(max_model_len, max_num_seqs)
        for max_model_len in options.max_model_len or [None]
        for max_num_seqs in options.max_num_seqs or [64]
    ]
    for model in options.model:
        config = _config(model)
        yield from model_builds(
            config,
            gpu,
            traffics,
            () if options.no_server else servers,
            options.weights or (),
            options.tensor_parallel_size or (),
            explored=not options.plans_only,
        )


def _config(model: str) -> dict[str, Any]:
    source = Path(model)
    if not source.exists():
        return catalogue.entry(model)[0]
    if is_quantised(files := files_at(source)):
        return inspect(files).config
    config: dict[str, Any] = json.loads((source / "config.json").read_text())
    return config


def _compile(folder: Path, build: "AnyBuild") -> tuple[float, str]:
    """The seconds that one took, and what failed."""
    began = time.monotonic()
    try:
        build.make_into(folder)
    except (RuntimeError, ValueError) as error:  # of the compiler, and InvalidProgram
        return time.monotonic() - began, str(error)
    return time.monotonic() - began, ""
