"""`python -m kernels list`: the variants, what each serves and needs."""

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

from kernels import registry
from kernels.cases import check_cases
from kernels.hardware import GENERATIONS, GPUS, Gpu, generation
from kernels.ops import Case, ModelCase
from kernels.ops.attention import AttentionCase
from kernels.ops.base import BaseCase
from kernels.ops.fft_conv import FftConvCase
from kernels.ops.grouped import GroupedCase
from kernels.ops.linear import LinearCase
from kernels.ops.rmsnorm import RmsNormCase
from kernels.ops.rope import RopeCase
from kernels.quant.formats import INT4
from kernels.registry import Variant

LIBRARY_ONLY: dict[str, Callable[[BaseCase], bool]] = {
    "products of experts in fp8": lambda case: isinstance(case, GroupedCase) and case.scales is not None,
    "products of fp8 with fp8": lambda case: isinstance(case, LinearCase) and case.scales is not None,
    "fp8 outputs": lambda case: (
        (isinstance(case, LinearCase) and case.epilogue == "quantise")
        or (isinstance(case, RmsNormCase) and case.quantise is not None)
    ),
    "packed prompts": lambda case: isinstance(case, AttentionCase) and case.lengths is not None,
    "attention without causality": lambda case: isinstance(case, AttentionCase) and not case.causal,
    "rotations without a cache": lambda case: isinstance(case, RopeCase) and not case.append,
    "circular convolutions": lambda case: isinstance(case, FftConvCase) and case.circular,
    "filters that channels share": lambda case: isinstance(case, FftConvCase) and case.filters is not None,
    "inputs added behind convolutions": lambda case: isinstance(case, FftConvCase) and case.skip,
}
"""Features by the name that pages and `list` show. A test compares them with the cases that runners make."""


def list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--generations", action="store_true", help="print a table of the generations of GPUs served")


def list(options: argparse.Namespace) -> int:
    """Prints every variant. Returns 0."""
    cases: dict[str, Sequence[Case]] = {}
    rows = []
    for variant in registry.variants():
        if variant.op not in cases:
            cases[variant.op] = _cases(variant)
        rows.append(_row(variant, cases[variant.op]))
    if options.generations:
        print(_generations(rows))
        return 0
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    width = max(len(row["variant"]) for row in rows)
    for row in rows:
        marks = ", ".join([mark for mark in ("peer", "lossy") if row[mark]] + ["library only"] * row["library_only"])
        cells = [f"{row['summary']}{f' ({marks})' if marks else ''}", _where(row), " ".join(row["dtypes"])]
        print(f"{row['variant']:<{width}}  {row['op']:<14}  {'; '.join(filter(None, cells))}")
    return 0


def _generations(rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table: for each variant of ours, which compute capabilities it serves."""
    mine = [row for row in rows if not row["peer"]]
    marks = [" | ".join("yes" if sm in row["generations"] else "–" for sm in GENERATIONS) for row in mine]
    lines = [
        f"| variant | {' | '.join(f'sm_{sm}' for sm in GENERATIONS)} |",
        "| --- |" + " --- |" * len(GENERATIONS),
        *(f"| `{row['variant']}` | {mark} |" for row, mark in zip(mine, marks, strict=True)),
    ]
    return "\n".join(lines)


def _where(row: dict[str, Any]) -> str:
    cpu = "cpu" in row["gpus"]
    if len(row["generations"]) == len(GENERATIONS):
        return "any device" if cpu else "any GPU"
    return " ".join([f"sm_{sm}" for sm in row["generations"]] + ["cpu"] * cpu)


def _cases(variant: Variant) -> Sequence[Case]:
    if variant.op != "model":
        return [*check_cases(variant.op, cpu=False), *check_cases(variant.op, cpu=True)]
    weights = ("bf16", "int8", "fp8", "nvfp4", "mxfp4", *INT4)
    return [ModelCase(model="", weights=weight, batch=1, prompt=128, tokens=64) for weight in weights]  # type: ignore[arg-type]


def _row(variant: Variant, cases: Sequence[Case]) -> dict[str, Any]:
    """GPU classes, generations and types in which some cases are served. `library_only`: no runner uses any of them;
    `library_only_features`: those that no runner uses.
    """
    serving = [gpu for gpu in GPUS.values() if any(variant.serves(case, gpu) is None for case in cases)]
    dtypes = dict.fromkeys(str(getattr(case, "dtype", "")) for case in cases)
    served = [case for case in cases if any(variant.serves(case, gpu) is None for gpu in serving)]
    return {
        "variant": variant.name,
        "op": variant.op,
        "summary": variant.summary,
        "peer": variant.peer,
        "lossy": variant.lossy,
        "gpus": [gpu.gpu_class for gpu in serving],
        "generations": [
            sm for sm in GENERATIONS if any(variant.serves(case, generation(sm)) is None for case in cases)
        ],
        "dtypes": [dtype for dtype in dtypes if dtype and serving and _serves_dtype(variant, dtype, cases, serving[0])],
        "build_seconds": variant.build_seconds,
        "library_only": all(library_only(case) for case in served),
        "library_only_features": sorted({name for case in served for name in library_only(case)}),
    }


def _serves_dtype(variant: Variant, dtype: str, cases: Sequence[Case], gpu: Gpu) -> bool:
    return any(getattr(case, "dtype", "") == dtype and variant.serves(case, gpu) is None for case in cases)


def library_only(case: BaseCase) -> Sequence[str]:
    """The features of the case that no runner uses."""
    return [name for name, has in LIBRARY_ONLY.items() if has(case)]
