"""`python -m kernels megakernel`: prove a model's program, describe it, draw the timeline of a token."""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kernels.megakernel.host import trace
from kernels.megakernel.program import Program
from kernels.megakernel.program.instructions import OP_NAMES
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.ranks import programs, shard_of
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.program.weights import ALIGNMENT, PRECISIONS
from kernels.megakernel.proof.structure import instruction_rows
from kernels.megakernel.proof.validate import validate
from kernels.model_files import catalogue
from kernels.model_files.config import check_config
from kernels.model_files.errors import ModelRefused

MAX_SHOWN = 20
MAX_DRAWN = 12
"""SMs that are drawn as text."""
CAPACITY = 4096
"""Tokens of the caches that `describe` counts."""


class InputRefused(ValueError):
    """A model or file that is refused; the message is for the user."""


def megakernel_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the sub-commands and their options."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary in (
        ("validate", "prove on the CPU that the program of MODEL cannot hang or mix values up"),
        ("describe", "show how the work of MODEL is cut"),
    ):
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument(
            "model", metavar="MODEL", help="a name of the catalogue, a model's directory or a config.json"
        )
        for option, default in vars(Layout()).items():
            choices = PRECISIONS if option == "weights" else None
            flag = f"--{option.replace('_', '-')}"
            if isinstance(default, bool):
                command.add_argument(flag, action="store_true")
                continue
            command.add_argument(flag, type=type(default), default=default, choices=choices, help=f"default {default}")
    drawn = "draw a timeline; a raw trace (npz) becomes a Chrome trace, for ui.perfetto.dev"
    command = commands.add_parser("trace", help=drawn, description=drawn)
    command.add_argument("raw", metavar="FILE", type=Path, help="a raw trace, or a Chrome trace of one (json, json.gz)")
    command.add_argument("-o", "--output", type=Path, help="json or json.gz (default: FILE with the suffix .json)")
    command.add_argument("--layer", type=int, help="the layer that is drawn as text (default: the middle one)")
    recorded = "record the raw trace of a token of MODEL, weights from a seed, on this machine's Hopper GPUs"
    command = commands.add_parser("record", help=recorded, description=recorded)
    command.add_argument("model", metavar="MODEL", help="as for validate")
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="where the raw trace (npz) goes"
    )
    for option, default, what in (
        ("prompt", 128, "tokens of the prompt"),
        ("tokens", 64, "tokens to make; the middle one is recorded"),
        ("batch", 1, "sequences"),
        ("layers", 0, "layers, of those that the model has; 0 is all"),
        ("tensor-parallel-size", 1, "GPUs that the model is sharded over, the first ones"),
    ):
        command.add_argument(f"--{option}", type=int, default=default, help=f"{what} (default {default})")
    command.add_argument("--weights", choices=PRECISIONS, default="bf16", help="their precision (default bf16)")


def megakernel(options: argparse.Namespace) -> int:
    """Runs one sub-command. Returns 0, 1 for a program with problems, 2 for refused input."""
    actions = {"validate": _validate, "describe": _describe, "trace": _trace, "record": _record}
    try:
        return actions[options.action](options)
    except (ValueError, OSError) as error:
        print(f"kernels megakernel: {error}", file=sys.stderr)
        return 2


def config_of(model: str) -> dict[str, Any]:
    """The configuration by catalogue name, directory or file. Raises InputRefused."""
    if model in catalogue.names():
        return catalogue.entry(model)[0]
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise InputRefused(
            f"{model}: no file, no directory with a config.json, and not one of {', '.join(catalogue.names())}"
        )
    try:
        config = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputRefused(f"{path}: not JSON: {error}") from None
    try:
        check_config(config)
    except ModelRefused as refused:
        raise InputRefused(f"{path}: {refused}") from None
    return config  # type: ignore[no-any-return]


def _programs(options: argparse.Namespace) -> list[Program]:
    layout = Layout(**{name: getattr(options, name) for name in vars(Layout())})
    for name, value in vars(layout).items():
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            raise InputRefused(f"--{name.replace('_', '-')}: {value} is less than 1")
    try:
        return programs(shard_of(shape_of(config_of(options.model)), layout.tensor_parallel_size), layout)
    except KeyError as error:
        raise InputRefused(f"{options.model}: config.json has no {error}") from None


def _validate(options: argparse.Namespace) -> int:
    ranks = _programs(options)
    began = time.monotonic()
    problems = validate(*ranks)
    seconds = time.monotonic() - began
    for problem in problems[:MAX_SHOWN]:
        print(problem)
    if len(problems) > MAX_SHOWN:
        print(f"… and {len(problems) - MAX_SHOWN} more")
    count = sum(len(table) for program in ranks for table in program.instructions)
    what = f"{len(problems)} problems" if problems else "proven"
    layout = ranks[0].layout
    where = f"{layout.sms} SMs" + (
        f" of each of {layout.tensor_parallel_size} GPUs" if layout.tensor_parallel_size > 1 else ""
    )
    print(f"{options.model}: {count} instructions a token on {where}: {what} ({seconds:.1f} s)")
    return 1 if problems else 0


def _describe(options: argparse.Namespace) -> int:
    """Prints a program; of several ranks that of the first."""
    program = _programs(options)[0]
    shape, layout = program.shape, program.layout
    for title, part in (("shape", shape), ("layout", layout)):
        print(f"{title}: " + ", ".join(f"{name} {value}" for name, value in vars(part).items()))
    sizes = program.stream_bytes()
    print(f"weights a token: {sizes.sum() / 1e9:.3f} GB; an SM {sizes.min() / 1e6:.2f} to {sizes.max() / 1e6:.2f} MB")
    if shape.experts:
        gigabytes = program.expert_bytes / 1e9
        print(f"experts beside these: {gigabytes * shape.top_k / shape.experts:.3f} GB a token, of {gigabytes:.3f}")
    used = held_bytes(program, CAPACITY)
    each = ", ".join(f"{name} {size / 1e9:.3f}" for name, size in used.items())
    print(f"a GPU holds {sum(used.values()) / 1e9:.3f} GB with caches of {CAPACITY} tokens, codes left out: {each}")
    rows = [words for table in program.instructions for words in instruction_rows(table)]
    counts, units, idle = (Counter[int]() for _ in range(3))
    for words in rows:
        counts[words["op"]] += 1
        units[words["op"]] += words["units"]
        idle[words["op"]] += words["k_tiles"] > 0 and words["units"] == 0
    print(f"{'instruction':12} {'a token':>8} {'row tiles':>10} {'without':>8}")
    for op, count in sorted(counts.items()):
        print(f"{OP_NAMES[op]:12} {count:8} {units[op]:10} {idle[op]:8}")
    return 0


def _trace(options: argparse.Namespace) -> int:
    chrome = options.raw.suffix in (".json", ".gz")
    if chrome and options.output:
        raise InputRefused(f"--output: {options.raw} is a Chrome trace already")
    timeline = trace.read_chrome(options.raw) if chrome else trace.timeline_of(trace.load(options.raw))
    layer = timeline.layers // 2 if options.layer is None else options.layer
    if not 0 <= layer <= timeline.layers:
        raise InputRefused(f"--layer: {layer} is not 0 to {timeline.layers}")
    output = options.raw if chrome else options.output or options.raw.with_suffix(".json")
    if not chrome:
        trace.write_chrome(output, timeline)
    _show(timeline, layer)
    print(f"{output}: open it in ui.perfetto.dev or chrome://tracing")
    return 0


def _record(options: argparse.Namespace) -> int:
    from kernels.megakernel.host.record import record

    config = config_of(options.model)
    for name in ("prompt", "tokens", "batch", "tensor_parallel_size"):
        if getattr(options, name) < 1:
            raise InputRefused(f"--{name.replace('_', '-')}: {getattr(options, name)} is less than 1")
    if not options.output.resolve().parent.is_dir():
        raise InputRefused(f"--output: there is no directory {options.output.resolve().parent}")
    most = config.get("num_hidden_layers", 0)
    if not 0 <= options.layers <= most:
        raise InputRefused(f"--layers: {options.layers} is not 0 to {most}")
    if options.layers:
        config |= {"num_hidden_layers": options.layers}
    if options.tensor_parallel_size > 1:
        shard_of(shape_of(config), options.tensor_parallel_size)
    request = options.prompt, options.tokens, options.batch, options.weights, options.tensor_parallel_size
    timeline = trace.timeline_of(record(config, options.output, *request))
    _show(timeline, timeline.layers // 2)
    print(f"{options.output}: python -m kernels megakernel trace makes a Chrome trace of it")
    return 0


def _show(timeline: trace.Timeline, layer: int) -> None:
    """The summary and one layer of some SMs as text."""
    print("\n".join(trace.draw_activity(timeline, layer, range(0, timeline.sms, -(-timeline.sms // MAX_DRAWN)))))
    print(f"{'µs of the mean SM':18}" + "".join(f"{phase:>10}" for phase in trace.PHASES))
    for name, spent in trace.summary(timeline).items():
        print(f"{name:18}" + "".join(f"{us:10.1f}" for us in spent))


def held_bytes(program: Program, capacity: int) -> dict[str, int]:
    """Bytes by what they are for: the larger tensors of the rank that runs the program, with caches of `capacity`
    tokens.

    A rank's matrices are there twice: row by row in bf16 for prompts, and in the order in which the launch streams
    them, which has the rank's rows of the LM head too. The first rank alone uses the LM head that prompts read.
    The codes that a model in lower precision keeps are not counted: about as many bytes as its stream.
    """
    shape, batch = program.shape, program.layout.batch
    layer = shape.hidden * (shape.qkv_rows + shape.heads * shape.head_dim)
    mlp = shape.hidden * (shape.experts + (shape.experts or 1) * 3 * shape.expert_size)
    table = 2 * shape.vocab * shape.hidden
    experts = {"experts of the launch": program.expert_bytes} if shape.experts else {}
    return experts | {
        "matrices for prompts": 2 * shape.layers * (layer + mlp),
        "stream of the launch": int((-(-program.stream_bytes() // ALIGNMENT) * ALIGNMENT).sum()),
        "embedding": table,
        "LM head": 0 if shape.tied else table,
        "keys and values": 2 * 2 * shape.layers * batch * capacity * shape.kv_heads * shape.head_dim,
    }
